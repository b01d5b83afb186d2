"""Adding a version of a stage: staged, checked beside its neighbours, tried in an engine, moved in in one step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import voxrepo
from voxrepo.convert.staging import alone_in, next_version, staging_folder, sync, sync_folder
from voxrepo.repository.arms import CheckedArm, check_arm
from voxrepo.repository.check import CheckedVoice, check_stage, check_voice
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import place_version
from voxrepo.versions.names import StageRef
from voxrepo.versions.scores import QUALITY_KEY, Scores
from voxrepo.versions.smoke import CANDIDATE, SmokeOptions, try_version
from voxrepo.versions.source import Base, Staged, stage_files
from voxrepo.versions.trial import trial_root
from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import AnyStage, sha256_of, write_stage

PROVENANCE_KEY = "added"
"""Key of ``provenance`` under which it is noted how the version came here."""

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class AddRequest:
    """What shall be added.

    Attributes:
        ref: the stage.
        source: what it is made of; see :func:`voxrepo.versions.source.stage_files`.
        command: for provenance.
        graph: the graph that a single file is.
        beside: versions of other stages that it is made for, if not those that the voice pins.
        note: for provenance.
        smoke: how it is tried; None if it is not.
    """

    ref: StageRef
    source: Path
    command: str
    graph: str | None = None
    beside: Mapping[str, int] | None = None
    note: str = ""
    smoke: SmokeOptions | None = None


@dataclass(frozen=True)
class AddedVersion:
    """A version that is in the repository now. Nothing serves it yet.

    Attributes:
        ref: the stage.
        version: its number.
        path: its folder.
        spec: its ``stage.yaml``.
        current: the version that the voice pins.
        scores: of the trial; None if there was none.
    """

    ref: StageRef
    version: int
    path: Path
    spec: AnyStage
    current: int
    scores: Scores | None

    def summary(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "voice": self.ref.voice,
            "stage": self.ref.stage,
            "version": self.version,
            "path": str(self.path),
            "current": self.current,
            "smoke": None if self.scores is None else self.scores.table(),
        }


def add_version(layout: Layout, request: AddRequest, progress: Progress = lambda text, share: None) -> AddedVersion:
    """Add a version of a stage. After a refusal, a failure or a kill nothing of it is in the repository.

    Raises:
        InvalidArgument: the request does not fit the repository, or the version is refused; the text says why.
        ConfigError: a file is wrong, does not fit its neighbours, or cannot be written.
        Unavailable: the engine for the trial does not start.
    """
    try:
        with alone_in(layout.model_repository):
            return _add(layout, request, progress)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=error.filename) from error


def _add(layout: Layout, request: AddRequest, progress: Progress) -> AddedVersion:
    ref = request.ref
    voice = check_voice(layout, ref.voice)
    beside = dict(request.beside or {})
    if ref.stage in beside:
        raise InvalidArgument(f"--with {ref.stage}={beside[ref.stage]}: that is the stage that gets a new version")
    for stage, number in beside.items():
        check_stage(layout, ref.voice, stage, number)
    base = base_of(layout, voice, ref.stage)
    version = next_version(base.folder.parent)
    with staging_folder(layout.model_repository) as staging:
        folder = staging / ref.stage
        folder.mkdir()
        progress("copying and checking", 0.0)
        staged = stage_files(request.source, folder, base, request.graph)
        spec = with_provenance(staged, provenance_of(request, staged, folder, base))
        write_stage(folder, spec)
        scores = _check_and_try(layout, voice, request, {(ref.stage, version): folder}, beside, version, progress)
        if scores is not None:
            tried: dict[str, Any] = {**scores.table(), "compared_with": base.version}
            if beside:
                tried["beside"] = beside
            spec = spec.model_copy(update={"quality": {**spec.quality, QUALITY_KEY: tried}})
            write_stage(folder, spec)
        sync_folder(folder)
        path = place_version(layout, ref.model, version, folder)
        sync(path.parent)
    return AddedVersion(ref, version, path, spec, base.version, scores)


def base_of(layout: Layout, voice: CheckedVoice, stage: str) -> Base:
    """The version of a stage that a voice pins."""
    number = voice.spec.versions[stage]
    return Base(number, layout.version_dir(stage_model_name(voice.spec.voice, stage), number), voice.stages[stage])


def _check_and_try(
    layout: Layout,
    voice: CheckedVoice,
    request: AddRequest,
    folders: dict[tuple[str, int], Path],
    beside: dict[str, int],
    version: int,
    progress: Progress,
) -> Scores | None:
    further = {
        (stage, number): layout.version_dir(stage_model_name(voice.spec.voice, stage), number)
        for stage, number in beside.items()
    }
    with trial_root(layout, voice, {**further, **folders}) as trial:
        arm = checked_in(trial, voice.spec.voice, {**beside, request.ref.stage: version}, request.source)
        return None if request.smoke is None else try_version(trial, arm, request.smoke, progress)


def checked_in(trial: Layout, voice: str, versions: Mapping[str, int], source: Path) -> CheckedArm:
    """Check in the trial's root that versions fit their neighbours; messages name what the user gave instead.

    Raises:
        ConfigError: they do not.
    """
    current = check_voice(trial, voice)
    try:
        return check_arm(trial, current, CANDIDATE, versions)
    except ConfigError as error:
        raise ConfigError(error.problem, file=source) from error


def provenance_of(request: AddRequest, staged: Staged, folder: Path, base: Base) -> dict[str, Any]:
    """Where a version comes from, as plain values."""
    values: dict[str, Any] = {
        "source": request.source.name,
        "files": {given: sha256_of(folder / name) for given, name in staged.given.items()},
        "command": request.command,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "voxrepo": voxrepo.__version__,
        "smoke": "done" if request.smoke is not None else "skipped (--no-smoke)",
    }
    if staged.completed:
        values["completed_from"] = base.version
    if request.note:
        values["note"] = request.note
    return values


def with_provenance(staged: Staged, values: dict[str, Any]) -> AnyStage:
    """The version's ``stage.yaml``, with a note of how it came here."""
    spec = staged.spec
    return spec.model_copy(update={"provenance": {**spec.provenance, PROVENANCE_KEY: values}})
