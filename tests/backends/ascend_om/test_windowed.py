from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import pytest
from om_backend.device.description import GraphDescription
from om_backend.job import Program
from om_backend.programs import load_program
from om_backend.programs.windowed import WindowedProgram
from om_backend.runtime import Graph, RuntimeSettings, load_graph
from onnx import helper

from voxrepo_contract.errors import Internal, InvalidArgument, VoxrepoError
from voxrepo_contract.stage import Interface, WindowedOptions, WindowedStage, write_stage

from .geared import GearedGraph, geared, gears, place_masked_vocoder
from .graphs import (
    CHANNELS,
    HOP,
    OVERLAP,
    SAMPLE_RATE_HZ,
    WINDOW,
    Tensors,
    job_for,
    place,
    place_vocoder,
    run_all,
)


def load(folder: Path, unit_batch: int | None = 1) -> Program:
    return load_program(folder, RuntimeSettings(), unit_batch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place_vocoder(tmp_path)
    return tmp_path


@pytest.fixture
def whole(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The same generator with a window that any test's segment fits into."""
    folder = tmp_path_factory.mktemp("whole")
    place_vocoder(folder, window_frames=5000)
    return load(folder)


def request(lengths: list[int], pauses: list[int] | None = None, *, seed: int = 0, **changes: Any) -> dict[str, Any]:
    features = np.random.default_rng(seed).standard_normal((1, sum(lengths), CHANNELS)).astype(np.float32)
    return {
        "features": features,
        "frame_lengths": np.array([lengths], np.int32),
        "pause_ms": np.array([pauses or [0] * len(lengths)], np.int32),
        **changes,
    }


@pytest.mark.parametrize("frames", [1, 3, WINDOW - 1, WINDOW, WINDOW + 1, 27, 3 * WINDOW, 500])
def test_windows_give_what_one_run_over_the_whole_gives(folder: Path, whole: Program, frames: int):
    (cut,), (uncut,) = run_all(load(folder), [request([frames])]), run_all(whole, [request([frames])])
    audio = cut.outputs["audio"]
    assert audio.shape == (1, frames * HOP)
    assert audio.dtype == np.int16
    # a last bit of float32 may round to the neighbouring step
    assert np.abs(audio.astype(int) - uncut.outputs["audio"]).max() <= 1
    assert cut.outputs["sample_rate"].tolist() == [[SAMPLE_RATE_HZ]]


def test_an_overlap_below_the_receptive_field_would_be_noticed(tmp_path: Path, whole: Program):
    place_vocoder(tmp_path, overlap_frames=OVERLAP - 1)
    (cut,), (uncut,) = run_all(load(tmp_path), [request([500])]), run_all(whole, [request([500])])
    assert np.abs(cut.outputs["audio"].astype(int) - uncut.outputs["audio"]).max() > 8


def test_segments_do_not_run_into_each_other(folder: Path):
    both = request([30, 50])
    (joined,) = run_all(load(folder), [both])
    parts = [both["features"][:, :30], both["features"][:, 30:]]
    alone = [run_all(load(folder), [request([part.shape[1]], features=part)])[0].outputs["audio"][0] for part in parts]
    assert np.array_equal(joined.outputs["audio"][0], np.concatenate(alone))


def test_pauses_follow_their_segments(folder: Path):
    (plain,) = run_all(load(folder), [request([5, 7])])
    (paused,) = run_all(load(folder), [request([5, 7], [100, 25])])
    first, second = np.split(plain.outputs["audio"][0], [5 * HOP])
    expected = [first, np.zeros(800, np.int16), second, np.zeros(200, np.int16)]
    assert np.array_equal(paused.outputs["audio"][0], np.concatenate(expected))


@pytest.mark.parametrize("unit_batch", [2, 4, 16])
def test_batches_give_each_request_what_it_gets_alone(folder: Path, unit_batch: int):
    requests = [request([3 + 7 * n, 90 - 5 * n], [n, 2 * n], seed=n) for n in range(10)]
    alone = [run_all(load(folder), [sent])[0].outputs["audio"] for sent in requests]
    for mine, ours in zip(alone, run_all(load(folder, unit_batch), requests), strict=True):
        assert mine.shape == ours.outputs["audio"].shape
        assert np.abs(mine.astype(int) - ours.outputs["audio"]).max() <= 1


def test_one_window_per_call_is_equal_to_the_bit_in_any_order(folder: Path):
    requests = [request([3 + 7 * n, 90 - 5 * n], seed=n) for n in range(8)]
    program = load(folder)
    alone = [run_all(program, [sent])[0].outputs["audio"] for sent in requests]
    backward = run_all(program, requests[::-1])[::-1]
    assert all(np.array_equal(mine, ours.outputs["audio"]) for mine, ours in zip(alone, backward, strict=True))


def test_gain_is_applied(tmp_path: Path, folder: Path):
    louder = tmp_path / "louder"
    louder.mkdir()
    place_vocoder(louder, gain=1.5)
    (plain,), (loud,) = run_all(load(folder), [request([10])]), run_all(load(louder), [request([10])])
    np.testing.assert_allclose(loud.outputs["audio"], plain.outputs["audio"] * 1.5, atol=1)


def test_features_that_are_not_numbers_fail_their_own_request_only(folder: Path):
    bad = request([50], seed=1)
    bad["features"][0, 25, 0] = np.nan
    requests = [request([50], seed=2), bad, request([50], seed=3)]
    alone = [run_all(load(folder), [sent])[0] for sent in requests]
    together = run_all(load(folder, 16), requests)
    assert isinstance(together[1].error, Internal)
    assert "not finite" in together[1].error.message
    for number in (0, 2):
        assert np.abs(alone[number].outputs["audio"].astype(int) - together[number].outputs["audio"]).max() <= 1


def test_silence_is_an_error_and_not_an_answer(folder: Path):
    class Mute:
        def run(self, feeds: Any) -> Any:
            batch, _, frames = feeds["features"].shape
            return {"audio": np.zeros((batch, 1, frames * HOP), np.float32)}

    program: Any = load(folder)
    program._generator.graph = Mute()
    (answers,) = run_all(program, [request([50])])
    assert isinstance(answers.error, Internal)
    assert "silence" in answers.error.message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"features": np.zeros((1, 10, CHANNELS + 1), np.float32)}, f"must be FP32 [1, -1, {CHANNELS}]"),
        ({"features": np.zeros((1, 10, CHANNELS), np.float64)}, "must be FP32"),
        ({"features": np.zeros((2, 10, CHANNELS), np.float32)}, "must be FP32"),
        ({"features": np.zeros((10, CHANNELS), np.float32)}, "must be FP32"),
        (
            {"frame_lengths": np.array([[9]], np.int32)},
            "frame_lengths must be positive and sum to the 10 rows of features",
        ),
        ({"frame_lengths": np.array([[11, -1]], np.int32)}, "frame_lengths must be positive"),
        ({"frame_lengths": np.array([[10, 0]], np.int32)}, "frame_lengths must be positive"),
        ({"frame_lengths": np.zeros((1, 0), np.int32)}, "frame_lengths must be positive"),
        ({"pause_ms": np.array([[-1]], np.int32)}, "pause_ms needs 1 values from 0 to 60000, got [-1]"),
        ({"pause_ms": np.array([[2**31 - 1]], np.int32)}, "pause_ms needs 1 values from 0 to 60000"),
        ({"pause_ms": np.array([[1, 1]], np.int32)}, "pause_ms needs 1 values"),
    ],
)
def test_bad_input_is_an_invalid_argument_of_its_own_request(folder: Path, changes: dict[str, Any], says: str):
    bad, good = run_all(load(folder), [request([10], **changes), request([10])])
    assert isinstance(bad.error, InvalidArgument)
    assert says in bad.error.message
    assert good.finished


def test_pauses_that_add_up_to_hours_are_refused_before_memory_is_taken(folder: Path):
    count = 300
    bad, good = run_all(load(folder), [request([1] * count, [60_000] * count), request([10])])
    assert isinstance(bad.error, InvalidArgument)
    assert "pause_ms sums to 18000000 ms; the limit is 14400000" in bad.error.message
    assert good.finished


@pytest.mark.parametrize("name", ["features", "frame_lengths", "pause_ms"])
def test_a_missing_input_is_named(folder: Path, name: str):
    sent = request([10])
    del sent[name]
    (answers,) = run_all(load(folder), [sent])
    assert answers.error.message == f"input {name!r} is missing"


def test_a_request_is_answered_when_its_own_windows_are_done(folder: Path):
    order: list[str] = []
    jobs = []
    for name, frames in (("long", 300), ("short", 30)):
        job, _ = job_for(request([frames]))
        job.on_finish = lambda outputs, name=name: order.append(name)
        jobs.append(job)
    load(folder).run(jobs[::-1])
    assert order == ["short", "long"]


def test_warm_up_refuses_a_hop_length_that_the_generator_does_not_have(tmp_path: Path):
    place_vocoder(tmp_path, hop=HOP + 1)
    program = load(tmp_path)
    with pytest.raises(Internal, match=f"hop_length_samples {HOP + 1} asks for"):
        program.warm_up()


def test_warm_up_measures_what_batches_pay(folder: Path):
    program: Any = load(folder, None)
    assert program.warm_up() == f"generator batches {program._generator.table.batches}"
    assert program._generator.table.reference_length == WINDOW
    assert run_all(program, [request([100])])[0].finished


@pytest.mark.parametrize("missing", ["channels", "hop_length_samples", "sample_rate_hz"])
def test_refuses_a_stage_whose_interface_is_incomplete(tmp_path: Path, missing: str):
    from voxrepo_contract.stage import write_stage

    stage = place_vocoder(tmp_path)
    interface = stage.interface.model_copy(update={missing: None})
    write_stage(tmp_path, stage.model_copy(update={"interface": interface}))
    with pytest.raises(VoxrepoError, match="interface needs channels, hop_length_samples and sample_rate_hz"):
        load(tmp_path)


# Generators with gears

GEAR_FRAMES = (12, 20, 40)


def load_geared(
    folder: Path, *, masked: bool = True, lengths: Sequence[int] = GEAR_FRAMES, batches: Sequence[int] = (1, 2, 4)
) -> tuple[WindowedProgram, GearedGraph]:
    stage = (place_masked_vocoder if masked else place_vocoder)(folder)
    spec = geared(stage.graphs["generator"], gears("frames", lengths, batches))
    graph = GearedGraph(folder, spec)
    return WindowedProgram(stage.model_copy(update={"graphs": {"generator": spec}}), {"generator": graph}, None), graph


@pytest.mark.parametrize("frames", [1, 3, 7, 12, 13, 20, 21, 39, 40, 41, 77, 500])
def test_gear_windows_give_what_one_run_over_the_whole_gives(tmp_path: Path, whole: Program, frames: int):
    program, graph = load_geared(tmp_path)
    (cut,), (uncut,) = run_all(program, [request([frames])]), run_all(whole, [request([frames])])
    assert cut.outputs["audio"].shape == (1, frames * HOP)
    assert np.abs(cut.outputs["audio"].astype(int) - uncut.outputs["audio"]).max() <= 1
    assert graph.calls


@pytest.mark.parametrize("frames", [12, 13, 20, 33, 77, 500])
def test_without_a_mask_windows_are_never_padded_and_still_exact(tmp_path: Path, whole: Program, frames: int):
    program, graph = load_geared(tmp_path, masked=False)
    (cut,), (uncut,) = run_all(program, [request([frames])]), run_all(whole, [request([frames])])
    assert np.abs(cut.outputs["audio"].astype(int) - uncut.outputs["audio"]).max() <= 1
    assert np.abs(graph.feeds["features"][:1]).sum(1).all()


def test_without_a_mask_a_segment_below_the_shortest_gear_is_refused_with_the_way_out(tmp_path: Path):
    program, _ = load_geared(tmp_path, masked=False)
    bad, good = run_all(program, [request([30, 11]), request([30])])
    assert isinstance(bad.error, InvalidArgument)
    assert bad.error.message.startswith(
        "frame_lengths: a segment has 11 frames; generator.onnx runs windows of [12, 20, 40] frames and has no input "
        "'mask'"
    )
    assert good.finished


def test_a_mask_that_is_not_said_would_be_noticed(tmp_path: Path, whole: Program):
    program, graph = load_geared(tmp_path)
    run = graph.run
    graph.run = lambda feeds: run({**feeds, "mask": np.ones_like(feeds["mask"])})  # type: ignore[method-assign]
    (cut,), (uncut,) = run_all(program, [request([15])]), run_all(whole, [request([15])])
    assert np.abs(cut.outputs["audio"].astype(int) - uncut.outputs["audio"]).max() > 8


@pytest.mark.parametrize("masked", [True, False])
def test_windows_of_many_requests_share_gears_and_come_back_to_their_owners(
    tmp_path: Path, whole: Program, masked: bool
):
    program, graph = load_geared(tmp_path, masked=masked)
    requests = [request([12 + 7 * n, 90 - 5 * n], [n, 2 * n], seed=n) for n in range(10)]
    alone = [run_all(whole, [sent])[0].outputs["audio"] for sent in requests]
    for mine, ours in zip(alone, run_all(program, requests), strict=True):
        assert mine.shape == ours.outputs["audio"].shape
        assert np.abs(mine.astype(int) - ours.outputs["audio"]).max() <= 1
    assert max(gear["batch"] for gear in graph.calls) == 4
    windows = sum(gear["batch"] for gear in graph.calls)
    assert len(graph.calls) < windows / 2


def test_in_one_gear_the_neighbours_do_not_change_a_bit(tmp_path: Path):
    """Also where a neighbour's row is full of NaN, which fails that neighbour alone."""
    program, graph = load_geared(tmp_path, lengths=(20,), batches=(4,))
    mine = request([18], seed=1)
    poisoned = request([20], seed=2, features=np.full((1, 20, CHANNELS), np.nan, np.float32))
    crowds = [[mine], [mine, request([20], seed=3)], [request([7], seed=4), mine, poisoned]]
    heard = []
    for crowd in crowds:
        answers = dict(zip(map(id, crowd), run_all(program, crowd), strict=True))
        heard.append(answers[id(mine)].outputs["audio"])
    assert np.array_equal(heard[0], heard[1])
    assert np.array_equal(heard[0], heard[2])
    assert graph.calls == [{"batch": 4, "frames": 20}] * 3
    assert "not finite" in answers[id(poisoned)].error.message


def test_a_bad_row_fails_its_request_once_and_is_counted_once(tmp_path: Path):
    program, _ = load_geared(tmp_path)
    told: list[str] = []
    program.rejections.on_rejected = told.append
    bad = request([100], seed=1)
    bad["features"][0, 10:90] = np.nan
    good, failed = run_all(program, [request([30]), bad])
    assert good.finished
    assert isinstance(failed.error, Internal)
    assert failed.error.message.startswith("generator.onnx returned samples that are not finite numbers; the usual")
    assert "fp16" in failed.error.message
    assert told == ["not_finite"]
    assert program.rejections.counts == {"not_finite": 1}


def test_silence_of_a_vocoder_is_counted_and_names_the_graph(tmp_path: Path):
    program, graph = load_geared(tmp_path)
    run = graph.run
    graph.run = lambda feeds: {"audio": run(feeds)["audio"] * 0}  # type: ignore[method-assign]
    (answers,) = run_all(program, [request([50])])
    assert isinstance(answers.error, Internal)
    assert "generator.onnx failed: the vocoder returned silence" in answers.error.message
    assert program.rejections.counts == {"silent": 1}


def test_a_gear_that_fails_with_one_request_serves_the_others(tmp_path: Path, whole: Program):
    program, graph = load_geared(tmp_path)
    run = graph.run

    def failing(feeds: Any) -> Any:
        if (feeds["features"] == 77).any():
            raise Internal("the device gave up")
        return run(feeds)

    graph.run = failing  # type: ignore[method-assign]
    bad = request([30], features=np.full((1, 30, CHANNELS), 77, np.float32))
    requests = [request([30], seed=1), bad, request([30], seed=2)]
    first, failed, last = run_all(program, requests)
    assert failed.error.message == "the device gave up"
    for answers, sent in ((first, requests[0]), (last, requests[2])):
        (expected,) = run_all(whole, [sent])
        assert np.abs(answers.outputs["audio"].astype(int) - expected.outputs["audio"]).max() <= 1


def test_warm_up_runs_every_gear_and_names_those_in_use(tmp_path: Path):
    program, graph = load_geared(tmp_path)
    said = program.warm_up()
    assert {tuple(sorted(gear.items())) for gear in graph.calls} == {
        (("batch", batch), ("frames", frames)) for batch in (1, 2, 4) for frames in GEAR_FRAMES
    }
    assert said.startswith("generator gears 1x12, ")
    assert run_all(program, [request([100])])[0].finished


def test_a_graph_of_one_fixed_size_is_one_gear(tmp_path: Path, whole: Program):
    stage = place_vocoder(tmp_path)
    listed = stage.graphs["generator"]
    features = listed.inputs[0].model_copy(update={"dims": [1, CHANNELS, 20]})
    spec = geared(listed.model_copy(update={"inputs": [features]}), [])
    graph = GearedGraph(tmp_path, spec)
    program = WindowedProgram(stage.model_copy(update={"graphs": {"generator": spec}}), {"generator": graph}, 8)
    program.warm_up()
    (cut,), (uncut,) = run_all(program, [request([70])]), run_all(whole, [request([70])])
    assert np.abs(cut.outputs["audio"].astype(int) - uncut.outputs["audio"]).max() <= 1


def test_gears_that_leave_nothing_but_overlap_are_refused(tmp_path: Path):
    with pytest.raises(
        InvalidArgument, match=r"longest gear of generator\.onnx takes 8 frames, not over twice overlap"
    ):
        load_geared(tmp_path, lengths=(4, 8))


def test_a_graph_on_the_cpu_that_has_a_mask_is_fed_one(tmp_path: Path, whole: Program):
    place_masked_vocoder(tmp_path)
    program = load(tmp_path)
    program.warm_up()
    (cut,), (uncut,) = run_all(program, [request([70])]), run_all(whole, [request([70])])
    assert np.abs(cut.outputs["audio"].astype(int) - uncut.outputs["audio"]).max() <= 1


def place_reflecting(folder: Path, **options: Any) -> WindowedStage:
    """A generator of one layer that reflects three positions, hence needs four frames."""
    nodes = [
        helper.make_node("Pad", ["features", "amounts"], ["padded"], mode="reflect"),
        helper.make_node("Conv", ["padded", "weights"], ["made"]),
        helper.make_node("Transpose", ["made"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["turned", "shape"], ["audio"]),
    ]
    constants: dict[str, npt.NDArray[Any]] = {
        "amounts": np.array([0, 0, 3, 0, 0, 3], np.int64),
        "weights": (np.random.default_rng(1).standard_normal((HOP, CHANNELS, 7)) * 0.05).astype(np.float32),
        "shape": np.array([0, 1, -1], np.int64),
    }
    inputs: Tensors = [("features", "FP32", ["batch", CHANNELS, "frames"])]
    spec = place(folder, "generator", nodes, inputs, [("audio", "FP32", ["batch", 1, "samples"])], constants)
    stage = WindowedStage(
        program="windowed",
        stage="vocoder",
        graphs={"generator": spec},
        interface=Interface(channels=CHANNELS, hop_length_samples=HOP, sample_rate_hz=SAMPLE_RATE_HZ),
        options=WindowedOptions(window_frames=WINDOW, overlap_frames=3, **options),
    )
    write_stage(folder, stage)
    return stage


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5, WINDOW, 50])
def test_segments_too_short_for_the_graphs_reflections_are_lengthened_for_it(tmp_path: Path, frames: int):
    place_reflecting(tmp_path, min_frames=4)
    sent = request([frames, 9], [10, 0])
    (answers,) = run_all(load(tmp_path, 4), [sent])
    audio = answers.outputs["audio"][0]
    assert len(audio) == (frames + 9) * HOP + SAMPLE_RATE_HZ // 100
    features = sent["features"][0, :frames]
    longer = np.concatenate([features, np.repeat(features[-1:], max(0, 4 - frames), axis=0)])
    (alone,) = run_all(load(tmp_path), [{**request([len(longer)]), "features": longer[np.newaxis]}])
    assert np.abs(audio[: frames * HOP].astype(int) - alone.outputs["audio"][0, : frames * HOP]).max() <= 1


def test_warm_up_keeps_to_the_least_frames(tmp_path: Path):
    place_reflecting(tmp_path, min_frames=WINDOW)
    assert "generator" in load(tmp_path).warm_up()


class RecordingGraph:
    """A graph that notes how long its windows were."""

    description: GraphDescription | None = None

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.lengths: list[int] = []

    def run(self, feeds: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        self.lengths.append(feeds["features"].shape[2])
        return self._graph.run(feeds)

    def release_work_memory(self) -> None:
        self._graph.release_work_memory()

    def close(self) -> None:
        self._graph.close()


def test_windows_that_begin_segments_run_in_the_graph_for_them_and_sound_the_same(tmp_path: Path):
    opening_frames = WINDOW // 2
    stage = place_vocoder(tmp_path, first_window_frames=opening_frames)
    spec = stage.graphs["generator"]
    usual, opening = (
        RecordingGraph(load_graph(tmp_path, spec, RuntimeSettings(threads=threads))) for threads in (1, 2)
    )
    sent = request([3 * WINDOW, 2 * WINDOW])
    (heard,) = run_all(WindowedProgram(stage, {"generator": usual}, 1, opening=opening), [sent])
    (expected,) = run_all(WindowedProgram(stage, {"generator": usual._graph}, 1), [sent])
    assert np.abs(heard.outputs["audio"].astype(int) - expected.outputs["audio"]).max() <= 1
    assert len(opening.lengths) >= 2
    assert max(opening.lengths) == opening_frames < min(usual.lengths)


def test_a_program_has_the_graph_for_openings_only_with_threads_of_their_own(tmp_path: Path):
    place_vocoder(tmp_path, first_window_frames=WINDOW // 2)
    for threads, opening_threads in ((1, 2), (1, 1), (2, 2)):
        loaded = Mock()
        settings = RuntimeSettings(threads=threads, opening_threads=opening_threads, loaded=loaded)
        load_program(tmp_path, settings, 1)
        wanted = [f"onnxruntime on the CPU, {each} threads" for each in dict.fromkeys((threads, opening_threads))]
        assert [call.args[1] for call in loaded.call_args_list] == wanted
