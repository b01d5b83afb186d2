"""How long the segments of given texts are for a voice: ids from its own front end, frames from its acoustic stage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from voxrepo.convert.records import LengthRecord
from voxrepo.importers.onnx_run import open_session, run
from voxrepo.importers.proof_host import frames_per_id, nearest_frames_per_id
from voxrepo.importers.proof_texts import SEED
from voxrepo.repository.layout import Layout, backends_folder
from voxrepo.repository.voice import VoiceSpec
from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import DirectStage, LengthRegulatedStage, read_stage, verify_files

Ids = npt.NDArray[np.int64]
MAX_TEXTS = 100_000
MAX_FILE_BYTES = 64 << 20


def read_texts(file: Path) -> list[str]:
    """Texts of a file, one a line; empty lines are left out.

    Raises:
        ConfigError: it cannot be read, or holds none or too many.
    """
    if file.exists() and not file.is_file():
        raise ConfigError("is no regular file", file=file)
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{file.stat().st_size} bytes; the limit is {MAX_FILE_BYTES}", file=file)
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read as UTF-8 text: {error}", file=file) from error
    texts = [line.strip() for line in lines if line.strip()]
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise ConfigError(f"holds {len(texts)} texts; give 1 to {MAX_TEXTS}, one a line", file=file)
    return texts


def segments_of(front_end_dir: Path, texts: Sequence[str]) -> list[Ids]:
    """Ids of every segment that a front end makes of the texts, at speed 1.

    Raises:
        ConfigError: the front end is wrong, or what it needs is not installed.
        InvalidArgument: a text that it cannot speak.
    """
    backend = str(backends_folder() / "text_frontend")
    if backend not in sys.path:
        sys.path.insert(0, backend)
    # a part of the backend, whose folder has only just been put on the path
    from text_backend.build import build_front_end

    built = build_front_end(front_end_dir)
    segments: list[Ids] = []
    try:
        for number, text in enumerate(texts, start=1):
            try:
                said = built.front_end.run(text, 1.0, "")
            except InvalidArgument as error:
                raise InvalidArgument(f"text {number} cannot be spoken: {error.message}") from error
            segments += np.split(said.phoneme_ids, np.cumsum(said.segment_lengths)[:-1])
    finally:
        built.close()
    return [segment.astype(np.int64) for segment in segments]


def lengths_of(layout: Layout, spec: VoiceSpec, texts: Sequence[str]) -> LengthRecord:
    """Ids and frames of every segment of the texts, spoken by the voice as it is pinned.

    Raises:
        ConfigError: a stage is wrong, or of a program that makes no frames.
        InvalidArgument: a text that the voice cannot speak.
    """
    folders = {
        stage: layout.version_dir(stage_model_name(spec.voice, stage), version)
        for stage, version in spec.versions.items()
    }
    segments = segments_of(folders["text_frontend"], texts)
    frames_of = _frame_counter(folders["acoustic"])
    return LengthRecord(
        tuple(len(segment) for segment in segments),
        tuple(max(1, frames_of(number, segment)) for number, segment in enumerate(segments)),
    )


def _frame_counter(folder: Path) -> Callable[[int, Ids], int]:
    stage = read_stage(folder)
    verify_files(folder, stage)
    if any(graph.device != "cpu" for graph in stage.graphs.values()):
        raise ConfigError(
            "its graphs are made for a device; pin a version that runs on a CPU, or give --lengths", file=folder
        )
    if isinstance(stage, DirectStage):
        session = open_session(onnx.load(str(folder / stage.graphs["model"].file)))
        return lambda number, ids: int(run(session, _contract_feeds(ids), "the acoustic stage")["frame_lengths"].sum())
    if not isinstance(stage, LengthRegulatedStage):
        raise ConfigError(f"program: {stage.program!r} tells no frames", file=folder)
    options = stage.options
    session = open_session(onnx.load(str(folder / stage.graphs["encoder"].file)))

    def count(number: int, ids: Ids) -> int:
        noise = np.random.default_rng([SEED, number]).standard_normal((1, 2, len(ids)), dtype=np.float32)
        feeds = {
            "phoneme_ids": ids[None],
            "lengths": np.array([len(ids)], np.int64),
            "duration_noise": noise * np.float32(options.noise_w_scale),
            "speaker_id": np.zeros(1, np.int64),
        }
        durations = run(session, feeds, "the encoder")["durations"][0, 0]
        counted = frames_per_id if options.expansion == "gaussian" else nearest_frames_per_id
        frames = counted(durations, options.length_scale, 1.0, options.max_frames_per_id)
        return min(int(frames.sum()), options.max_frames_per_segment)

    return count


def _contract_feeds(ids: Ids) -> dict[str, npt.NDArray[Any]]:
    return {
        "phoneme_ids": ids[None],
        "segment_lengths": np.array([[len(ids)]], np.int32),
        "pause_ms": np.zeros((1, 1), np.int32),
        "speed": np.ones((1, 1), np.float32),
        "speaker_id": np.zeros((1, 1), np.int64),
        "seed": np.zeros((1, 1), np.int64),
    }
