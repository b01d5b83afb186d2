from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.job import Program
from om_backend.length_regulator import frame_counts
from om_backend.noise import DURATION, PRIOR, gaussian
from om_backend.packing import CallCost
from om_backend.programs import load_program
from om_backend.programs.length_regulated import LengthRegulatedProgram
from om_backend.runtime import RuntimeSettings

from voxrepo_contract.errors import Internal, InvalidArgument
from voxrepo_contract.stage import LengthRegulatedStage, read_stage

from .geared import GearedGraph, geared, gears
from .graphs import CHANNELS, IDS, NAN_DURATION_ID, NAN_MEAN_ID, job_for, place_acoustic, run_all

GOOD_IDS = 6


def load(folder: Path, unit_batch: int | None = 1) -> Program:
    return load_program(folder, RuntimeSettings(), unit_batch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place_acoustic(tmp_path)
    return tmp_path


def request(segments: list[list[int]], *, speed: float = 1.0, speaker_id: int = 0, seed: int = 1) -> dict[str, Any]:
    return {
        "phoneme_ids": np.array([[i for segment in segments for i in segment]], np.int64),
        "segment_lengths": np.array([[len(segment) for segment in segments]], np.int32),
        "pause_ms": np.array([[10 * index for index in range(len(segments))]], np.int32),
        "speed": np.array([[speed]], np.float32),
        "speaker_id": np.array([[speaker_id]], np.int64),
        "seed": np.array([[seed]], np.int64),
    }


def crowd(count: int = 12) -> list[dict[str, Any]]:
    """Requests of one to four segments of one to thirty ids, all different."""
    rng = random.Random(5)
    return [
        request(
            [[rng.randrange(GOOD_IDS) for _ in range(rng.randint(1, 30))] for _ in range(rng.randint(1, 4))],
            seed=number,
            speed=rng.choice([0.5, 1.0, 2.0]),
        )
        for number in range(count)
    ]


def assert_equal(left: Any, right: Any, tolerance: float = 1e-6) -> None:
    assert set(left) == {"features", "frame_lengths", "pause_ms"}
    for name in left:
        assert left[name].dtype == right[name].dtype
        np.testing.assert_allclose(left[name], right[name], rtol=0, atol=tolerance)


def test_outputs_are_flat_frames_with_their_lengths(folder: Path):
    sent = request([[0, 1, 2], [4], [3, 5]])
    (answers,) = run_all(load(folder), [sent])
    outputs = answers.outputs
    frames = int(outputs["frame_lengths"].sum())
    assert outputs["features"].shape == (1, frames, CHANNELS)
    assert outputs["features"].dtype == np.float32
    assert outputs["frame_lengths"].shape == (1, 3)
    assert outputs["frame_lengths"].dtype == np.int32
    assert np.array_equal(outputs["pause_ms"], sent["pause_ms"])


def test_features_are_what_the_graphs_and_the_formula_give(folder: Path):
    ids, seed, speed = [4, 0, 2, 5], 9, 0.5
    (answers,) = run_all(load(folder), [request([ids], seed=seed, speed=speed)])
    encoder = load_graph(folder, "encoder")
    noise = gaussian(seed, 0, DURATION, (2, len(ids))) * np.float32(0.7)
    made = encoder.run(
        {
            "phoneme_ids": np.array([ids], np.int64),
            "lengths": np.array([len(ids)], np.int64),
            "duration_noise": noise[np.newaxis],
        }
    )
    counts = frame_counts(made["durations"][0, 0], 1 / speed, 200, 20_000)
    frames = int(counts.sum())
    assert answers.outputs["frame_lengths"].tolist() == [[frames]]
    which = np.repeat(np.arange(len(ids)), counts)
    latent = made["mean"][0][:, which] + gaussian(seed, 0, PRIOR, (CHANNELS, frames)) * np.exp(
        made["log_scale"][0][:, which]
    ) * np.float32(0.6)
    features = load_graph(folder, "decoder").run(
        {"latent": latent[np.newaxis].astype(np.float32), "mask": np.ones((1, 1, frames), np.float32)}
    )["features"][0]
    np.testing.assert_allclose(answers.outputs["features"][0], features.T, rtol=0, atol=1e-6)


def load_graph(folder: Path, name: str) -> Any:
    from om_backend import runtime

    from voxrepo_contract.stage import read_stage

    return runtime.load_graph(folder, read_stage(folder).graphs[name], RuntimeSettings())


@pytest.mark.parametrize("unit_batch", [2, 4, 7])
def test_a_batch_gives_each_request_what_it_gets_alone(folder: Path, unit_batch: int):
    requests = crowd()
    alone = [run_all(load(folder), [request])[0].outputs for request in requests]
    together = run_all(load(folder, unit_batch), requests)
    for mine, ours in zip(alone, together, strict=True):
        assert_equal(mine, ours.outputs)


def test_one_unit_per_call_is_equal_to_the_bit_whatever_else_is_in_the_batch(folder: Path):
    requests = crowd()
    alone = [run_all(load(folder), [request])[0].outputs for request in requests]
    for mine, ours in zip(alone, run_all(load(folder), requests), strict=True):
        assert_equal(mine, ours.outputs, tolerance=0)


def test_the_order_of_requests_does_not_matter(folder: Path):
    requests = crowd()
    program = load(folder, 4)
    forward = run_all(program, requests)
    backward = run_all(program, requests[::-1])[::-1]
    for mine, ours in zip(forward, backward, strict=True):
        assert_equal(mine.outputs, ours.outputs)


def test_the_seed_decides_the_noise(folder: Path):
    program = load(folder)
    sent = [request([[1, 4, 5]], seed=seed) for seed in (3, 3, 4)]
    one, same, other = (answers.outputs for answers in run_all(program, sent))
    assert_equal(one, same, tolerance=0)
    assert one["features"].shape != other["features"].shape or not np.allclose(one["features"], other["features"])


def test_equal_segments_of_one_request_do_not_sound_alike(folder: Path):
    (answers,) = run_all(load(folder), [request([[1, 4, 5], [1, 4, 5]])])
    first, second = np.split(answers.outputs["features"][0], [int(answers.outputs["frame_lengths"][0, 0])])
    assert first.shape != second.shape or not np.allclose(first, second)


def test_without_noise_the_seed_does_not_matter(folder: Path):
    program = load(folder)
    outputs = []
    for seed in (1, 2):
        job, answers = job_for(request([[1, 4, 5]], seed=seed), {"noise_scale": 0, "noise_w_scale": 0})
        program.run([job])
        outputs.append(answers.outputs)
    assert_equal(outputs[0], outputs[1], tolerance=0)


def test_half_the_speed_takes_twice_the_frames(folder: Path):
    program = load(folder)
    ids = [[4] * 50]
    frames = []
    for speed in (1.0, 0.5):
        job, answers = job_for(request(ids, speed=speed), {"noise_w_scale": 0})
        program.run([job])
        frames.append(int(answers.outputs["frame_lengths"][0, 0]))
    assert frames == [300, 600]


def test_frames_of_an_id_and_of_a_segment_are_limited(tmp_path: Path):
    place_acoustic(tmp_path, max_frames_per_id=10, max_frames_per_segment=40)
    job, answers = job_for(request([[4] * 3, [4] * 20], speed=0.01), {"noise_w_scale": 0})
    load(tmp_path).run([job])
    assert answers.outputs["frame_lengths"].tolist() == [[30, 40]]


def test_each_speaker_has_a_voice_of_its_own_in_a_mixed_batch(tmp_path: Path):
    place_acoustic(tmp_path, speakers=3)
    program = load(tmp_path, 4)
    requests = [request([[0, 4]], speaker_id=speaker) for speaker in (0, 2, 1)]
    alone = [run_all(program, [sent])[0].outputs for sent in requests]
    together = [answers.outputs for answers in run_all(program, requests)]
    for mine, ours in zip(alone, together, strict=True):
        assert_equal(mine, ours)
    assert not np.allclose(alone[0]["features"], alone[1]["features"])


@pytest.mark.parametrize("bad_id", [NAN_MEAN_ID, NAN_DURATION_ID])
@pytest.mark.parametrize("unit_batch", [1, 8])
def test_a_row_that_is_not_a_number_fails_its_own_request_only(folder: Path, unit_batch: int, bad_id: int):
    requests = crowd(6)
    requests.insert(2, request([[1, 2], [0, bad_id, 1], [3]]))
    alone = [run_all(load(folder), [request])[0] for request in requests]
    together = run_all(load(folder, unit_batch), requests)
    assert [number for number, answers in enumerate(together) if answers.failed] == [2]
    assert isinstance(together[2].error, Internal)
    assert "not finite numbers" in together[2].error.message or "not numbers" in together[2].error.message
    for number in (0, 1, 3, 4, 5, 6):
        assert_equal(alone[number].outputs, together[number].outputs)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"segment_lengths": np.array([[2]], np.int32)}, "segment_lengths must be positive and sum to the 3"),
        ({"segment_lengths": np.array([[4]], np.int32)}, "segment_lengths must be positive and sum to the 3"),
        ({"segment_lengths": np.array([[3, 0]], np.int32)}, "segment_lengths must be positive"),
        ({"segment_lengths": np.array([[4, -1]], np.int32)}, "segment_lengths must be positive"),
        ({"segment_lengths": np.zeros((1, 0), np.int32)}, "segment_lengths must be positive"),
        ({"segment_lengths": np.array([[3]], np.int64)}, "input 'segment_lengths' must be INT32 [1, -1]"),
        ({"pause_ms": np.array([[1, 2]], np.int32)}, "pause_ms needs 1 values"),
        ({"pause_ms": np.array([[-1]], np.int32)}, "pause_ms needs 1 values from 0 to 60000"),
        ({"phoneme_ids": np.zeros((2, 3), np.int64)}, "input 'phoneme_ids' must be INT64 [1, -1]"),
        ({"phoneme_ids": np.zeros((1, 3), np.float32)}, "input 'phoneme_ids' must be INT64 [1, -1]"),
        (
            {"phoneme_ids": np.zeros((1, 0), np.int64), "segment_lengths": np.zeros((1, 1), np.int32)},
            "must be positive",
        ),
        ({"speed": np.array([[0.0]], np.float32)}, "speed must be a positive number, got 0.0"),
        ({"speed": np.array([[-1.0]], np.float32)}, "speed must be a positive number"),
        ({"speed": np.array([[np.nan]], np.float32)}, "speed must be a positive number, got nan"),
        ({"speed": np.array([[np.inf]], np.float32)}, "speed must be a positive number, got inf"),
        ({"speed": np.array([[1, 1]], np.float32)}, "input 'speed' must be FP32 [1, 1]"),
        ({"speaker_id": np.array([[1]], np.int64)}, "speaker_id must be from 0 to 0, got 1"),
        ({"speaker_id": np.array([[-1]], np.int64)}, "speaker_id must be from 0 to 0, got -1"),
        ({"seed": np.array([[1.5]], np.float64)}, "input 'seed' must be INT64 [1, 1]"),
    ],
)
def test_bad_input_is_an_invalid_argument_of_its_own_request(folder: Path, changes: dict[str, Any], says: str):
    bad, good = run_all(load(folder), [request([[1, 2, 3]]) | changes, request([[1, 2, 3]])])
    assert isinstance(bad.error, InvalidArgument)
    assert says in bad.error.message
    assert good.finished


@pytest.mark.parametrize("name", ["phoneme_ids", "segment_lengths", "pause_ms", "speed", "speaker_id", "seed"])
def test_a_missing_input_is_named(folder: Path, name: str):
    sent = request([[1]])
    del sent[name]
    (answers,) = run_all(load(folder), [sent])
    assert isinstance(answers.error, InvalidArgument)
    assert answers.error.message == f"input {name!r} is missing"


def test_an_id_outside_the_table_fails_its_own_request_only(folder: Path):
    bad, good = run_all(load(folder, 4), [request([[IDS + 3]]), request([[1]])])
    assert isinstance(bad.error, Internal)
    assert "encoder.onnx failed on" in bad.error.message
    assert good.finished


def test_a_short_request_is_answered_before_a_long_one_of_its_batch(folder: Path):
    order: list[str] = []
    long_job, _ = job_for(request([[1] * 30] * 4))
    short_job, _ = job_for(request([[1] * 31]))
    long_job.on_finish = lambda outputs: order.append("long")
    short_job.on_finish = lambda outputs: order.append("short")
    load(folder).run([short_job, long_job])
    assert order == ["short", "long"]


def test_on_a_cpu_a_call_has_one_unit_unless_another_number_is_given(folder: Path):
    program: Any = load(folder, None)
    program.warm_up()
    assert program._encoder.table == program._decoder.table == CallCost.per_call(1)


def test_warm_up_measures_on_a_device_what_batches_pay(folder: Path):
    stage = read_stage(folder)
    assert isinstance(stage, LengthRegulatedStage)
    graphs = {name: load_graph(folder, name) for name in stage.graphs}
    specs = {name: spec.model_copy(update={"device": "npu"}) for name, spec in stage.graphs.items()}
    program: Any = LengthRegulatedProgram(stage.model_copy(update={"graphs": specs}), graphs, None)
    said = program.warm_up()
    encoder, decoder = program._encoder.table, program._decoder.table
    assert said == f"encoder batches {encoder.batches}, decoder batches {decoder.batches}"
    assert 1 in encoder.batches
    assert run_all(program, crowd(3))[0].finished


def test_warm_up_leaves_a_given_batch_size_alone(folder: Path):
    program: Any = load(folder, 3)
    program.warm_up()
    assert program._encoder.table == CallCost.per_call(3)


def test_warm_up_fails_on_graphs_that_do_not_work(folder: Path):
    class Broken:
        def run(self, feeds: Any) -> Any:
            raise Internal("no device")

    program: Any = load(folder)
    program._decoder.graph = Broken()
    with pytest.raises(Internal, match="no device"):
        program.warm_up()


# Graphs with gears

GEAR_IDS = (8, 16, 32)
GEAR_FRAMES = (32, 64, 256, 512)


def load_geared(
    folder: Path,
    *,
    ids: Sequence[int] = GEAR_IDS,
    frames: Sequence[int] = GEAR_FRAMES,
    batches: Sequence[int] = (1, 2, 4),
    unit_batch: int | None = None,
    **options: Any,
) -> tuple[LengthRegulatedProgram, dict[str, GearedGraph]]:
    stage = place_acoustic(folder, **options)
    specs = {
        "encoder": geared(stage.graphs["encoder"], gears("ids", ids, batches)),
        "decoder": geared(stage.graphs["decoder"], gears("frames", frames, batches)),
    }
    graphs = {name: GearedGraph(folder, spec) for name, spec in specs.items()}
    return LengthRegulatedProgram(stage.model_copy(update={"graphs": specs}), graphs, unit_batch), graphs


def test_gears_give_each_request_what_it_gets_without(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    requests = crowd()
    program, graphs = load_geared(tmp_path_factory.mktemp("geared"))
    alone = [run_all(load(folder), [sent])[0].outputs for sent in requests]
    for mine, ours in zip(alone, run_all(program, requests), strict=True):
        assert_equal(mine, ours.outputs, tolerance=1e-5)
    for graph in graphs.values():
        assert max(gear["batch"] for gear in graph.calls) == 4
        assert len(graph.calls) < sum(gear["batch"] for gear in graph.calls) / 2


def test_speakers_stay_with_their_rows_in_gears(tmp_path: Path):
    program, graphs = load_geared(tmp_path, speakers=3, batches=(4,))
    requests = [request([[0, 4]], speaker_id=speaker) for speaker in (1, 2, 0)]
    alone = [run_all(program, [sent])[0].outputs for sent in requests]
    for mine, ours in zip(alone, run_all(program, requests), strict=True):
        assert_equal(mine, ours.outputs)
    assert graphs["encoder"].feeds["speaker_id"].tolist() == [1, 2, 0, 0]


def test_in_one_gear_the_neighbours_do_not_change_a_bit(tmp_path: Path):
    program, graphs = load_geared(tmp_path, ids=(16,), frames=(256,), batches=(4,))
    mine = request([[1, 4, 2, 5, 0]], seed=5)
    others = [request([[0, 3, 2, NAN_MEAN_ID]]), request([[4] * 12], seed=8), request([[NAN_DURATION_ID]])]
    (alone,) = run_all(program, [mine])
    crowded = run_all(program, [others[0], mine, *others[1:]])
    assert_equal(alone.outputs, crowded[1].outputs, tolerance=0)
    assert [bool(answers.failed) for answers in crowded] == [True, False, False, True]
    assert graphs["encoder"].calls == [{"batch": 4, "ids": 16}] * 2
    assert program.rejections.counts == {"not_finite": 2}


def test_errors_of_a_graph_name_it_and_the_likely_cause(tmp_path: Path):
    program, graphs = load_geared(tmp_path)
    told: list[str] = []
    program.rejections.on_rejected = told.append
    (bad,) = run_all(program, [request([[NAN_MEAN_ID]])])
    assert bad.error.message.startswith("encoder.onnx returned means that are not finite numbers; the usual cause is")
    run = graphs["decoder"].run
    graphs["decoder"].run = lambda feeds: {"features": run(feeds)["features"] + np.inf}  # type: ignore[method-assign]
    bad, too = run_all(program, [request([[1], [2], [3]]), request([[1]])])
    assert bad.error.message.startswith("decoder.onnx returned features that are not finite numbers")
    assert isinstance(too.error, Internal)
    assert told == ["not_finite"] * 3


def test_the_true_lengths_are_said_and_the_rest_is_zero(tmp_path: Path):
    program, graphs = load_geared(tmp_path, ids=(8,), frames=(64,), batches=(4,))
    program.run([job_for(request([[1, 4, 2]]))[0], job_for(request([[4] * 5], seed=2))[0]])
    fed = graphs["encoder"].feeds
    assert fed["lengths"].tolist() == [3, 5, 0, 0]
    assert not fed["phoneme_ids"][0, 3:].any()
    assert not fed["phoneme_ids"][2:].any()
    assert not fed["duration_noise"][0, :, 3:].any()
    fed = graphs["decoder"].feeds
    true = fed["mask"].sum((1, 2)).astype(int)
    assert true[2:].tolist() == [0, 0]
    assert (true[:2] > 0).all()
    for row, frames in enumerate(true):
        assert not fed["latent"][row, :, frames:].any()
        assert fed["latent"][row, :, :frames].any(0).all()


def test_a_segment_with_more_ids_than_the_longest_gear_is_refused(tmp_path: Path):
    program, _ = load_geared(tmp_path)
    bad, good = run_all(program, [request([[1, 2], [1] * 33]), request([[1] * 32])])
    assert isinstance(bad.error, InvalidArgument)
    assert bad.error.message.startswith(
        "segment_lengths: a segment has 33 ids; the longest gear of encoder.onnx takes 32: send shorter segments"
    )
    assert good.finished


def test_a_segment_that_takes_more_frames_than_the_longest_gear_is_refused(tmp_path: Path):
    program, _ = load_geared(tmp_path)
    bad, good = run_all(program, [request([[1], [4] * 30], speed=0.1), request([[1] * 32])])
    assert isinstance(bad.error, InvalidArgument)
    assert "segment 1 of 30 ids takes" in bad.error.message
    assert "the longest gear of decoder.onnx takes 512: send shorter segments or a higher speed" in bad.error.message
    assert good.finished


def test_frames_of_all_requests_are_pooled_before_the_first_is_decoded(tmp_path: Path):
    program, graphs = load_geared(tmp_path, ids=(8, 32), frames=(512,))
    run_all(program, [request([[4] * 5], seed=1), request([[4] * 30], seed=2)])
    assert len(graphs["encoder"].calls) == 2
    assert graphs["decoder"].calls == [{"batch": 2, "frames": 512}]


def test_a_limit_of_units_per_call_holds_in_gears(tmp_path: Path):
    program, graphs = load_geared(tmp_path, unit_batch=1)
    run_all(program, crowd(4))
    assert all((graph.feeds["lengths"] > 0).sum() == 1 for graph in (graphs["encoder"],))
    assert {gear["batch"] for graph in graphs.values() for gear in graph.calls} == {1}


def test_warm_up_runs_every_gear_also_those_beyond_what_requests_may_have(tmp_path: Path):
    program, graphs = load_geared(tmp_path, max_ids_per_segment=20, max_frames_per_segment=100)
    said = program.warm_up()
    for name, axis, lengths in (("encoder", "ids", GEAR_IDS), ("decoder", "frames", GEAR_FRAMES)):
        ran = {(gear["batch"], gear[axis]) for gear in graphs[name].calls}
        assert ran == {(batch, length) for batch in (1, 2, 4) for length in lengths}
    assert "encoder gears 1x8, " in said
    assert "decoder gears 1x32, " in said
    assert run_all(program, [request([[1, 2, 3]])])[0].finished


def test_an_encoder_on_the_cpu_may_stand_before_a_decoder_with_gears(folder: Path, tmp_path: Path):
    stage = place_acoustic(tmp_path)
    spec = geared(stage.graphs["decoder"], gears("frames", GEAR_FRAMES, (1, 2)))
    graphs = {"encoder": load_graph(tmp_path, "encoder"), "decoder": GearedGraph(tmp_path, spec)}
    mixed = stage.model_copy(update={"graphs": {**stage.graphs, "decoder": spec}})
    program = LengthRegulatedProgram(mixed, graphs, None)
    program.warm_up()
    requests = crowd(5)
    for mine, ours in zip(run_all(load(folder), requests), run_all(program, requests), strict=True):
        assert_equal(mine.outputs, ours.outputs, tolerance=1e-5)
