from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.job import Program
from om_backend.length_regulator import frame_counts
from om_backend.noise import DURATION, PRIOR, gaussian
from om_backend.packing import CallCost
from om_backend.programs import load_program
from om_backend.runtime import RuntimeSettings

from voxrepo_contract.errors import Internal, InvalidArgument

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


def test_warm_up_measures_what_batches_pay(folder: Path):
    program: Any = load(folder, None)
    said = program.warm_up()
    assert said == f"encoder batches {program._encoder_cost.batches}, decoder batches {program._decoder_cost.batches}"
    assert 1 in program._encoder_cost.batches
    assert run_all(program, crowd(3))[0].finished


def test_warm_up_leaves_a_given_batch_size_alone(folder: Path):
    program: Any = load(folder, 3)
    program.warm_up()
    assert program._encoder_cost == CallCost.per_call(3)


def test_warm_up_fails_on_graphs_that_do_not_work(folder: Path):
    class Broken:
        def run(self, feeds: Any) -> Any:
            raise Internal("no device")

    program: Any = load(folder)
    program._decoder = Broken()
    with pytest.raises(Internal, match="no device"):
        program.warm_up()
