"""``voxrepo rollout start``: everything is checked before anything is written."""

from __future__ import annotations

from pathlib import Path

from voxrepo.cli.rollout_follow import controller_of, opened, who
from voxrepo.convert.staging import existing_versions
from voxrepo.repository.arms import check_arm
from voxrepo.repository.check import check_voice
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.check import check_spec
from voxrepo.rollout.overview import NO_CONTROLLER
from voxrepo.rollout.plan import RolloutFolder
from voxrepo.rollout.spec import RolloutSpec
from voxrepo.rollout.state import Rollout
from voxrepo_contract import yamlfile
from voxrepo_contract.errors import ConfigError, Unavailable
from voxrepo_contract.names import VOICE_STAGES, stage_model_name


def check_rollout(layout: Layout, spec: RolloutSpec, file: Path | None) -> dict[str, int]:
    """Hold a spec against the repository: versions, files, interfaces, and rollouts that are under way.

    Args:
        layout: of the root.
        spec: valid in itself.
        file: that it was read from, for messages.

    Returns:
        the versions that the voice has now.

    Raises:
        ConfigError: it cannot be carried out; with file and line where it has them.
        InvalidArgument: likewise.
    """
    voices = {}
    for name in layout.voice_names():
        try:
            voices[name] = read_voice(layout, name).versions
        except ConfigError:
            if name == spec.voice:
                raise
    active = {}
    if RolloutFolder(layout.rollouts).database.exists():
        with opened(layout) as store:
            active = store.active()
    there = {
        stage: existing_versions(layout.model_repository / stage_model_name(spec.voice, stage))
        for stage in VOICE_STAGES
    }
    try:
        check_spec(spec, voices, there, active, file=file)
    except ConfigError as error:
        where = error.problem.split(": ", 1)[0]
        raise ConfigError(
            error.problem, file=file, line=None if file is None else yamlfile.line_of(file, where)
        ) from error
    voice = check_voice(layout, spec.voice)
    for arm, changed in spec.arms.items():
        check_arm(layout, voice, arm, changed)
    return dict(voice.spec.versions)


def begin(layout: Layout, spec: RolloutSpec, stable: dict[str, int]) -> Rollout:
    """Write a checked rollout down for the controller.

    Raises:
        Unavailable: there is no controller.
        AlreadyExists: another one of the voice was begun meanwhile.
        ConfigError: the database cannot be used.
    """
    if controller_of(layout) is None:
        raise Unavailable(f"{NO_CONTROLLER} (--root {layout.root}); nothing was begun")
    with opened(layout, create=True) as store:
        return store.create(spec, stable, by=who())
