from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.convert.graphs import decoder, encoder, generator, model
from voxrepo.convert.precision.half import clamp_masks, lowerable, to_half
from voxrepo.convert.precision.nodes import plain
from voxrepo.convert.precision.range_check import too_large
from voxrepo.convert.proof_cases import Array, open_session
from voxrepo_contract.errors import ConversionRefused

F = TensorProto.FLOAT


def run(graph: onnx.ModelProto, **feeds: Array) -> dict[str, Array]:
    session = open_session(graph.SerializeToString())
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def chain(*nodes: onnx.NodeProto, constants: dict[str, Array] | None = None) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    return model(list(nodes), {"x": (F, ["n"])}, {"y": (F, ["n"])}, tensors)


def node(op: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [output], name=output + "_node", **attributes)


def test_what_overflows_on_a_device_overflows_here():
    graph = chain(node("Add", ["x", "x"], "a"), node("Sub", ["a", "x"], "y"))
    x = np.array([60_000, 1.0], np.float32)
    rounded = run(to_half(graph, form="rounded").model, x=x)["y"]
    assert np.isinf(rounded[0]) and rounded[1] == 1.0
    kept = run(to_half(graph, ["a_node", "y_node"], form="rounded").model, x=x)["y"]
    assert np.array_equal(kept, x)


def test_every_result_is_rounded_as_numpy_rounds():
    graph = chain(node("Mul", ["x", "c"], "a"), node("Exp", ["a"], "y"), constants={"c": np.array(0.3, np.float32)})
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    half = (x.astype(np.float16) * np.float16(0.3)).astype(np.float16)
    expected = np.exp(half.astype(np.float32)).astype(np.float16).astype(np.float32)
    found = run(to_half(graph, form="rounded").model, x=x)["y"]
    assert np.abs(found - expected).max() <= 2e-3 * expected.max()
    assert np.array_equal(found, found.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("make", [encoder, decoder, generator])
@pytest.mark.parametrize("form", ["rounded", "stored"])
def test_inputs_and_outputs_stay_and_weights_take_half(make, form):
    source = make()
    lowered = to_half(source, form=form).model
    onnx.checker.check_model(lowered, full_check=True)
    assert list(lowered.graph.input) == list(source.graph.input)
    assert [o.name for o in lowered.graph.output] == [o.name for o in source.graph.output]
    used = {name for entry in source.graph.node for name in entry.input}
    floats = [t for t in source.graph.initializer if t.data_type == F and t.name in used]
    halves = [t for t in lowered.graph.initializer if t.data_type == TensorProto.FLOAT16]
    assert len(halves) == len(floats)
    assert not [t for t in lowered.graph.initializer if t.data_type == F]


def test_stored_weights_change_the_result_by_no_more_than_their_rounding():
    features = np.random.default_rng(1).standard_normal((1, 4, 30)).astype(np.float32)
    source = run(generator(), features=features)["audio"]
    for form in ("stored", "rounded"):
        found = run(to_half(generator(), form=form).model, features=features)["audio"]
        assert 0 < np.abs(found - source).max() < 2e-3


def test_a_node_that_is_kept_computes_in_full():
    names = lowerable(plain(generator()))
    kept = to_half(generator(), names, form="rounded").model
    features = np.random.default_rng(1).standard_normal((1, 4, 30)).astype(np.float32)
    assert np.array_equal(run(kept, features=features)["audio"], run(generator(), features=features)["audio"])


def test_the_same_graph_gives_the_same_bytes():
    first, second = (to_half(encoder(), form="rounded").model.SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_an_operator_without_a_half_form_is_kept_and_named():
    graph = chain(node("CumSum", ["x", "axis"], "y"), constants={"axis": np.array(0, np.int64)})
    del graph.opset_import[:]
    graph.opset_import.extend([helper.make_opsetid("", 13)])
    assert to_half(graph, form="rounded").kept == {"y_node": "CumSum has no half precision form in operator set 13"}


@pytest.mark.parametrize(("value", "words"), [(1e9, "is beyond 65504"), (1e-12, "is zero in half precision")])
def test_a_constant_that_does_not_fit_keeps_its_node(value, words):
    graph = chain(node("Add", ["x", "c"], "y"), constants={"c": np.array(value, np.float32)})
    assert words in to_half(graph, form="rounded").kept["y_node"]


def test_a_square_that_gets_too_large_keeps_its_node():
    graph = chain(node("Relu", ["x"], "r"), node("Mul", ["r", "r"], "s"), node("Sqrt", ["s"], "y"))
    found = too_large(graph, [{"x": np.array([1.0, 300.0], np.float32)}])
    assert set(found) == {"s_node", "y_node"}
    assert found["s_node"] == "Mul: its values reach 9e+04, and half precision ends at 65504"
    assert too_large(graph, [{"x": np.array([1.0, 100.0], np.float32)}]) == {}


def test_masks_of_minus_a_billion_are_shortened_and_others_are_not():
    mask = chain(node("Mul", ["x", "c"], "y"), constants={"c": np.array(-1e9, np.float32)})
    shorter, changed = clamp_masks(mask)
    assert changed == ("c",) and numpy_helper.to_array(shorter.graph.initializer[0]) == -60_000
    scale = chain(node("Mul", ["x", "c"], "y"), constants={"c": np.array([1e9, -1e9], np.float32)})
    assert clamp_masks(scale)[1] == ()


def test_control_flow_and_quantised_graphs_are_refused():
    branch = helper.make_graph([], "b", [], [])
    graph = chain(helper.make_node("If", ["x"], ["y"], name="if", then_branch=branch, else_branch=branch))
    with pytest.raises(ConversionRefused, match=r"operator If \(node 'if'\).*cannot be lowered"):
        to_half(graph, form="rounded")
    quantised = chain(node("QuantizeLinear", ["x", "c"], "y"), constants={"c": np.array(1, np.float32)})
    with pytest.raises(ConversionRefused, match="quantised already"):
        to_half(quantised, form="rounded")
