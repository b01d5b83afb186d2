"""Arms on disk: one more ensemble over a voice's stages, with other versions pinned.

The folder ``ensembles/<voice>.<arm>/`` holds ``config.pbtxt`` and a marker ``arm.yaml``. Whether an arm is served is
for the rollout to say; a folder that a killed server left behind counts for nothing and goes at the next start.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from voxrepo.repository.check import CheckedVoice, check_fit, check_stage
from voxrepo.repository.layout import ARM_FILE, Layout
from voxrepo.rollout.route import PREVIOUS_ARM, RESERVED_ARMS, STABLE_ARM
from voxrepo_contract import yamlfile
from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.names import VOICE_STAGES, is_model_name, stage_model_name
from voxrepo_contract.stage import STAGE_FILE, AnyStage
from voxrepo_contract.yamlfile import StrictModel

SERVERS_OWN = frozenset({PREVIOUS_ARM, STABLE_ARM})
"""Names that no spec may use and a server does: what was stable before, and what is about to be."""
_PARTIAL_PREFIX = ".arm-"
_SHARED_FIELDS = ("channels", "hop_length_samples", "sample_rate_hz", "speakers")
"""What all versions of a stage must have in common while they are served together: they share one configuration and
one description to clients."""


class ArmSpec(StrictModel):
    """``arm.yaml``.

    Attributes:
        voice: whose stages it uses.
        arm: its name within the voice.
        versions: of each stage.
    """

    voice: str
    arm: str
    versions: dict[str, Annotated[int, Field(ge=1)]]


@dataclass(frozen=True)
class CheckedArm:
    """An arm whose files are sound and whose stages fit each other and the voice.

    Attributes:
        voice: that it is an arm of.
        arm: its name within the voice.
        versions: of each stage.
        stages: likewise.
    """

    voice: CheckedVoice
    arm: str
    versions: dict[str, int]
    stages: dict[str, AnyStage]

    @property
    def name(self) -> str:
        """Name of its ensemble."""
        return arm_model_name(self.voice.spec.voice, self.arm)

    @property
    def differing(self) -> tuple[str, ...]:
        """Stages of another version than the voice's, in the order of a request."""
        return tuple(stage for stage in VOICE_STAGES if self.versions[stage] != self.voice.spec.versions[stage])

    def as_voice(self) -> CheckedVoice:
        """The voice as it is when it has the arm's versions."""
        spec = self.voice.spec
        settings = {
            stage: old.model_copy(update={"version": self.versions[stage]}) for stage, old in spec.stages.items()
        }
        stages = spec.stages.model_copy(update=settings)
        return CheckedVoice(spec.model_copy(update={"stages": stages}), self.stages)


def arm_model_name(voice: str, arm: str) -> str:
    """Name of the ensemble that serves an arm."""
    return f"{voice}.{arm}"


def check_arm_name(layout: Layout, voice: str, arm: str) -> None:
    """Refuse a name that means something else, or that a model has.

    Raises:
        InvalidArgument: it may not name an arm.
        ConfigError: a folder has the name of the arm's ensemble, or of its stream.
    """
    name = arm_model_name(voice, arm)
    if not arm or not is_model_name(name) or arm in RESERVED_ARMS - SERVERS_OWN:
        raise InvalidArgument(
            f"{arm!r} cannot name an arm: use letters, digits, '_', '-' and '.' only, and none of "
            f"{', '.join(sorted(RESERVED_ARMS))}"
        )
    for repository in (layout.ensembles, layout.model_repository):
        for folder in (repository / name, repository / f"{name}.stream"):
            if folder.is_dir() and not (repository == layout.ensembles and (folder / ARM_FILE).is_file()):
                raise ConfigError(
                    f"is in the way of the arm {arm!r} of {voice}, whose ensemble has this name; rename this folder "
                    "or the arm",
                    file=folder,
                )


def check_arm(layout: Layout, voice: CheckedVoice, arm: str, versions: Mapping[str, int]) -> CheckedArm:
    """Verify the files of an arm's versions, and that they fit each other and the voice.

    Args:
        layout: of the root.
        voice: as it is served.
        arm: its name within the voice.
        versions: by stage; stages that are left out have the voice's version.

    Raises:
        InvalidArgument: the name cannot be used, or there is no such stage.
        ConfigError: a version is missing or damaged, or does not fit; both values are in the message.
    """
    spec = voice.spec
    check_arm_name(layout, spec.voice, arm)
    unknown = sorted(set(versions) - set(VOICE_STAGES))
    if unknown:
        raise InvalidArgument(f"{unknown[0]!r} is no stage of a voice; there are {', '.join(VOICE_STAGES)}")
    pinned = {**spec.versions, **versions}
    stages = {
        stage: voice.stages[stage]
        if version == spec.versions[stage]
        else check_stage(layout, spec.voice, stage, version)
        for stage, version in pinned.items()
    }
    for stage, version in pinned.items():
        file = layout.version_dir(stage_model_name(spec.voice, stage), version) / STAGE_FILE
        check_shared(voice, stage, stages[stage], file)
    check_fit(spec, stages, pinned, layout.ensembles / arm_model_name(spec.voice, arm))
    return CheckedArm(voice, arm, pinned, stages)


def check_shared(voice: CheckedVoice, stage: str, found: AnyStage, file: Path) -> None:
    """Check that a version can be served beside the one that the voice has.

    Raises:
        ConfigError: it cannot; both values are in the message.
    """
    served = voice.stages[stage]
    for field in _SHARED_FIELDS:
        mine, theirs = getattr(found.interface, field), getattr(served.interface, field)
        if mine != theirs:
            raise ConfigError(
                f"interface.{field}: is {mine!r}, but {theirs!r} in version {voice.spec.versions[stage]}, which is "
                "served; versions of a stage share one configuration and must agree, serve this one under another "
                "voice",
                file=file,
            )


def arms_on_disk(layout: Layout) -> list[ArmSpec]:
    """Arms whose folders are there, whether or not anybody serves them; a damaged marker gives an empty one."""
    if not layout.ensembles.is_dir():
        return []
    found = []
    for file in sorted(layout.ensembles.glob(f"*/{ARM_FILE}")):
        try:
            spec = yamlfile.read(file, ArmSpec)
        except ConfigError:
            continue  # the folder counts for nothing, and is removed by remove_left_arms
        if arm_model_name(spec.voice, spec.arm) == file.parent.name:
            found.append(spec)
    return found


def prepare_arm(layout: Layout, spec: ArmSpec, version: str) -> Path:
    """Make an arm's folder with its marker and the empty version directory that an ensemble needs.

    It appears whole, so that a kill leaves no folder without a marker, which would count as a broken model.

    Args:
        layout: of the root.
        spec: of the arm.
        version: name of the version directory.

    Raises:
        OSError: it cannot be made.
    """
    folder = layout.ensembles / arm_model_name(spec.voice, spec.arm)
    if folder.is_dir():
        (folder / version).mkdir(exist_ok=True)
        file = folder / ARM_FILE
        text = yamlfile.dump(spec)
        if not file.is_file() or file.read_bytes() != text.encode():
            yamlfile.write_text_atomically(file, text)
        return folder
    partial = Path(tempfile.mkdtemp(prefix=f"{_PARTIAL_PREFIX}{os.getpid()}-", dir=layout.ensembles))
    try:
        partial.chmod(0o755)
        (partial / version).mkdir()
        yamlfile.write(partial / ARM_FILE, spec)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return folder


def remove_arm(layout: Layout, voice: str, arm: str) -> Path:
    """Remove an arm's folder, which the engine must have unloaded; returns its path. None of it is data."""
    folder = layout.ensembles / arm_model_name(voice, arm)
    _remove(folder)
    return folder


def remove_left_arms(layout: Layout) -> list[Path]:
    """Remove the folders of all arms, before an engine has loaded any; returns their paths."""
    if not layout.ensembles.is_dir():
        return []
    folders = sorted(file.parent for file in layout.ensembles.glob(f"*/{ARM_FILE}"))
    for folder in (*folders, *layout.ensembles.glob(f"{_PARTIAL_PREFIX}*")):
        _remove(folder)
    return folders


def _remove(folder: Path) -> None:
    """The marker goes last: half of a folder is still an arm's."""
    if folder.is_dir():
        for entry in folder.iterdir():
            if entry.name != ARM_FILE:
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
