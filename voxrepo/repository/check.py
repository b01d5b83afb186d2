"""Checking a repository before the engine sees it.

The engine hangs on some broken version directories, aborts on others and runs a shell on some names; and its messages
name no line. So everything is checked here first: what is sound is loaded, what is not is named with file, line and
reason, and nothing else suffers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from voxrepo.repository.foreign import BACKEND
from voxrepo.repository.graph_model import CheckedModel, check_graph_model, served_versions, versions_of
from voxrepo.repository.layout import ARM_FILE, CONFIG_FILE, Layout
from voxrepo.repository.voice import VoiceSpec, read_voice
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.foreign import OM_FILE, ONNX_FILE
from voxrepo_contract.names import STREAM_SUFFIX, VOICE_STAGES, is_model_name, is_version_name, stage_model_name
from voxrepo_contract.stage import STAGE_FILE, AnyStage, Interface, TextFrontendStage, read_stage, verify_files

_INTERFACE_EDGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("text_frontend", "acoustic", ("inventory_sha256", "speakers")),
    ("acoustic", "vocoder", ("feature_kind", "channels", "hop_length_samples", "sample_rate_hz")),
)

MODEL_FILE = "model.py"

_LOOKS_LIKE_VERSION = re.compile(r"\A-?[0-9]")


@dataclass(frozen=True)
class Problem:
    """Why a model, or one version of it, is not served."""

    model: str
    kind: Literal["voice", "model"]
    reason: str
    version: int | None = None

    @property
    def subject(self) -> str:
        """What it is about, for messages."""
        return self.model if self.version is None else f"{self.model} version {self.version}"


@dataclass(frozen=True)
class CheckedVoice:
    """A voice whose files are sound and whose stages fit together."""

    spec: VoiceSpec
    stages: dict[str, AnyStage]

    @property
    def channels(self) -> int:
        """C of ``features``."""
        channels = self.stages["vocoder"].interface.channels
        assert channels is not None
        return channels

    def is_on_npu(self, stage: str) -> bool:
        """Whether a graph of the stage asks for an NPU."""
        return any(graph.device == "npu" for graph in self.stages[stage].graphs.values())


@dataclass
class Inventory:
    """What a repository holds.

    Attributes:
        voices: sound voices by name.
        models: configurations of sound models by name that belong to no voice.
        completed: those of them whose configuration is not what is on disk, so that the engine must be handed it.
        versions: versions of each model that are served.
        problems: everything that is not served, with the reason.
    """

    voices: dict[str, CheckedVoice] = field(default_factory=dict)
    models: dict[str, ModelConfig] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)
    versions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def mismatch(left: Interface, right: Interface, names: tuple[str, ...]) -> tuple[str, object, object] | None:
    """First field in which two interfaces differ, with both values; a field missing on either side differs too."""
    for name in names:
        a, b = getattr(left, name), getattr(right, name)
        if a is None or a != b:
            return name, a, b
    return None


def check_version_names(model_dir: Path) -> None:
    """Refuse directories that the engine would take for a version and stumble over.

    Raises:
        ConfigError: naming the directory.
    """
    for entry in sorted(model_dir.iterdir()):
        if entry.is_dir() and _LOOKS_LIKE_VERSION.match(entry.name) and not is_version_name(entry.name):
            raise ConfigError(
                "the engine would misread this directory name as a version; rename it to a plain number from 1 up, "
                "or move it out of the repository",
                file=entry,
            )


def check_names_are_free(layout: Layout, spec: VoiceSpec) -> None:
    """Refuse a voice of whose models the engine would find one in both repositories: it then loads neither.

    Raises:
        ConfigError: naming the folder in the way.
    """
    rivals = [
        layout.model_repository / spec.voice,
        *(layout.ensembles / model for model in spec.stage_models().values()),
    ]
    for rival in rivals:
        if rival.is_dir():
            raise ConfigError(
                f"the voice {spec.voice!r} has a model of this name in the other repository, and the engine loads "
                "neither of two; rename this folder or move it out",
                file=rival,
            )
    for folder in (layout.model_repository, layout.ensembles):
        stream = folder / f"{spec.voice}{STREAM_SUFFIX}"
        if stream.is_dir():
            raise ConfigError(
                f"{stream.name} is the name under which the voice {spec.voice!r} is streamed, so that no client would "
                "reach this model; rename this folder or move it out",
                file=stream,
            )


def check_stage(layout: Layout, voice: str, stage: str, version: int) -> AnyStage:
    """Read one stage version, verify its files and its place in the voice.

    Raises:
        ConfigError: what is wrong, and where.
    """
    version_dir = layout.version_dir(stage_model_name(voice, stage), version)
    if not version_dir.is_dir():
        raise ConfigError("the version directory is missing", file=version_dir)
    check_version_names(version_dir.parent)
    checked = read_stage(version_dir)
    if checked.stage != stage:
        raise ConfigError(f"stage: is {checked.stage!r}, but it is served as {stage!r}", file=version_dir / STAGE_FILE)
    verify_files(version_dir, checked)
    return checked


def check_voice(layout: Layout, name: str) -> CheckedVoice:
    """Read a voice with all its stages and check that neighbours fit.

    Raises:
        ConfigError: a file is wrong, or two stages do not fit; both values are in the message.
    """
    if not is_model_name(name):
        raise ConfigError(
            "a voice's name may hold letters, digits, '_', '-' and '.' only; rename the folder",
            file=layout.ensembles / name,
        )
    spec = read_voice(layout, name)
    check_names_are_free(layout, spec)
    stages = {stage: check_stage(layout, name, stage, settings.version) for stage, settings in spec.stages.items()}
    check_fit(spec, stages, spec.versions, layout.voice_file(name))
    return CheckedVoice(spec, stages)


def check_fit(spec: VoiceSpec, stages: Mapping[str, AnyStage], versions: Mapping[str, int], file: Path) -> None:
    """Check that stage versions fit each other and the voice.

    Args:
        spec: of the voice.
        stages: the three stages.
        versions: number of the version of each, for messages.
        file: that pairs them, for messages.

    Raises:
        ConfigError: they do not; both values are in the message.
    """
    for left, right, fields in _INTERFACE_EDGES:
        difference = mismatch(stages[left].interface, stages[right].interface, fields)
        if difference is not None:
            what, a, b = difference
            raise ConfigError(
                f"{left} version {versions[left]} has {what} {a!r} and {right} version {versions[right]} "
                f"has {b!r}; pair versions that were made for each other",
                file=file,
            )
    vocoder_rate = stages["vocoder"].interface.sample_rate_hz
    if vocoder_rate != spec.sample_rate_hz:
        raise ConfigError(f"sample_rate_hz: is {spec.sample_rate_hz}, the vocoder makes {vocoder_rate}", file=file)
    speakers = stages["acoustic"].interface.speakers
    if speakers != len(spec.speakers):
        raise ConfigError(f"speakers: lists {len(spec.speakers)} names, the acoustic stage knows {speakers}", file=file)
    front_end = stages["text_frontend"]
    if isinstance(front_end, TextFrontendStage) and front_end.options.speakers != spec.speakers:
        raise ConfigError(
            f"speakers: is {spec.speakers}, the text front end knows {front_end.options.speakers}; make them equal",
            file=file,
        )


def check_model(model_dir: Path, cores: int = 1) -> CheckedModel:
    """Check a model that belongs to no voice: its name, versions, configuration and, for ``ascend_om``, its files.

    A model of ``ascend_om`` needs no configuration, or only the part that it cares about: the rest is completed.

    Raises:
        ConfigError: what is wrong, and where.
    """
    if not is_model_name(model_dir.name):
        raise ConfigError(
            "a model's name may hold letters, digits, '_', '-' and '.' only; rename the folder", file=model_dir
        )
    check_version_names(model_dir)
    file = model_dir / CONFIG_FILE
    has_graph = holds_graph(model_dir)
    if has_graph and not file.exists() and not file.is_symlink():
        config, text = ModelConfig(), ""
    else:
        config, text = read_config(file)
    if config.name and config.name != model_dir.name:
        raise ConfigError(
            f"name: is {config.name!r} in a folder named {model_dir.name!r}; make them equal",
            file=file,
        )
    versions = versions_of(model_dir)
    if not versions:
        raise ConfigError("the model has no version directory (a folder named 1, 2, ...)", file=model_dir)
    if config.backend == BACKEND or (has_graph and config.backend != "python" and config.platform != "ensemble"):
        return check_graph_model(model_dir, config, text, cores)
    for version in versions:
        code = model_dir / str(version) / (config.default_model_filename or MODEL_FILE)
        if config.backend == "python" and not code.is_file():
            # the engine waits for ever for a model.py that is not there
            raise ConfigError("the file is missing", file=code)
    return CheckedModel(config, versions=tuple(served_versions(config, versions, file)))


def holds_graph(model_dir: Path) -> bool:
    """Whether a version holds a graph file, or says in a ``stage.yaml`` which file is one."""
    return any(
        (model_dir / str(version) / name).exists() or (model_dir / str(version) / name).is_symlink()
        for version in versions_of(model_dir)
        for name in (STAGE_FILE, ONNX_FILE, OM_FILE)
    )


def read_config(file: Path) -> tuple[ModelConfig, str]:
    """Parse a ``config.pbtxt``; returns what it says and its text.

    Raises:
        ConfigError: it is missing, not UTF-8, or not a model configuration; with the line.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError("the file is missing; every model needs its configuration", file=file) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read as UTF-8 text: {error}", file=file) from error
    if text.startswith("\ufeff"):
        raise ConfigError("starts with a byte order mark, which the engine cannot read; save it without", file=file)
    try:
        return text_format.Parse(text, ModelConfig()), text
    except text_format.ParseError as error:
        raise ConfigError(f"not a model configuration: {error}", file=file, line=error.GetLine()) from error


def take_inventory(layout: Layout, progress: Callable[[str], None] = lambda name: None, cores: int = 1) -> Inventory:
    """Check everything under a root.

    Args:
        layout: of the root.
        progress: called with the name of each voice and model before it is checked.
        cores: usable cores of this machine, for what configurations leave to us.
    """
    inventory = Inventory()
    owned: set[str] = set()
    for name in layout.voice_names():
        progress(name)
        owned.update(stage_model_name(name, stage) for stage in VOICE_STAGES)
        try:
            inventory.voices[name] = check_voice(layout, name)
        except (ConfigError, OSError) as error:
            inventory.problems.append(_problem(name, "voice", error))
        owned.add(name)
    # an ensemble without voice.yaml is a model like any other
    for repository in (layout.model_repository, layout.ensembles):
        for model_dir in sorted(repository.iterdir()) if repository.is_dir() else []:
            if not model_dir.is_dir() or model_dir.name.startswith(".") or model_dir.name in owned:
                continue
            if repository == layout.ensembles and (model_dir / ARM_FILE).is_file():
                continue  # of a rollout, which says whether it is served
            progress(model_dir.name)
            try:
                checked = check_model(model_dir, cores)
            except (ConfigError, OSError) as error:
                inventory.problems.append(_problem(model_dir.name, "model", error))
                continue
            inventory.models[model_dir.name] = checked.config
            inventory.versions[model_dir.name] = checked.versions
            if checked.is_completed:
                inventory.completed.add(model_dir.name)
            inventory.problems += [
                Problem(model_dir.name, "model", _printable(reason), version) for version, reason in checked.left_out
            ]
    return inventory


def _problem(model: str, kind: Literal["voice", "model"], error: Exception) -> Problem:
    return Problem(_printable(model), kind, _printable(str(error)))


def _printable(text: str) -> str:
    # a folder's name may hold bytes that are not UTF-8; status and logs are
    return text.encode("utf-8", "backslashreplace").decode()
