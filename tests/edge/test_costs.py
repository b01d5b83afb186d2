"""What calls cost, learned from those that were made."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.costs import MIN_CALLS, CostModel, Costs, units_of
from voxrepo.edge.stream_load import MIN_CALLS as MIN_STAGE_CALLS
from voxrepo.edge.stream_load import StreamLoad


def learned(a: float, b: float, noise: float = 0.0, calls: int = 200, seed: int = 1) -> CostModel:
    chance = random.Random(seed)
    model = CostModel()
    for _ in range(calls):
        units = chance.randint(1, 500)
        model.observe(units, (a + b * units) * chance.uniform(1 - noise, 1 + noise))
    return model


def test_nothing_is_predicted_before_enough_calls() -> None:
    model = learned(0.1, 0.01, calls=MIN_CALLS - 1)
    assert model.predict(10) is None
    model.observe(10, 0.2)
    assert model.predict(10) is not None
    assert Costs().predict("voice", 10) == 0


@given(a=st.floats(0, 1), b=st.floats(1e-5, 0.01))
def test_finds_the_line_that_calls_lie_on(a: float, b: float) -> None:
    model = learned(a, b)
    for units in (1, 100, 500, 2000):
        assert model.predict(units) == pytest.approx(a + b * units, rel=0.02, abs=1e-3)


def test_noise_does_not_make_either_part_negative() -> None:
    for seed in range(20):
        a, b = learned(0.0, 0.001, noise=0.5, seed=seed).line()
        assert a >= 0
        assert b >= 0
        assert 0.2 < a + b * 250 < 0.3


def test_calls_of_one_length_say_what_that_length_costs() -> None:
    model = CostModel()
    for _ in range(50):
        model.observe(100, 0.4)
    assert model.predict(100) == pytest.approx(0.4)
    longer_s = model.predict(200)
    assert longer_s is not None
    assert 0.4 < longer_s < 0.8


def test_one_odd_call_hardly_changes_anything_and_a_lasting_change_is_followed() -> None:
    model = learned(0.05, 0.001, noise=0.1)
    before_s = model.predict(100)
    model.observe(100, 60.0)
    after_s = model.predict(100)
    assert before_s is not None
    assert after_s is not None
    assert after_s < 1.3 * before_s
    chance = random.Random(2)
    for _ in range(60):
        units = chance.randint(1, 500)
        model.observe(units, 10 * (0.05 + 0.001 * units))
    assert model.predict(100) == pytest.approx(1.5, rel=0.3)


def test_calls_that_shared_the_gate_outweigh_those_that_were_alone() -> None:
    costs = Costs()
    for _ in range(30):
        costs.observe("voice", 100, shared_s=0.8, own_s=0.1)  # eight at a time
    for _ in range(5):
        costs.observe("voice", 100, shared_s=0.4, own_s=0.4)  # alone
    assert costs.predict("voice", 100) < 0.15


@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 100), st.floats(1, 50)), max_size=60))
def test_predictions_are_never_negative(calls: list[tuple[int, float, float]]) -> None:
    model = CostModel()
    for units, seconds, weight in calls:
        model.observe(units, seconds, weight)
    for units in (1, 10, 10_000):
        predicted_s = model.predict(units)
        assert predicted_s is None or 0 <= predicted_s < float("inf")


def tensors(*inputs: tuple[str, list[int], bytes]) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest()
    for name, shape, raw in inputs:
        request.inputs.add(name=name, shape=shape)
        request.raw_input_contents.append(raw)
    return request


@pytest.mark.parametrize(
    ("request_", "units"),
    [
        (tensors(("seed", [1, 1], b""), ("text", [1, 1], b"\x09\0\0\0" + "äöü 你".encode())), 5),
        (tensors(("phoneme_ids", [1, 77], b""), ("seed", [1, 1], b"")), 77),
        (tensors(("features", [1, 240, 192], b""), ("frame_lengths", [1, 1], b"")), 240),
        (tensors(("x", [3], b"")), 1),
        (tensors(("text", [1, 1], b"")), 1),
    ],
)
def test_units_are_characters_ids_or_frames(request_: pb.ModelInferRequest, units: int) -> None:
    assert units_of(request_) == units


def test_a_stream_needs_what_its_busiest_stage_takes() -> None:
    load = StreamLoad()
    for _ in range(MIN_STAGE_CALLS - 1):
        load.observe("vocoder", audio_s=1.0, shared_s=0.4, own_s=0.1)
        load.observe("acoustic", audio_s=3.0, shared_s=0.06, own_s=0.06)
        load.observe("text_frontend", audio_s=0.0, shared_s=9, own_s=9)
    assert load.of_one_stream() == 0, "not enough is known"
    load.observe("vocoder", audio_s=1.0, shared_s=0.4, own_s=0.1)
    load.observe("acoustic", audio_s=3.0, shared_s=0.06, own_s=0.06)
    assert load.of_one_stream() == pytest.approx(0.1)
