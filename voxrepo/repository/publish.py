"""Putting rendered configurations and new versions where the engine reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from voxrepo.repository.arms import ArmSpec, arm_model_name, arms_on_disk, prepare_arm, remove_arm
from voxrepo.repository.check import CheckedVoice, Inventory, Problem
from voxrepo.repository.layout import CONFIG_FILE, Layout
from voxrepo.repository.render import ensemble_config, render, stage_config
from voxrepo_contract.errors import AlreadyExists, ConfigError
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.yamlfile import write_text_atomically

STAGING_PREFIX = ".staging-"
"""Of folders in which versions are made, followed by the process id; the engine ignores them until they are moved."""
ENSEMBLE_VERSION = "1"
"""An ensemble needs a version directory, which stays empty; its stages carry the real versions."""


def rendered_configs(
    layout: Layout,
    voice: CheckedVoice,
    cores: int,
    arms: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    keep: Mapping[str, Collection[int]] = MappingProxyType({}),
) -> dict[Path, str]:
    """The ``config.pbtxt`` files of a voice and its arms, by path. Pure apart from reading ``layout``.

    How many instances a stage gets follows from the version that the voice pins, so that arms change nothing but the
    list of versions: any other change would start all of them anew.
    """
    spec = voice.spec
    files = {
        layout.model_repository / stage_model_name(spec.voice, stage) / CONFIG_FILE: render(
            stage_config(
                spec.voice,
                stage,
                settings,
                channels=voice.channels,
                cores=cores,
                on_npu=voice.is_on_npu(stage),
                arm_versions=[*(versions[stage] for versions in arms.values()), *keep.get(stage, ())],
            )
        )
        for stage, settings in spec.stages.items()
    }
    files[layout.ensembles / spec.voice / CONFIG_FILE] = render(ensemble_config(spec))
    for arm, versions in arms.items():
        name = arm_model_name(spec.voice, arm)
        files[layout.ensembles / name / CONFIG_FILE] = render(ensemble_config(spec, name=name, versions=versions))
    return files


def publish_configs(layout: Layout, voice: CheckedVoice, cores: int) -> list[Path]:
    """Write those configurations of a voice without arms that differ from what is on disk; returns the files written.

    Folders of arms stay as they are.

    Raises:
        ConfigError: a file differs and cannot be written.
    """
    return _write_configs(layout, voice, {}, cores)


@dataclass(frozen=True)
class Published:
    """What a publication changed.

    Attributes:
        written: configurations that were written.
        removed: folders of arms that were removed.
    """

    written: tuple[Path, ...]
    removed: tuple[Path, ...]


def publish_voice(
    layout: Layout,
    voice: CheckedVoice,
    arms: Mapping[str, Mapping[str, int]],
    cores: int,
    *,
    keep: Mapping[str, Collection[int]] = MappingProxyType({}),
) -> Published:
    """Bring the configurations of a voice and its arms to disk, writing only what differs.

    To be called at the moment before the engine is told: it takes what a stage's configuration says at its next load,
    and also when any ensemble over that stage is loaded. An arm that is left out must have been unloaded before.

    Args:
        layout: of the root.
        voice: as the engine serves it, which need not be what ``voice.yaml`` says now.
        arms: versions of all stages by name of the arm; folders of other arms of this voice are removed.
        cores: usable cores of this machine.
        keep: further versions by stage that stay loaded, as requests in flight still use them.

    Raises:
        ConfigError: a file differs and cannot be written.
    """
    written = _write_configs(layout, voice, arms, cores, keep)
    surplus = [found for found in arms_on_disk(layout) if found.voice == voice.spec.voice and found.arm not in arms]
    return Published(tuple(written), tuple(remove_arm(layout, found.voice, found.arm) for found in surplus))


def _write_configs(
    layout: Layout,
    voice: CheckedVoice,
    arms: Mapping[str, Mapping[str, int]],
    cores: int,
    keep: Mapping[str, Collection[int]] = MappingProxyType({}),
) -> list[Path]:
    written = []
    try:
        (layout.ensembles / voice.spec.voice / ENSEMBLE_VERSION).mkdir(exist_ok=True)
        for arm, versions in arms.items():
            prepare_arm(layout, ArmSpec(voice=voice.spec.voice, arm=arm, versions=dict(versions)), ENSEMBLE_VERSION)
        for file, text in rendered_configs(layout, voice, cores, arms, keep).items():
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
