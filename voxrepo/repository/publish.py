"""Putting rendered configurations and new versions where the engine reads them."""

from __future__ import annotations

from pathlib import Path

from voxrepo.repository.check import CheckedVoice, Inventory, Problem
from voxrepo.repository.layout import CONFIG_FILE, Layout
from voxrepo.repository.render import ensemble_config, render, stage_config
from voxrepo_contract.errors import AlreadyExists, ConfigError
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.yamlfile import write_text_atomically

ENSEMBLE_VERSION = "1"
"""An ensemble needs a version directory, which stays empty; its stages carry the real versions."""


def rendered_configs(layout: Layout, voice: CheckedVoice, cores: int) -> dict[Path, str]:
    """The ``config.pbtxt`` files of a voice, by path. Pure apart from reading ``layout``."""
    spec = voice.spec
    files = {
        layout.model_repository / stage_model_name(spec.voice, stage) / CONFIG_FILE: render(
            stage_config(
                spec.voice, stage, settings, channels=voice.channels, cores=cores, on_npu=voice.is_on_npu(stage)
            )
        )
        for stage, settings in spec.stages.items()
    }
    files[layout.ensembles / spec.voice / CONFIG_FILE] = render(ensemble_config(spec))
    return files


def publish_configs(layout: Layout, voice: CheckedVoice, cores: int) -> list[Path]:
    """Write those configurations that differ from what is on disk; returns the files written.

    Raises:
        ConfigError: a file differs and cannot be written.
    """
    written = []
    try:
        (layout.ensembles / voice.spec.voice / ENSEMBLE_VERSION).mkdir(exist_ok=True)
        for file, text in rendered_configs(layout, voice, cores).items():
            if not file.is_file() or file.read_bytes() != text.encode():
                write_text_atomically(file, text)
                written.append(file)
    except OSError as error:
        raise ConfigError(
            f"cannot be written ({error.strerror}), and what is there does not fit this machine or voice.yaml",
            file=error.filename,
        ) from error
    return written


def publish_all(layout: Layout, inventory: Inventory, cores: int) -> list[Path]:
    """Write the configurations of all voices; returns the files written.

    A voice whose files cannot be written becomes a problem of the inventory.
    """
    written: list[Path] = []
    for name, voice in list(inventory.voices.items()):
        try:
            written += publish_configs(layout, voice, cores)
        except ConfigError as error:
            del inventory.voices[name]
            inventory.problems.append(Problem(name, "voice", error.message))
    return written


def place_version(layout: Layout, model: str, version: int, staged: Path) -> Path:
    """Move a staged version directory into the repository in one step.

    Args:
        layout: of the root.
        model: name of the model.
        version: number of the version.
        staged: complete directory on the same file system.

    Raises:
        AlreadyExists: the version is there already.
    """
    target = layout.version_dir(model, version)
    if target.exists():
        raise AlreadyExists(f"{model} has a version {version} already ({target}); give another version or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    staged.rename(target)
    return target
