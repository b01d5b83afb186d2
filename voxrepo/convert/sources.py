"""Which versions of which stages are converted, and from what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxrepo.convert.precision.tiers import ALIASES, FP32
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import VoiceSpec
from voxrepo_contract.errors import ConfigError, InvalidArgument, NotFound
from voxrepo_contract.names import is_model_name, is_version_name, stage_model_name
from voxrepo_contract.stage import STAGE_FILE, AnyStage, read_stage, verify_files

CONVERTED_STAGES = ("acoustic", "vocoder")
PROVENANCE_KEY = "conversion"
"""Key of ``provenance`` and of ``quality`` under which a conversion is noted."""


@dataclass(frozen=True)
class What:
    """``VOICE[.stage[@version]]``, taken apart.

    Attributes:
        voice: name of the voice.
        stages: stages to convert.
        version: version to convert from; ``None``: the one that the voice pins.
    """

    voice: str
    stages: tuple[str, ...]
    version: int | None


@dataclass(frozen=True)
class StageSource:
    """A version of a stage that runs on a CPU, verified."""

    stage: str
    version: int
    folder: Path
    spec: AnyStage

    def graph_file(self, graph: str) -> Path:
        """The ONNX file of one of its graphs."""
        return self.folder / self.spec.graphs[graph].file


def parse_what(text: str, voices: Sequence[str]) -> What:
    """Take ``VOICE[.stage[@version]]`` apart.

    Args:
        text: as given.
        voices: names of the voices that exist; a name may itself contain a dot.

    Raises:
        InvalidArgument: it is not of that form, or names a stage that has no graphs.
        NotFound: there is no such voice.
    """
    name, at, number = text.partition("@")
    if not is_model_name(name) or (at and not is_version_name(number)):
        raise InvalidArgument(
            f"{text!r} is neither an .onnx file nor VOICE, VOICE.stage or VOICE.stage@version, such as en-joe.vocoder@1"
        )
    version = int(number) if at else None
    if name in voices:
        if version is not None:
            raise InvalidArgument(f"{text!r}: a version belongs to a stage; write {name}.vocoder@{version}, say")
        return What(name, CONVERTED_STAGES, None)
    voice, dot, stage = name.rpartition(".")
    if not dot or voice not in voices:
        raise NotFound(f"there is no voice {voice or name!r} here; there are: {', '.join(voices) or 'none'}")
    if stage not in CONVERTED_STAGES:
        raise InvalidArgument(f"{text!r}: stages with graphs to convert are {' and '.join(CONVERTED_STAGES)}")
    return What(voice, (stage,), version)


def find_source(layout: Layout, spec: VoiceSpec, stage: str, version: int | None = None) -> StageSource:
    """The version of a stage to convert from: as said, or as the voice pins it, or what that was converted from.

    Raises:
        NotFound: there is no such version.
        ConfigError: a file of it is wrong or damaged, or its graphs are for a device and it does not say from what
            they were made.
    """
    number = version if version is not None else spec.versions[stage]
    for _ in range(3):
        folder = layout.version_dir(stage_model_name(spec.voice, stage), number)
        if not folder.is_dir():
            raise NotFound(f"{folder.parent.name} has no version {number} ({folder} is missing)")
        found = read_stage(folder)
        note: Any = found.provenance.get(PROVENANCE_KEY)
        tier = note.get("precision") if isinstance(note, dict) else None
        lowered = tier not in {None, FP32, *ALIASES}
        if all(graph.device == "cpu" for graph in found.graphs.values()) and found.graphs and not lowered:
            verify_files(folder, found)
            return StageSource(stage, number, folder, found)
        before = note.get("source_version") if isinstance(note, dict) else None
        if version is not None and lowered and isinstance(before, int):
            raise ConfigError(
                f"its graphs were lowered to {tier} already; convert from {folder.parent.name}@{before}, which they "
                "were made from",
                file=folder / STAGE_FILE,
            )
        if version is not None or not isinstance(before, int):
            raise ConfigError(
                "its graphs are made for a device already; name a version with device: cpu to convert from, "
                f"such as {folder.parent.name}@1",
                file=folder / STAGE_FILE,
            )
        number = before
    raise ConfigError("says it was converted from a version that was converted itself", file=folder / STAGE_FILE)
