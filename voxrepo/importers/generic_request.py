"""What the user says of a voice that is made of an acoustic graph and a vocoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from voxrepo.importers.generic_frontend import Marks
from voxrepo_contract.stage import sha256_of


@dataclass(frozen=True)
class GenericRequest:
    """What a voice is made of, as the user says.

    Attributes:
        frontend: profile, or folder of a version of a text front end.
        acoustic: graph of ids to features.
        vocoder: graph of features to audio.
        config: file with what the training knew.
        tokens: table of symbols.
        marks: around the symbols of a segment.
        language: BCP 47 tag.
        sample_rate_hz: of the audio.
        channels: of the features.
        speakers: names in the order of their ids.
        inputs: roles of the acoustic graph's inputs, by tensor.
        outputs: roles of its outputs, by tensor.
        constants: values of its inputs, by tensor.
        mel_scale: factor on the features.
        mel_shift: what is added to them then.
        feature_kind: name for what goes between the graphs.
        licence: of the weights.
        texts: for the check, instead of the language's own.
        cut: whether to cut where that is possible.
    """

    frontend: str
    acoustic: Path
    vocoder: Path
    config: Path | None = None
    tokens: Path | None = None
    marks: Marks = field(default_factory=Marks)
    language: str | None = None
    sample_rate_hz: int | None = None
    channels: int | None = None
    speakers: tuple[str, ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)
    mel_scale: float | None = None
    mel_shift: float | None = None
    feature_kind: str | None = None
    licence: str = ""
    texts: tuple[str, ...] = ()
    cut: bool = True


def provenance_of(request: GenericRequest) -> dict[str, Any]:
    """Files, command and tools, as plain values for ``stage.yaml``."""
    files = [request.acoustic, request.vocoder, *(f for f in (request.config, request.tokens) if f is not None)]
    entries: dict[str, Any] = {
        "source": f"{request.acoustic.name} and {request.vocoder.name}",
        "files": {file.name: sha256_of(file) for file in files if file.is_file()},
        "command": "voxrepo voice create",
        "tools": {"voxrepo": version("voxrepo"), "onnx": str(onnx.__version__), "onnxruntime": str(ort.__version__)},
    }
    if request.licence:
        entries["licence"] = request.licence
    return entries
