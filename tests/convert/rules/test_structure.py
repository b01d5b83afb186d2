"""Rules that move elements, multiply matrices, or write out control flow."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.convert.rules.helpers import (
    Array,
    F,
    I,
    assert_left_alone,
    assert_replaced,
    graph,
    node,
    noise,
    operators,
    run,
)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalization_is_built_from_means(axis: int, bias: bool):
    shape = (8,) if axis == -1 else (5, 8)
    constants = {"s": noise(*shape, seed=1), "b": noise(*shape, seed=2)}
    names = ["x", "s", "b"] if bias else ["x", "s"]
    used = {name: constants[name] for name in names[1:]}
    model = graph([node("LayerNormalization", names, axis=axis, epsilon=1e-3)], {"x": ["batch", 5, 8]}, used)
    assert_replaced(model, "layer_normalization", "LayerNormalization", {"x": 3 * noise(2, 5, 8) + 1})


def test_a_layer_normalization_whose_mean_is_read_stays():
    nodes = [node("LayerNormalization", ["x", "s"], ["y", "mean"])]
    model = graph(nodes, {"x": [2, 5, 8]}, {"s": noise(8)}, outputs={"y": F, "mean": F})
    assert_left_alone(model, "layer_normalization", "LayerNormalization")


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization_is_an_instance_normalization(opset: int):
    size = 2 if opset < 21 else 6
    constants = {"s": noise(size, seed=1), "b": noise(size, seed=2)}
    nodes = [node("GroupNormalization", ["x", "s", "b"], num_groups=2, epsilon=1e-3)]
    model = graph(nodes, {"x": ["batch", 6, "time"]}, constants, opset=opset)
    made = assert_replaced(model, "group_normalization", "GroupNormalization", {"x": noise(3, 6, 9) + 2})
    assert made.opset_import[0].version == 18


def test_a_group_normalization_of_unknown_channels_stays():
    constants = {"s": noise(2), "b": noise(2)}
    nodes = [node("GroupNormalization", ["x", "s", "b"], num_groups=2)]
    model = graph(nodes, {"x": ["batch", "channels", "time"]}, constants, opset=18)
    assert_left_alone(model, "group_normalization", "GroupNormalization")


LABELS = {"b": 2, "h": 3, "i": 4, "j": 5, "d": 6, "e": 2}
EINSUMS = [
    "bid,bjd->bij", "bhid,bhjd->bhij", "bhij,bhjd->bhid", "bihd,bjhd->bhij", "id,de->ie", "bid,de->bie",
    "bhid,hde->bie", "bij,bij->b", "bi,bj->bij", "bid,bid->bid", "bhid->bidh", "bij->bj", "bij,j->bi", "bid,bjd->bji",
    "ihd,hde->ie",
]  # fmt: skip


@pytest.mark.parametrize("equation", EINSUMS)
def test_einsum_is_a_product(equation: str):
    operands = equation.split("->", maxsplit=1)[0].split(",")
    inputs = {f"x{k}": [LABELS[label] for label in labels] for k, labels in enumerate(operands)}
    feeds = {name: noise(*dims, seed=k) for k, (name, dims) in enumerate(inputs.items())}
    assert_replaced(graph([node("Einsum", list(inputs), equation=equation)], inputs), "einsum", "Einsum", feeds)


def test_einsum_of_attention_works_at_any_length():
    inputs: dict[str, list[int | str]] = {"q": ["b", 3, "i", 6], "k": ["b", 3, "j", 6]}
    model = graph([node("Einsum", ["q", "k"], equation="bhid,bhjd->bhij")], inputs)
    feeds = [{"q": noise(2, 3, i, 6), "k": noise(2, 3, j, 6, seed=1)} for i, j in ((4, 7), (1, 2))]
    made = assert_replaced(model, "einsum", "Einsum", *feeds)
    assert operators(made)["Reshape"] == 0


@pytest.mark.parametrize(
    ("equation", "inputs"),
    [
        ("bii->bi", {"x": [2, 3, 3]}),
        ("...ij,...jk->...ik", {"x": [2, 3, 4], "z": [2, 4, 5]}),
        ("bihd,bjhd->bhij", {"x": ["b", "i", "h", "d"], "z": [1, "j", "h", "d"]}),
        ("ihd,hde->ie", {"x": ["i", "h", "d"], "z": ["h", "d", "e"]}),
    ],
)
def test_einsums_beyond_a_product_stay(equation: str, inputs):
    assert_left_alone(graph([node("Einsum", list(inputs), equation=equation)], inputs), "einsum", "Einsum")


LOW = -(2**63) + 1


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([-1], [LOW], [1], [-1]),
        ([5], [1], [1], [-2]),
        ([-1, 0], [LOW, 2], [1, 2], [-1, 1]),
        ([-1, 3], [-4, 0], [1, 0], [-1, -1]),
        ([100], [-100], [-2], [-1]),
    ],
)
def test_a_slice_backwards_is_a_gather(starts, ends, axes, steps):
    constants = {name: np.array(v, np.int64) for name, v in zip("seap", (starts, ends, axes, steps), strict=True)}
    model = graph([node("Slice", ["x", "s", "e", "a", "p"])], {"x": [4, 6, "time"]}, constants)
    made = assert_replaced(model, "reverse_slice", "", {"x": noise(4, 6, 5)})
    for entry in made.graph.node:
        if entry.op_type == "Slice":
            steps_left = next(t for t in made.graph.initializer if t.name == entry.input[4])
            assert (numpy_helper.to_array(steps_left) > 0).all()


def test_a_slice_backwards_along_an_axis_that_varies_and_one_forwards_stay():
    constants = {name: np.array([v], np.int64) for name, v in zip("seap", (-1, LOW, 2, -1), strict=True)}
    model = graph([node("Slice", ["x", "s", "e", "a", "p"])], {"x": [4, 6, "time"]}, constants)
    assert_left_alone(model, "reverse_slice", "Slice")
    constants = {name: np.array([v], np.int64) for name, v in zip("seap", (0, 4, 1, 2), strict=True)}
    model = graph([node("Slice", ["x", "s", "e", "a", "p"])], {"x": [4, 6, "time"]}, constants)
    assert_left_alone(model, "reverse_slice", "Slice")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_running_sum_is_a_product_with_a_triangle(axis: int, exclusive: int, reverse: int):
    nodes = [node("CumSum", ["x", "axis"], exclusive=exclusive, reverse=reverse)]
    model = graph(nodes, {"x": [3, 4, 5]}, {"axis": np.array(axis)})
    assert_replaced(model, "cumsum", "CumSum", {"x": noise(3, 4, 5)})


def test_a_running_sum_of_a_vector_is_replaced_too():
    model = graph([node("CumSum", ["x", "axis"])], {"x": [9]}, {"axis": np.array(0)})
    assert_replaced(model, "cumsum", "CumSum", {"x": noise(9)})


@pytest.mark.parametrize("dims", [["time"], [2000]])
def test_a_running_sum_of_unknown_or_great_length_stays(dims):
    assert_left_alone(graph([node("CumSum", ["x", "axis"])], {"x": dims}, {"axis": np.array(0)}), "cumsum", "CumSum")


def test_a_running_sum_of_integers_stays():
    model = graph([node("CumSum", ["x", "axis"])], {"x": [4]}, {"axis": np.array(0)}, kinds={"x": I}, outputs={"y": I})
    assert_left_alone(model, "cumsum", "CumSum")


@pytest.mark.parametrize(("upper", "k"), [(1, 0), (1, 1), (0, -1), (0, 2)])
def test_trilu_is_where_with_a_constant_mask(upper: int, k: int):
    model = graph([node("Trilu", ["x", "k"], upper=upper)], {"x": ["batch", 5, 4]}, {"k": np.array(k)})
    feed = noise(2, 5, 4)
    feed[0, 4, 0] = feed[0, 0, 3] = np.inf
    made = assert_replaced(model, "trilu", "Trilu", {"x": noise(2, 5, 4)})
    from tests.convert.rules.helpers import run

    assert np.array_equal(run(model, {"x": feed})[0], run(made, {"x": feed})[0])


def test_trilu_of_varying_size_stays():
    assert_left_alone(graph([node("Trilu", ["x"])], {"x": ["batch", "n", "n"]}), "trilu", "Trilu")


@pytest.mark.parametrize("indices", [[[0, 2], [1, -1]], [[1], [0]]])
def test_scattering_to_constant_places_is_a_gather(indices):
    places = np.array(indices, np.int64)
    shape = (2,) if places.shape[1] == 2 else (2, 3)
    model = graph([node("ScatterND", ["x", "i", "u"])], {"x": [2, 3], "u": list(shape)}, {"i": places})
    assert_replaced(model, "constant_scatter", "ScatterND", {"x": noise(2, 3), "u": noise(*shape, seed=1)})


def test_scattering_twice_to_one_place_or_to_computed_ones_stays():
    model = graph([node("ScatterND", ["x", "i", "u"])], {"x": [3], "u": [2]}, {"i": np.array([[1], [-2]])})
    assert_left_alone(model, "constant_scatter", "ScatterND")
    model = graph([node("ScatterND", ["x", "i", "u"])], {"x": [3], "u": [2], "i": [2, 1]}, kinds={"i": I})
    assert_left_alone(model, "constant_scatter", "ScatterND")


def branches(condition: Array | None) -> onnx.ModelProto:
    def body(operator: str) -> onnx.GraphProto:
        inner = [helper.make_node(operator, ["x"], ["r"], name=f"/net/{operator}")]
        return helper.make_graph(inner, operator, [], [helper.make_tensor_value_info("r", F, None)])

    nodes = [node("If", ["c"], then_branch=body("Neg"), else_branch=body("Abs"))]
    if condition is not None:
        return graph(nodes, {"x": [3]}, {"c": condition})
    return graph(nodes, {"x": [3], "c": []}, kinds={"c": TensorProto.BOOL})


@pytest.mark.parametrize(("condition", "taken"), [(True, "Neg"), (False, "Abs")])
def test_a_decided_branch_is_written_out(condition: bool, taken: str):
    made = assert_replaced(branches(np.array(condition)), "constant_if", "If", {"x": noise(3)})
    assert operators(made)[taken] == 1


def test_an_undecided_branch_stays():
    assert_left_alone(branches(None), "constant_if", "If")


def euler_steps(rounds: int | None, *, ends: bool = False) -> onnx.ModelProto:
    """x += rate * sin(x) + round, each state also stacked: what an unrolled flow-matching solver does."""
    scalar = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Sin", ["s"], ["v"], name="/flow/Sin"),
        helper.make_node("Mul", ["v", "rate"], ["d"], name="/flow/Mul"),
        helper.make_node("Cast", ["n"], ["f"], name="/flow/Cast", to=F),
        helper.make_node("Add", ["d", "f"], ["e"], name="/flow/Add"),
        helper.make_node("Add", ["s", "e"], ["t"], name="/flow/Add_1"),
        helper.make_node("Neg", ["t"], ["out"], name="/flow/Neg"),
    ]
    if ends:
        nodes.append(helper.make_node("Less", ["n", "limit"], ["go"], name="/flow/Less"))
    else:
        nodes.append(helper.make_node("Identity", ["c"], ["go"], name="/flow/Identity"))
    body = helper.make_graph(
        nodes,
        "body",
        [scalar("n", I, []), scalar("c", TensorProto.BOOL, []), scalar("s", F, [3])],
        [scalar("go", TensorProto.BOOL, []), scalar("t", F, [3]), scalar("out", F, [3])],
        initializer=[numpy_helper.from_array(np.array(0.3, np.float32), "rate")],
    )
    constants = {"c0": np.array(True), "limit": np.array(1)}
    inputs: dict[str, list[int | str]] = {"x": [3]}
    if rounds is None:
        inputs["rounds"] = []
    else:
        constants["rounds"] = np.array(rounds)
    loop = node("Loop", ["rounds", "c0", "x"], ["y", "z"], body=body)
    return graph([loop], inputs, constants, outputs={"y": F, "z": F}, kinds={"rounds": I})


@pytest.mark.parametrize("rounds", [1, 5])
def test_a_loop_of_known_rounds_is_written_out(rounds: int):
    assert_replaced(euler_steps(rounds), "constant_loop", "Loop", {"x": noise(3)})


@pytest.mark.parametrize("model", [euler_steps(None), euler_steps(1000), euler_steps(5, ends=True)])
def test_a_loop_of_unknown_or_too_many_rounds_or_one_that_may_end_stays(model: onnx.ModelProto):
    assert_left_alone(model, "constant_loop", "Loop")


def test_a_constant_without_axes_adds_none():
    model = graph([node("Gelu", ["x"])], {"x": []}, opset=20)
    assert_replaced(model, "gelu", "Gelu", {"x": np.array(1.5, np.float32)})


def test_the_number_of_a_round_is_a_scalar():
    inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("i", I), ("go", TensorProto.BOOL))]
    outputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("on", TensorProto.BOOL), ("f", F))]
    nodes = [node("Identity", ["go"], ["on"]), node("Cast", ["i"], ["f"], to=F)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    nodes = [node("Loop", ["n", ""], ["rounds"], body=body), node("Add", ["rounds", "x"])]
    model = graph(nodes, {"x": [3]}, {"n": np.array(3)})
    made = assert_replaced(model, "constant_loop", "Loop")
    np.testing.assert_array_equal(run(made, {"x": np.ones(3, np.float32)})[0], [1, 2, 3])


def test_trilu_of_booleans_is_and():
    nodes = [node("Trilu", ["x"], upper=0)]
    model = graph(nodes, {"x": [4, 4]}, outputs={"y": TensorProto.BOOL}, kinds={"x": TensorProto.BOOL})
    made = assert_replaced(model, "trilu", "Trilu", {"x": noise(4, 4) > -1})
    assert operators(made)["And"] == 1
