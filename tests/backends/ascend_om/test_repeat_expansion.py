"""``length_regulated`` with ``expansion: repeat``: hidden states repeated, no noise, FastSpeech 2's rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.job import Program
from om_backend.length_regulator import frame_counts, nearest_frame_counts
from om_backend.programs import load_program
from om_backend.runtime import RuntimeSettings
from onnx import TensorProto, helper

from voxrepo_contract.errors import Internal, InvalidArgument
from voxrepo_contract.stage import Interface, LengthRegulatedOptions, LengthRegulatedStage, write_stage

from .geared import GearedGraph, gears
from .graphs import CHANNELS, job_for, place, run_all
from .test_length_regulated import assert_equal, crowd, request

DURATIONS = [2.0, 0.4, 3.5, 2.5, 6.2, 1.0, 0.0, np.nan]
"""By id; the last is not a number."""
HIDDEN = np.random.default_rng(4).standard_normal((len(DURATIONS), CHANNELS)).astype(np.float32)


def place_repeating(
    folder: Path, *, encoder_gears: Any = None, decoder_gears: Any = None, **options: Any
) -> LengthRegulatedStage:
    """Tables from ids to durations and hidden states; the decoder doubles what the mask lets through."""
    nodes = [
        helper.make_node("Gather", ["durations_of", "phoneme_ids"], ["d1"]),
        helper.make_node("Transpose", ["d1"], ["durations"], perm=[0, 2, 1]),
        helper.make_node("Gather", ["hidden_of", "phoneme_ids"], ["h1"]),
        helper.make_node("Transpose", ["h1"], ["h2"], perm=[0, 2, 1]),
        # lengths must be an input of the graph to stay one
        helper.make_node("Cast", ["lengths"], ["l1"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["l1", "l1"], ["l2"]),
        helper.make_node("Unsqueeze", ["l2", "axis12"], ["l3"]),
        helper.make_node("Add", ["h2", "l3"], ["hidden"]),
    ]
    encoder = place(
        folder,
        "encoder",
        nodes,
        [("phoneme_ids", "INT64", ["batch", "ids"]), ("lengths", "INT64", ["batch"])],
        [("durations", "FP32", ["batch", 1, "ids"]), ("hidden", "FP32", ["batch", CHANNELS, "ids"])],
        {
            "durations_of": np.array(DURATIONS, np.float32)[:, np.newaxis],
            "hidden_of": HIDDEN,
            "axis12": np.array([1, 2], np.int64),
        },
    )
    decoder = place(
        folder,
        "decoder",
        [helper.make_node("Mul", ["latent", "mask"], ["f1"]), helper.make_node("Add", ["f1", "f1"], ["features"])],
        [("latent", "FP32", ["batch", CHANNELS, "frames"]), ("mask", "FP32", ["batch", 1, "frames"])],
        [("features", "FP32", ["batch", CHANNELS, "frames"])],
    )
    if encoder_gears:
        encoder = encoder.model_copy(update={"device": "npu", "gears": encoder_gears})
    if decoder_gears:
        decoder = decoder.model_copy(update={"device": "npu", "gears": decoder_gears})
    stage = LengthRegulatedStage(
        program="length_regulated",
        stage="acoustic",
        graphs={"encoder": encoder, "decoder": decoder},
        interface=Interface(speakers=1, channels=CHANNELS),
        options=LengthRegulatedOptions(expansion="repeat", length_scale=1.0, **options),
    )
    write_stage(folder, stage)
    return stage


@pytest.fixture
def program(tmp_path: Path) -> Program:
    place_repeating(tmp_path)
    return load_program(tmp_path, RuntimeSettings(), 1)


def test_each_hidden_state_is_repeated_for_its_frames(program: Program):
    (answers,) = run_all(program, [request([[0, 1, 2, 3, 4]])])
    # halves to even: 3.5 are 4 frames, 2.5 are 2; 0.4 are none
    which = np.repeat([0, 1, 2, 3, 4], [2, 0, 4, 2, 6])
    np.testing.assert_array_equal(answers.outputs["features"][0], 2 * HIDDEN[which])
    assert answers.outputs["frame_lengths"].tolist() == [[14]]


def test_speed_divides_durations_before_they_are_rounded(program: Program):
    (answers,) = run_all(program, [request([[0, 1, 2, 3, 4]], speed=0.5)])
    which = np.repeat([0, 1, 2, 3, 4], [4, 1, 7, 5, 12])
    np.testing.assert_array_equal(answers.outputs["features"][0], 2 * HIDDEN[which])


def test_the_seed_does_not_matter(program: Program):
    first, second = run_all(program, [request([[4, 2]], seed=1), request([[4, 2]], seed=2)])
    np.testing.assert_array_equal(first.outputs["features"], second.outputs["features"])


def test_a_segment_without_a_frame_gets_one(program: Program):
    (answers,) = run_all(program, [request([[6, 1, 6]], speed=4.0)])
    np.testing.assert_array_equal(answers.outputs["features"][0], 2 * HIDDEN[[1]])


@pytest.mark.parametrize("unit_batch", [1, 3, 8])
def test_a_batch_gives_each_request_what_it_gets_alone(tmp_path: Path, program: Program, unit_batch: int):
    together = load_program(tmp_path, RuntimeSettings(), unit_batch)
    for one, alone in zip(run_all(together, crowd()), [run_all(program, [sent])[0] for sent in crowd()], strict=True):
        assert_equal(one.outputs, alone.outputs)


def test_gears_give_each_request_what_it_gets_without(tmp_path: Path, program: Program):
    from om_backend.programs.length_regulated import LengthRegulatedProgram

    folder = tmp_path / "geared"
    folder.mkdir()
    stage = place_repeating(
        folder, encoder_gears=gears("ids", [16, 32], [1, 4]), decoder_gears=gears("frames", [64, 256, 512], [1, 4])
    )
    graphs = {name: GearedGraph(folder, spec) for name, spec in stage.graphs.items()}
    geared = LengthRegulatedProgram(stage, graphs, None)
    geared.warm_up()
    for one, alone in zip(run_all(geared, crowd()), run_all(program, crowd()), strict=True):
        assert_equal(one.outputs, alone.outputs)


def test_warm_up_runs(program: Program):
    assert "decoder batches" in program.warm_up()


@pytest.mark.parametrize("name", ["noise_scale", "noise_w_scale"])
def test_noise_is_refused_and_none_of_it_is_accepted(program: Program, name: str):
    refused, answers = job_for(request([[0]]), {name: 0.5})
    accepted, fine = job_for(request([[0]]), {name: 0})
    program.run([refused, accepted])
    assert isinstance(answers.error, InvalidArgument)
    assert answers.error.message == f"parameter {name!r}: this voice speaks without noise; leave it out, or give 0"
    assert fine.outputs["frame_lengths"].tolist() == [[2]]


def test_a_duration_that_is_not_a_number_fails_its_own_request_only(program: Program):
    bad, good = run_all(program, [request([[0, 7]]), request([[0]])])
    assert isinstance(bad.error, Internal)
    assert "durations that are not numbers" in bad.error.message
    assert good.count == 1 and not good.failed


durations = st.lists(st.floats(0, 500, width=32), min_size=1, max_size=40)


@given(durations, st.floats(0.25, 4), st.integers(1, 300), st.integers(1, 2000))
def test_counts_stay_within_their_limits(values: list[float], scale: float, per_id: int, per_segment: int):
    made = np.array(values, np.float32)
    counts = nearest_frame_counts(made, scale, per_id, per_segment)
    assert counts.min() >= 0 and counts.max() <= per_id
    unlimited = np.rint(made * np.float32(scale)).clip(0, per_id)
    # who has a frame keeps one
    assert 1 <= counts.sum() <= max(per_segment, np.count_nonzero(unlimited), 1)
    if 0 < unlimited.sum() <= per_segment:
        np.testing.assert_array_equal(counts, unlimited)


def test_infinite_durations_are_clamped():
    assert nearest_frame_counts(np.array([np.inf, -np.inf, 2.0], np.float32), 1.0, 50, 100).tolist() == [50, 0, 2]


def test_the_gaussian_expansion_rounds_up_as_before():
    assert frame_counts(np.array([0.2, 1.0, 2.01], np.float32), 1.0, 50, 100).tolist() == [1, 1, 3]
