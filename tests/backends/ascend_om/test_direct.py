from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.job import Program
from om_backend.programs import load_program
from om_backend.programs.direct import DirectProgram
from om_backend.runtime import RuntimeSettings
from onnx import helper

from voxrepo_contract.errors import ConfigError, Internal, InvalidArgument

from .geared import GearedGraph, Gears, geared
from .graphs import place_direct, run_all


class Counting:
    """Passes calls on and keeps their batch sizes."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.batches: list[int] = []

    def run(self, feeds: Any) -> Any:
        self.batches.append(len(feeds["x"]))
        return self.graph.run(feeds)


def load(folder: Path) -> Program:
    return load_program(folder, RuntimeSettings(), None)


@pytest.fixture
def batched(tmp_path: Path) -> Program:
    """``y = x + w`` and ``z = max over the row``, any number of rows."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["y"]),
        helper.make_node("ReduceMax", ["x"], ["z"], axes=[1], keepdims=1),
    ]
    row = ["batch", "length"]
    place_direct(
        tmp_path,
        nodes,
        [("x", "FP32", row), ("w", "FP32", ["batch", 1])],
        [("y", "FP32", row), ("z", "FP32", ["batch", 1])],
    )
    return load(tmp_path)


def request(rows: int, length: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((rows, length)).astype(np.float32),
        "w": rng.standard_normal((rows, 1)).astype(np.float32),
    }


def assert_right(sent: dict[str, Any], outputs: Any) -> None:
    assert np.array_equal(outputs["y"], sent["x"] + sent["w"])
    assert np.array_equal(outputs["z"], sent["x"].max(1, keepdims=True))


def test_rows_of_a_shared_call_come_back_to_their_owners(batched: Any):
    counting = batched._graph = Counting(batched._graph)
    requests = [request(rows, length, seed) for seed, (rows, length) in enumerate([(1, 3), (2, 5), (3, 3), (1, 5)])]
    for sent, answers in zip(requests, run_all(batched, requests), strict=True):
        assert_right(sent, answers.outputs)
    assert sorted(counting.batches) == [3, 4]


def test_a_graph_without_a_batch_axis_runs_one_request_per_call(tmp_path: Path):
    place_direct(
        tmp_path, [helper.make_node("Neg", ["x"], ["y"])], [("x", "FP32", ["length"])], [("y", "FP32", ["length"])]
    )
    program: Any = load(tmp_path)
    assert program.warm_up() == "one request per call"
    counting = program._graph = Counting(program._graph)
    one, two = run_all(program, [{"x": np.ones(4, np.float32)}, {"x": np.full(4, 2, np.float32)}])
    assert one.outputs["y"].tolist() == [-1] * 4
    assert two.outputs["y"].tolist() == [-2] * 4
    assert counting.batches == [4, 4]


def test_warm_up_says_that_calls_are_shared(batched: Program):
    assert batched.warm_up() == "requests share calls"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"x": np.zeros((1, 3), np.float64)}, "input 'x' must be FP32 ['batch', 'length'], got float64 [1, 3]"),
        ({"x": np.zeros(3, np.float32)}, "input 'x' must be FP32 ['batch', 'length'], got float32 [3]"),
        ({"w": np.zeros((1, 2), np.float32)}, "input 'w' must be FP32 ['batch', 1], got float32 [1, 2]"),
        ({"w": None}, "input 'w' is missing"),
    ],
)
def test_bad_input_is_an_invalid_argument_of_its_own_request(batched: Program, changes: dict[str, Any], says: str):
    wrong = {name: value for name, value in {**request(1, 3), **changes}.items() if value is not None}
    good = request(1, 3)
    bad, fine = run_all(batched, [wrong, good])
    assert isinstance(bad.error, InvalidArgument)
    assert bad.error.message == says
    assert_right(good, fine.outputs)


def test_rows_that_disagree_within_a_request_fail_that_request_only(batched: Program):
    wrong = request(2, 3) | {"w": np.zeros((3, 1), np.float32)}
    good = [request(1, 3, 1), request(2, 3, 2)]
    first, bad, last = run_all(batched, [good[0], wrong, good[1]])
    assert isinstance(bad.error, Internal)
    assert "model.onnx failed on" in bad.error.message
    assert_right(good[0], first.outputs)
    assert_right(good[1], last.outputs)


def test_a_graph_that_does_not_keep_its_batch_axis_is_run_request_by_request(tmp_path: Path):
    nodes = [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=1)]
    place_direct(tmp_path, nodes, [("x", "FP32", ["batch", 2])], [("y", "FP32", ["batch", 1])])
    one, two = run_all(load(tmp_path), [{"x": np.ones((1, 2), np.float32)}, {"x": np.ones((3, 2), np.float32)}])
    assert one.outputs["y"].tolist() == [[2]]
    assert two.outputs["y"].tolist() == [[6]]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_data_types_are_kept(tmp_path: Path, dtype: Any):
    name = {np.int64: "INT64", np.int32: "INT32", np.float64: "FP64"}[dtype]
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    place_direct(tmp_path, nodes, [("x", name, ["batch", 2])], [("y", name, ["batch", 2])])
    program = load(tmp_path)
    program.warm_up()
    (answers,) = run_all(program, [{"x": np.array([[1, 2]], dtype)}])
    assert answers.outputs["y"].dtype == dtype


# Graphs with gears


def load_geared(
    folder: Path, listed: Gears, *, row: Sequence[str | int] = ("batch", "length"), unit_batch: int | None = None
) -> tuple[DirectProgram, GearedGraph]:
    """``y = x + w`` and ``z = max over the row``, in gears."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["y"]),
        helper.make_node("ReduceMax", ["x"], ["z"], axes=[1], keepdims=1),
    ]
    stage = place_direct(
        folder,
        nodes,
        [("x", "FP32", list(row)), ("w", "FP32", ["batch", 1])],
        [("y", "FP32", list(row)), ("z", "FP32", ["batch", 1])],
    )
    spec = geared(stage.graphs["model"], listed)
    graph = GearedGraph(folder, spec)
    return DirectProgram(stage.model_copy(update={"graphs": {"model": spec}}), {"model": graph}, unit_batch), graph


TWO_LENGTHS = [{"batch": batch, "length": length} for batch in (1, 4) for length in (3, 5)]


def test_requests_share_batch_gears_and_zero_rows_are_cut_off(tmp_path: Path):
    program, graph = load_geared(tmp_path, TWO_LENGTHS)
    requests = [request(rows, length, seed) for seed, (rows, length) in enumerate([(1, 3), (2, 5), (2, 3), (1, 5)])]
    for sent, answers in zip(requests, run_all(program, requests), strict=True):
        assert_right(sent, answers.outputs)
    assert sorted((gear["batch"], gear["length"]) for gear in graph.calls) == [(4, 3), (4, 5)]
    assert not graph.feeds["x"][3:].any()


def test_a_request_with_more_rows_than_the_largest_gear_is_spread_over_calls(tmp_path: Path):
    program, graph = load_geared(tmp_path, TWO_LENGTHS)
    large, small = request(11, 5, 1), request(2, 5, 2)
    first, second = run_all(program, [large, small])
    assert_right(large, first.outputs)
    assert_right(small, second.outputs)
    assert [gear["batch"] for gear in graph.calls].count(4) == 3


def test_sizes_that_no_gear_has_are_refused_with_those_that_exist(tmp_path: Path):
    program, _ = load_geared(tmp_path, TWO_LENGTHS)
    bad, empty, good = run_all(program, [request(1, 4), zero_rows(), request(1, 3)])
    assert isinstance(bad.error, InvalidArgument)
    assert bad.error.message == (
        "no gear of this model has {'length': 4}; it has batch=1 length=3, batch=1 length=5, batch=4 length=3, "
        "batch=4 length=5"
    )
    assert isinstance(empty.error, InvalidArgument)
    assert good.finished


def zero_rows() -> dict[str, Any]:
    return {"x": np.zeros((0, 3), np.float32), "w": np.zeros((0, 1), np.float32)}


def test_inputs_that_disagree_about_an_axis_are_refused(tmp_path: Path):
    program, _ = load_geared(tmp_path, TWO_LENGTHS)
    bad, good = run_all(program, [request(2, 3) | {"w": np.zeros((3, 1), np.float32)}, request(2, 3)])
    assert isinstance(bad.error, InvalidArgument)
    assert bad.error.message == "input 'w': the axis 'batch' has size 3, in another input it has 2"
    assert good.finished


def test_a_row_that_makes_the_call_fail_fails_its_request_only(tmp_path: Path):
    program, graph = load_geared(tmp_path, TWO_LENGTHS)
    run = graph.run

    def failing(feeds: Any) -> Any:
        if (feeds["x"] == 7).any():
            raise Internal("the device gave up")
        return run(feeds)

    graph.run = failing  # type: ignore[method-assign]
    bad = request(2, 3) | {"x": np.full((2, 3), 7, np.float32)}
    good = [request(1, 3, 1), request(1, 3, 2)]
    first, failed, last = run_all(program, [good[0], bad, good[1]])
    assert failed.error.message == "the device gave up"
    assert_right(good[0], first.outputs)
    assert_right(good[1], last.outputs)


def test_what_a_foreign_model_returns_is_sent_as_it_is(tmp_path: Path):
    """Infinity is a proper answer of many models (the logarithm of 0); only a voice's stages must be finite."""
    program, _ = load_geared(tmp_path, TWO_LENGTHS)
    sent = request(1, 3) | {"x": np.array([[1, np.inf, -np.inf]], np.float32)}
    (answers,) = run_all(program, [sent])
    assert_right(sent, answers.outputs)


def test_a_graph_with_gears_and_no_batch_axis_runs_one_request_per_call(tmp_path: Path):
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    stage = place_direct(tmp_path, nodes, [("x", "FP32", ["length"])], [("y", "FP32", ["length"])])
    spec = geared(stage.graphs["model"], [{"length": 4}, {"length": 6}])
    graph = GearedGraph(tmp_path, spec)
    program = DirectProgram(stage.model_copy(update={"graphs": {"model": spec}}), {"model": graph})
    program.warm_up()
    graph.calls.clear()
    one, two, bad = run_all(program, [{"x": np.full(n, n, np.float32)} for n in (4, 6, 5)])
    assert one.outputs["y"].tolist() == [-4] * 4
    assert two.outputs["y"].tolist() == [-6] * 6
    assert "no gear of this model has {'length': 5}; it has length=4, length=6" in bad.error.message
    assert graph.calls == [{"length": 4}, {"length": 6}]


def test_warm_up_runs_every_gear(tmp_path: Path):
    program, graph = load_geared(tmp_path, TWO_LENGTHS)
    assert program.warm_up() == "4 gears: batch=1 length=3, batch=1 length=5, batch=4 length=3, batch=4 length=5"
    assert {(gear["batch"], gear["length"]) for gear in graph.calls} == {(1, 3), (1, 5), (4, 3), (4, 5)}


def test_a_gear_that_leaves_an_axis_open_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"the gear {'batch': 2} does not say the size of the axis 'length'"):
        load_geared(tmp_path, [{"batch": 2}])


def test_a_graph_that_does_not_keep_the_batch_of_its_gear_is_an_error(tmp_path: Path):
    program, graph = load_geared(tmp_path, [{"batch": 4, "length": 3}])
    run = graph.run
    graph.run = lambda feeds: {name: value[:1] for name, value in run(feeds).items()}  # type: ignore[method-assign]
    (answers,) = run_all(program, [request(3, 3)])
    assert isinstance(answers.error, Internal)
    assert "has 1 rows for a batch of 4" in answers.error.message
