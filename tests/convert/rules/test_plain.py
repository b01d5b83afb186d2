from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.convert.rules.helpers import (
    SOC,
    F,
    assert_left_alone,
    assert_replaced,
    graph,
    node,
    noise,
    operators,
    rules_used,
    run,
)
from voxrepo.convert.rules import apply_rules

X: dict[str, list[int | str]] = {"x": ["batch", 4, "time"]}
FEEDS = [{"x": noise(2, 4, 7)}, {"x": 5 * noise(1, 4, 3, seed=1)}]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_built_from_primitives(approximate: str):
    model = graph([node("Gelu", ["x"], approximate=approximate)], X, opset=20)
    made = assert_replaced(model, "gelu", "Gelu", *FEEDS)
    assert made.opset_import[0].version == 18


def test_mish_is_built_from_softplus():
    assert_replaced(graph([node("Mish", ["x"])], X, opset=18), "mish", "Mish", *FEEDS)


def test_an_operator_of_that_name_in_another_domain_stays():
    model = graph([node("Mish", ["x"], domain="com.example")], X, domain="com.example")
    assert_left_alone(model, "mish", "Mish")


@pytest.mark.parametrize("exponent", [np.array(2.0, np.float32), np.array([2.0], np.float32), np.array(2, np.int64)])
def test_a_square_is_a_product(exponent):
    assert_replaced(graph([node("Pow", ["x", "e"])], X, {"e": exponent}), "square", "Pow", *FEEDS)


@pytest.mark.parametrize("exponent", [np.array(3.0, np.float32), np.array([2.0, 3.0], np.float32)[:, None, None, None]])
def test_other_powers_stay(exponent):
    assert_left_alone(graph([node("Pow", ["x", "e"])], X, {"e": exponent}), "square", "Pow")


def test_an_exponent_of_more_axes_stays():
    model = graph([node("Pow", ["x", "e"])], {"x": [3]}, {"e": np.full((1, 1), 2.0, np.float32)})
    assert_left_alone(model, "square", "Pow")


@pytest.mark.parametrize(("bounds", "becomes"), [(["low"], "Max"), (["", "high"], "Min")])
def test_a_clip_of_one_bound_is_max_or_min(bounds: list[str], becomes: str):
    constants = {"low": np.array(-0.2, np.float32), "high": np.array(0.3, np.float32)}
    used = {name: value for name, value in constants.items() if name in bounds}
    made = assert_replaced(graph([node("Clip", ["x", *bounds])], X, used), "one_sided_clip", "Clip", *FEEDS)
    assert operators(made) == {becomes: 1}


def test_a_clip_of_two_bounds_stays():
    constants = {"low": np.array(-0.2, np.float32), "high": np.array(0.3, np.float32)}
    assert_left_alone(graph([node("Clip", ["x", "low", "high"])], X, constants), "one_sided_clip", "Clip")


def test_identity_and_dropout_go():
    nodes = [
        node("Identity", ["x"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Dropout", ["b"], ["c"]),
        node("Identity", ["c"], ["d"], number=1),
        node("Neg", ["d"], ["y"]),
    ]
    made = assert_replaced(graph(nodes, X), "identity", "Identity", *FEEDS)
    assert operators(made) == {"Relu": 1, "Neg": 1}


def test_a_dropout_that_trains_and_an_output_that_is_only_renamed_stay():
    training = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    nodes = [node("Dropout", ["x", "ratio", "training"], ["a"]), node("Neg", ["a"], ["y"])]
    assert_left_alone(graph(nodes, X, training), "identity", "Dropout")
    assert_left_alone(graph([node("Identity", ["x"])], X), "identity", "Identity")


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [("RandomNormalLike", {"mean": 0.5, "scale": 2.0}), ("RandomUniformLike", {"low": -1.0, "high": 3.0})],
)
def test_noise_becomes_an_input_of_the_same_law(operator: str, attributes: dict[str, float]):
    nodes = [node(operator, ["x"], ["z"], 0, **attributes), node("Add", ["x", "z"])]
    model = graph(nodes, X, outputs={"y": F, "z": F})
    made, applied = apply_rules(model, SOC, interface=True)
    assert operators(made)[operator] == 0
    assert "new input 'noise' ['batch', 4, 'time']" in applied[0].note
    x = noise(2, 4, 500)
    drawn_sum, drawn = run(model, {"x": x})
    if "scale" in attributes:
        law = (drawn - attributes["mean"]) / attributes["scale"]
        assert abs(law.std() - 1) < 0.1
    else:
        law = (drawn - attributes["low"]) / (attributes["high"] - attributes["low"])
        assert 0 <= law.min() <= law.max() <= 1
    again_sum, again = run(made, {"x": x, "noise": law.astype(np.float32)})
    np.testing.assert_allclose(again, drawn, atol=1e-5)
    np.testing.assert_allclose(again_sum, drawn_sum, atol=1e-5)


def test_noise_of_a_shape_that_is_not_known_stays():
    nodes = [node("Reshape", ["x", "shape"], ["r"]), node("RandomNormalLike", ["r"])]
    model = graph(nodes, {"x": ["n"], "shape": ["axes"]}, kinds={"shape": TensorProto.INT64})
    made, applied = apply_rules(model, SOC, interface=True)
    assert not applied
    assert operators(made)["RandomNormalLike"] == 1


def test_rules_that_change_inputs_are_not_applied_unless_asked_for():
    assert_left_alone(graph([node("RandomNormalLike", ["x"])], X), "random_input", "RandomNormalLike")


def table_of_rows(**more: list[onnx.NodeProto]) -> onnx.ModelProto:
    nodes = [node("Gather", ["table", "ids"]), *more.get("nodes", [])]
    return graph(
        nodes,
        {"ids": ["batch", "time"]},
        {"table": noise(9, 4)},
        kinds={"ids": TensorProto.INT64},
        outputs={"y": F, **({"z": TensorProto.INT64} if more else {})},
    )


def test_ids_that_only_select_rows_become_int32():
    model = table_of_rows()
    made, applied = apply_rules(model, SOC, interface=True)
    assert rules_used(applied) == {"int32_input"}
    assert made.graph.input[0].type.tensor_type.elem_type == TensorProto.INT32
    ids = np.array([[3, 8, 0]])
    (before,), (after,) = run(model, {"ids": ids}), run(made, {"ids": ids.astype(np.int32)})
    assert np.array_equal(before, after)


def test_ids_that_are_calculated_with_stay_int64():
    made, applied = apply_rules(table_of_rows(nodes=[node("Neg", ["ids"], ["z"])]), SOC, interface=True)
    assert not applied
    assert made.graph.input[0].type.tensor_type.elem_type == TensorProto.INT64


def test_nodes_of_constants_and_known_sizes_are_computed():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("ConstantOfShape", ["s"], ["ones"], value=numpy_helper.from_array(np.ones(1, np.float32))),
        node("Add", ["ones", "ones"], ["twos"]),
        node("Mul", ["x", "twos"]),
    ]
    made = assert_replaced(graph(nodes, {"x": [2, 3]}), "constants", "ConstantOfShape", {"x": noise(2, 3)})
    assert operators(made) == {"Mul": 1}


def test_sizes_that_vary_are_not_computed():
    assert_left_alone(graph([node("Shape", ["x"])], X, outputs={"y": TensorProto.INT64}), "static_shape", "Shape")
    nodes = [node("Shape", ["x"], ["s"]), node("ConstantOfShape", ["s"], ["o"]), node("Add", ["x", "o"])]
    assert_left_alone(graph(nodes, X), "constants", "ConstantOfShape")


def test_a_graph_that_needs_its_operator_set_keeps_it():
    nodes = [node("Gelu", ["x"], ["h"]), node("GridSample", ["i", "g"], ["k"]), node("Add", ["h", "k"])]
    model = graph(nodes, {"x": [1, 1, 2, 2], "i": [1, 1, 2, 2], "g": [1, 2, 2, 2]}, opset=20)
    made, applied = apply_rules(model, SOC)
    assert rules_used(applied) == {"gelu"}
    assert made.opset_import[0].version == 20


def test_the_same_graph_gives_the_same_bytes():
    nodes = [node("Gelu", ["x"], ["h"]), node("Mish", ["h"], ["k"]), node("Pow", ["k", "e"])]
    model = graph(nodes, X, {"e": np.array(2.0, np.float32)}, opset=20)
    first, second = (apply_rules(model, SOC)[0].SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_new_nodes_are_named_after_the_one_they_replace():
    made, _ = apply_rules(graph([node("Mish", ["x"])], X, opset=18), SOC)
    assert all(entry.name.startswith("/net/block.0/Mish/mish/") for entry in made.graph.node)
