"""Graphs made to mislead: nothing that the rules conclude may change a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.convert.rules.helpers import SOC, F, I, assert_left_alone, graph, node, noise, operators, rules_used, run
from voxrepo.convert.rules import apply_rules

BOOL, STRING = TensorProto.BOOL, TensorProto.STRING


def test_a_wrong_declaration_of_an_output_does_not_become_a_constant():
    nodes = [node("Reshape", ["x", "size"], ["r"]), node("Shape", ["r"])]
    model = graph(nodes, {"x": ["n"], "size": ["axes"]}, outputs={"r": F, "y": I}, kinds={"size": I})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("r", F, [7, 9]))
    made, _ = apply_rules(model, SOC)
    feeds = {"x": noise(12), "size": np.array([2, 6])}
    assert run(model, feeds)[1].tolist() == [2, 6]
    assert run(made, feeds)[1].tolist() == [2, 6]


@pytest.mark.parametrize(("start", "step", "size"), [(-8, -2, 1), (5, -1, 5)])
def test_the_size_of_a_slice_backwards_to_the_largest_number_is_not_guessed(start: int, step: int, size: int):
    # runtimes take it as "to the begin", shape inference as "to the end"
    nodes = [node("Slice", ["x", "a", "b", "axes", "step"], ["s"]), node("Shape", ["s"])]
    constants = {"a": np.array([start]), "b": np.array([2**31 - 1]), "axes": np.array([-1]), "step": np.array([step])}
    model = graph(nodes, {"x": [3, 5]}, constants, outputs={"y": I})
    made, _ = apply_rules(model, SOC)
    assert run(model, {"x": noise(3, 5)})[0].tolist() == [3, size]
    assert run(made, {"x": noise(3, 5)})[0].tolist() == [3, size]


def test_the_size_after_a_transposed_convolution_with_two_paddings_is_the_real_one():
    attributes: dict[str, Any] = {"auto_pad": "SAME_LOWER", "output_padding": [1], "strides": [2], "kernel_shape": [5]}
    nodes = [node("ConvTranspose", ["x", "w"], ["c"], **attributes), node("Shape", ["c"])]
    model = graph(nodes, {"x": [1, 2, 4]}, {"w": noise(2, 1, 5)}, outputs={"c": F, "y": I})
    made, applied = apply_rules(model, SOC)
    assert "conv_transpose" in rules_used(applied)
    sound, size = run(made, {"x": noise(1, 2, 4)})
    assert list(sound.shape) == size.tolist() == run(model, {"x": noise(1, 2, 4)})[1].tolist()


def test_a_sequence_of_constants_is_left_alone():
    nodes = [
        node("SequenceConstruct", ["c", "c"], ["s"]),
        node("SequenceAt", ["s", "i"], ["e"]),
        node("Add", ["x", "e"]),
    ]
    model = graph(nodes, {"x": [3], "i": []}, {"c": noise(3)}, kinds={"i": I})
    made, _ = apply_rules(model, SOC)
    assert operators(made)["SequenceConstruct"] == 1


def test_ids_that_a_branch_calculates_with_stay_int64():
    then = helper.make_graph(
        [node("Add", ["ids", "ids"], ["twice"])], "then", [], [helper.make_tensor_value_info("twice", I, None)]
    )
    other = helper.make_graph(
        [node("Identity", ["zeros"], ["none"])], "else", [], [helper.make_tensor_value_info("none", I, None)]
    )
    nodes = [
        node("Gather", ["table", "ids"]),
        node("If", ["sure"], ["z"], then_branch=then, else_branch=other),
    ]
    constants = {"table": noise(5, 3), "zeros": np.zeros(2, np.int64)}
    kinds = {"ids": I, "sure": BOOL}
    model = graph(nodes, {"ids": [2], "sure": []}, constants, outputs={"y": F, "z": I}, kinds=kinds)
    _, applied = apply_rules(model, SOC, interface=True)
    assert "int32_input" not in rules_used(applied)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_clip_of_the_smallest_integers_stays(kind: type):
    elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [node("Clip", ["x", "low"])]
    model = graph(nodes, {"x": [3]}, {"low": np.array(2, kind)}, outputs={"y": elem_type}, kinds={"x": elem_type})
    assert_left_alone(model, "one_sided_clip", "Clip")


def test_a_transform_along_the_parts_of_numbers_stays():
    model = graph([node("DFT", ["x"], axis=1)], {"x": [4, 2]})
    assert_left_alone(model, "dft", "DFT")


@pytest.mark.parametrize(("operator", "kind", "inputs"), [("ReduceMax", BOOL, ["x"]), ("Equal", STRING, ["x", "x"])])
def test_an_operator_set_is_not_lowered_to_one_without_the_type(operator: str, kind: int, inputs: list[str]):
    model = graph([node(operator, inputs)], {"x": [3]}, outputs={"y": BOOL}, kinds={"x": kind}, opset=20)
    made, applied = apply_rules(model, SOC)
    assert not applied
    assert made.opset_import[0].version == 20


def test_an_operator_set_of_the_future_is_not_lowered():
    model = graph([node("Relu", ["x"])], {"x": [3]})
    model.opset_import[0].version = onnx.defs.onnx_opset_version() + 1
    made, applied = apply_rules(model, SOC)
    assert not applied
    assert made.opset_import[0].version == model.opset_import[0].version
