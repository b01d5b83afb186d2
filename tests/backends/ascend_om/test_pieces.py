"""Utterances fetched in parts: joined they are what one call gives, to the bit."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from om_backend.job import Program
from om_backend.pieces import Piece, read_piece, windows_of
from om_backend.programs import load_program
from om_backend.programs.windowed import WindowedProgram
from om_backend.runtime import RuntimeSettings
from om_backend.windows import plan_windows

from tests.harness import VOICE
from voxrepo_contract.errors import Internal, InvalidArgument, VoxrepoError
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.pieces import opening_frames, pause_samples

from .geared import GearedGraph, geared, gears, place_masked_vocoder
from .graphs import CHANNELS, HOP, OVERLAP, SAMPLE_RATE_HZ, WINDOW, Answers, job_for, place_vocoder
from .test_windowed import place_reflecting

Features = npt.NDArray[np.float32]
FIRST = 2 * OVERLAP + 1
EDGE = {"overlap": OVERLAP, "window": WINDOW}

shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


def whole_request(segments: list[Features], pause_ms: list[int] | None = None) -> dict[str, Any]:
    return {
        "features": np.concatenate(segments)[np.newaxis],
        "frame_lengths": np.array([[len(segment) for segment in segments]], np.int32),
        "pause_ms": np.array([pause_ms or [0] * len(segments)], np.int32),
    }


def piece_of(segment: Features, start: int, stop: int, keep_from: int) -> tuple[dict[str, Any], dict[str, object]]:
    parameters: dict[str, object] = {
        "segment_frames": len(segment),
        "first_frame": start,
        "keep_from_frame": keep_from,
    }
    return whole_request([segment[start:stop]], [700]), parameters


def ask(program: Program, *calls: tuple[dict[str, Any], dict[str, object]]) -> list[Answers]:
    """All calls in one batch."""
    jobs, answers = zip(*[job_for(inputs, parameters) for inputs, parameters in calls], strict=True)
    program.run(list(jobs))
    assert [answer.count for answer in answers] == [1] * len(answers)
    return list(answers)


def audio_of(answers: Answers) -> npt.NDArray[np.int16]:
    audio: npt.NDArray[np.int16] = answers.outputs["audio"]
    assert audio.dtype == np.int16
    samples: npt.NDArray[np.int16] = audio[0]
    return samples


def features(frames: int, seed: int, channels: int = CHANNELS) -> Features:
    return np.random.default_rng(seed).standard_normal((frames, channels)).astype(np.float32)


def fetched_in_pieces(
    program: Program,
    segment: Features,
    windows_of_call: Callable[[], int],
    *,
    overlap: int,
    window: int,
    first: int | None = None,
    hop: int = HOP,
    neighbours: list[tuple[dict[str, Any], dict[str, object]]] | None = None,
) -> npt.NDArray[np.int16]:
    """As the edge does it: frames from an overlap before what is there, for so many windows of full size."""
    frames, kept = len(segment), 0
    pieces: list[npt.NDArray[np.int16]] = []
    while kept < frames:
        begin = max(0, kept - overlap)
        nearest = window if kept else opening_frames(frames, first or window, window)
        stop = min(frames, begin + nearest + (windows_of_call() - 1) * (window - 2 * overlap))
        start = max(0, min(begin, frames - window))
        answers = ask(program, piece_of(segment, start, stop, kept), *(neighbours or []))
        assert len(answers[0].outputs["audio"][0]) % hop == 0
        pieces.append(audio_of(answers[0]))
        kept += len(pieces[-1]) // hop
    return np.concatenate(pieces)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Program]:
    """Every kind of graph and plan."""

    def folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    def with_gears(name: str, batches: tuple[int, ...], *, masked: bool) -> Program:
        where = folder(name)
        stage = (place_masked_vocoder if masked else place_vocoder)(where, window_frames=40)
        spec = geared(stage.graphs["generator"], gears("frames", (12, 20, 40), batches))
        graph = GearedGraph(where, spec)
        return WindowedProgram(stage.model_copy(update={"graphs": {"generator": spec}}), {"generator": graph}, None)

    plain, first, masked = folder("plain"), folder("first"), folder("masked")
    place_vocoder(plain)
    place_vocoder(first, first_window_frames=FIRST)
    place_masked_vocoder(masked, first_window_frames=FIRST)
    return {
        "plain": load_program(plain, RuntimeSettings(), 1),
        "short first window": load_program(first, RuntimeSettings(), 1),
        "short first window, batches": load_program(first, RuntimeSettings(), 4),
        "mask": load_program(masked, RuntimeSettings(), 1),
        "gears": with_gears("gears-masked", (1, 4), masked=True),
        "gears of one row": with_gears("gears-rows", (1,), masked=True),
        "gears without mask": with_gears("gears-bare", (1, 2, 4), masked=False),
    }


def sizes_of(kind: str) -> dict[str, Any]:
    if "gears" in kind:
        return {"overlap": OVERLAP, "window": 40}
    return {**EDGE, "first": FIRST if kind != "plain" else None}


KINDS = (
    "plain",
    "short first window",
    "short first window, batches",
    "mask",
    "gears",
    "gears of one row",
    "gears without mask",
)


@pytest.mark.parametrize("kind", KINDS)
@shared
@given(data=st.data())
def test_joined_pieces_are_what_one_call_gives(kind: str, programs: dict[str, Program], data: st.DataObject):
    program = programs[kind]
    lengths = data.draw(st.lists(st.integers(12 if "without" in kind else 1, 300), min_size=1, max_size=3))
    segments = [features(frames, frames + seed) for seed, frames in enumerate(lengths)]
    pause_ms = [100 * number for number in range(len(segments))]
    (whole,) = ask(program, (whole_request(segments, pause_ms), {}))
    crowd = data.draw(st.booleans())
    other = features(100, 1)
    neighbours = [(whole_request([other]), {}), piece_of(other, 0, 80, 0)] if crowd else []
    parts: list[npt.NDArray[np.int16]] = []
    for segment, pause in zip(segments, pause_ms, strict=True):
        parts.append(
            fetched_in_pieces(
                program,
                segment,
                lambda: data.draw(st.integers(1, 5)),
                **sizes_of(kind),
                neighbours=neighbours,
            )
        )
        parts.append(np.zeros(pause_samples(pause, SAMPLE_RATE_HZ), np.int16))
    assert np.array_equal(np.concatenate(parts), audio_of(whole))


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5, WINDOW, 50])
@pytest.mark.parametrize("first", [None, 8])
def test_segments_that_are_lengthened_for_the_graph_can_be_fetched_in_pieces(
    tmp_path: Path, frames: int, first: int | None
):
    place_reflecting(tmp_path, min_frames=7 if first else 4, first_window_frames=first)
    program = load_program(tmp_path, RuntimeSettings(), 1)
    segment = features(frames, 3)
    (whole,) = ask(program, (whole_request([segment]), {}))
    joined = fetched_in_pieces(program, segment, lambda: 1, overlap=3, window=WINDOW, first=first)
    assert np.array_equal(joined, audio_of(whole))


def test_a_piece_of_a_pause_that_is_spoken_is_not_refused_as_silence(programs: dict[str, Program]):
    program: Any = programs["short first window"]
    run = program._generator.graph.run
    program._generator.graph.run = lambda feeds: {"audio": run(feeds)["audio"] * 0}
    try:
        segment = features(50, 1)
        piece, whole = ask(program, piece_of(segment, 0, 20, 0), (whole_request([segment]), {}))
    finally:
        program._generator.graph.run = run
    assert not audio_of(piece).any()
    assert isinstance(whole.error, Internal)


def test_a_piece_that_is_no_number_is_refused(programs: dict[str, Program]):
    segment = features(100, 1)
    segment[60:] = np.nan
    good, bad = ask(programs["plain"], piece_of(segment, 0, 20, 0), piece_of(segment, 60, 100, 64))
    assert len(audio_of(good)) == (WINDOW - OVERLAP) * HOP
    assert isinstance(bad.error, Internal)
    assert "not finite" in bad.error.message


PIECE: dict[str, object] = {"segment_frames": 100, "first_frame": 0, "keep_from_frame": 0}


@pytest.mark.parametrize(
    ("sent", "parameters", "says"),
    [
        (20, {"segment_frames": 100}, "parameter 'first_frame' is missing beside 'segment_frames'"),
        (20, {"first_frame": 0, "keep_from_frame": 0}, "parameter 'segment_frames' is missing"),
        (20, {**PIECE, "segment_frames": 0}, "parameter 'segment_frames' must be a whole number from 1 to 100000"),
        (20, {**PIECE, "segment_frames": 2**40}, "must be a whole number from 1 to 100000, got 1099511627776"),
        (20, {**PIECE, "segment_frames": 100.0}, "must be a whole number from 1 to 100000, got 100.0"),
        (20, {**PIECE, "segment_frames": True}, "must be a whole number from 1 to 100000, got True"),
        (20, {**PIECE, "segment_frames": "100"}, "must be a whole number from 1 to 100000, got '100'"),
        (20, {**PIECE, "segment_frames": 19}, "20 frames were sent of a segment of 19"),
        (20, {**PIECE, "first_frame": 81}, "parameter 'first_frame' must be a whole number from 0 to 80, got 81"),
        (20, {**PIECE, "first_frame": -1}, "parameter 'first_frame' must be a whole number from 0 to 80, got -1"),
        (20, {**PIECE, "keep_from_frame": 20}, "parameter 'keep_from_frame' must be a whole number from 0 to 19"),
        (20, {**PIECE, "first_frame": 5}, "parameter 'keep_from_frame' must be a whole number from 5 to 24, got 0"),
        (40, {**PIECE, "keep_from_frame": 17}, "no window of a segment of 100 frames begins to be kept"),
        (40, {**PIECE, "keep_from_frame": 17}, "the nearest do at 16 and 28"),
        (19, PIECE, "frames [0, 19) of 100 were sent; the window that keeps from frame 0 needs [0, 20)"),
        (
            30,
            {**PIECE, "first_frame": 13, "keep_from_frame": 16},
            "frames [13, 43) of 100 were sent; the window that keeps from frame 16 needs [12, 32)",
        ),
    ],
)
def test_parameters_out_of_range_are_refused_with_the_numbers(
    programs: dict[str, Program], sent: int, parameters: dict[str, object], says: str
):
    inputs = whole_request([features(sent, 1)])
    bad, good = ask(programs["plain"], (inputs, parameters), (inputs, {}))
    assert isinstance(bad.error, InvalidArgument)
    assert says in bad.error.message
    assert good.finished


def test_a_piece_is_of_one_segment(programs: dict[str, Program]):
    inputs = whole_request([features(10, 1), features(10, 2)])
    (bad,) = ask(programs["plain"], (inputs, PIECE))
    assert bad.error.message == "frame_lengths: a piece is of one segment, got 2"


def test_a_segment_below_every_gear_is_refused_as_in_one_call(programs: dict[str, Program]):
    (bad,) = ask(programs["gears without mask"], piece_of(features(11, 1), 0, 11, 0))
    assert bad.error.message.startswith("frame_lengths: a segment has 11 frames; generator.onnx runs windows of")


def test_a_piece_runs_the_windows_that_lie_in_it_and_no_others():
    plan = plan_windows(100, WINDOW, OVERLAP)
    assert windows_of(Piece(100, 12, 16, 40), plan, 100) == plan[1:3]
    assert windows_of(Piece(100, 0, 16, 32), plan, 100) == plan[1:2]
    assert windows_of(Piece(100, 0, 0, 100), plan, 100) == plan


def test_a_call_without_the_parameters_is_of_whole_segments():
    job, _ = job_for({}, {"noise_scale": 0.5, "segment_frames": None})
    assert read_piece(job, [3]) is None


def test_the_cost_of_a_piece_does_not_depend_on_its_position(programs: dict[str, Program]):
    program: Any = programs["short first window"]
    segment = features(20_000, 1)
    plan = program._plan(len(segment))
    calls: list[tuple[int, ...]] = []
    run = program._generator.graph.run

    def counting(feeds: Any) -> Any:
        calls.append(feeds["features"].shape)
        return run(feeds)

    program._generator.graph.run = counting
    seconds: dict[int, float] = {}
    try:
        for number in (1, len(plan) // 2, len(plan) - 3) * 3:
            window = plan[number]
            request = piece_of(segment, window.start, window.stop, window.keep_start)
            start = time.process_time()
            ask(program, request)
            seconds[number] = min(time.process_time() - start, seconds.get(number, 1.0))
    finally:
        program._generator.graph.run = run
    assert calls == [(1, CHANNELS, WINDOW)] * 9
    assert max(seconds.values()) < 3 * min(seconds.values()) + 2e-3


# The real voice


@pytest.fixture(scope="module")
def voice(voice_root: Path) -> tuple[Program, Program, Any]:
    repository = voice_root / "model_repository"
    acoustic, vocoder = (
        load_program(repository / stage_model_name(VOICE, stage) / "1", RuntimeSettings(), 1)
        for stage in ("acoustic", "vocoder")
    )
    return acoustic, vocoder, vocoder


def acoustic_request(ids: list[list[int]], seed: int, speed: float = 1.0) -> dict[str, Any]:
    return {
        "phoneme_ids": np.array([[one for segment in ids for one in segment]], np.int64),
        "segment_lengths": np.array([[len(segment) for segment in ids]], np.int32),
        "pause_ms": np.array([[0] * len(ids)], np.int32),
        "speed": np.array([[speed]], np.float32),
        "speaker_id": np.zeros((1, 1), np.int64),
        "seed": np.array([[seed]], np.int64),
    }


def test_a_voice_says_in_pieces_what_it_says_in_one_call(voice: tuple[Program, Program, Any]):
    acoustic, vocoder, program = voice
    options = program._options
    assert options.first_window_frames is not None
    draws = np.random.default_rng(5)
    ids = [draws.integers(14, 120, size).tolist() for size in (5, 40, 160)]
    for seed, speed in ((1, 1.0), (2, 2.5)):
        (made,) = ask(acoustic, (acoustic_request(ids, seed, speed), {}))
        (whole,) = ask(vocoder, (dict(made.outputs), {}))
        parts: list[npt.NDArray[np.int16]] = []
        for number, segment_ids in enumerate(ids):
            alone = acoustic_request([segment_ids], seed, speed)
            (segment,) = ask(acoustic, (alone, {"first_segment": number}))
            groups = iter((1, 1, 2, 4))
            parts.append(
                fetched_in_pieces(
                    vocoder,
                    segment.outputs["features"][0],
                    lambda groups=groups: next(groups, 4),  # type: ignore[misc]
                    overlap=options.overlap_frames,
                    window=options.window_frames,
                    first=options.first_window_frames,
                    hop=256,
                )
            )
        assert np.array_equal(np.concatenate(parts), audio_of(whole))


def test_an_utterance_cut_into_calls_has_the_features_of_one(voice: tuple[Program, Program, Any]):
    acoustic, _, _ = voice
    ids = [[20, 30, 40] * 4, [50, 60], [70] * 9]
    (made,) = ask(acoustic, (acoustic_request(ids, 7), {}))
    first, rest = ask(
        acoustic, (acoustic_request(ids[:1], 7), {}), (acoustic_request(ids[1:], 7), {"first_segment": 1})
    )
    joined = np.concatenate([first.outputs["features"][0], rest.outputs["features"][0]])
    assert np.array_equal(joined, made.outputs["features"][0])
    (unsaid,) = ask(acoustic, (acoustic_request(ids[1:], 7), {}))
    assert not np.array_equal(unsaid.outputs["features"], rest.outputs["features"])


@pytest.mark.parametrize("value", [-1, 2**31, 1.0, True, "1"])
def test_a_first_segment_that_cannot_be_is_refused(voice: tuple[Program, Program, Any], value: object):
    (bad,) = ask(voice[0], (acoustic_request([[20, 30]], 7), {"first_segment": value}))
    error: VoxrepoError = bad.error
    assert isinstance(error, InvalidArgument)
    assert error.message.startswith("parameter 'first_segment' must be a whole number from 0 to 2147483647, got")
