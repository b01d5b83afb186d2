from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.convert.graphs import adder, encoder, nonzero
from tests.convert.rules.helpers import graph, node
from voxrepo.convert.operator_report import ERROR, operator_report, scope_of
from voxrepo.convert.soc import parse_soc

SOC = parse_soc("Ascend310P3")


def uses(model: onnx.ModelProto) -> dict[str, tuple[int, dict[str, int], int]]:
    return {
        use.operator: (use.supported, dict(use.replaced), use.failing) for use in operator_report(model, SOC).operators
    }


def test_operators_are_counted_as_supported_replaced_or_failing():
    nodes = [
        node("Pow", ["x", "two"], ["a"]),
        node("Pow", ["a", "three"], ["b"], number=1),
        node("Mish", ["b"], ["c"]),
        node("IsNaN", ["c"], ["d"]),
        node("Cast", ["d"], to=TensorProto.FLOAT),
    ]
    constants = {"two": np.array(2.0, np.float32), "three": np.array(3.0, np.float32)}
    found = uses(graph(nodes, {"x": ["n", 4]}, constants, opset=18))
    assert found == {
        "Pow": (1, {"square": 1}, 0),
        "Mish": (0, {"mish": 1}, 0),
        "IsNaN": (0, {}, 1),
        "Cast": (1, {}, 0),
    }


def test_an_operator_that_fails_is_named_with_its_module_and_what_replaces_it():
    nodes = [helper.make_node("CumSum", ["x", "a"], ["h"], name="/enc/CumSum")]
    nodes.append(helper.make_node("STFT", ["h", "step", "", "n"], ["y"], name="/vocoder/stft/layers.3/STFT"))
    model = graph(nodes, {"x": [1, "samples", 1], "step": []}, {"a": np.array(1), "n": np.array(8)}, kinds={"step": 7})
    (error,) = operator_report(model, SOC).errors
    assert (error.code, error.operator, error.node) == ("E19010", "STFT", "/vocoder/stft/layers.3/STFT")
    assert error.scope == "vocoder.stft.layers.3"
    assert "a convolution with the windowed Fourier basis" in error.what_to_do
    assert "fix the shapes" in error.what_to_do


def test_an_operator_of_another_domain_fails():
    report = operator_report(adder([2], op="Fused", domain="com.example"), SOC)
    (error,) = report.errors
    assert error.operator == "com.example.Fused"
    assert "export without fused" in error.what_to_do


def test_an_operator_set_that_is_too_new_and_cannot_be_lowered_is_an_error():
    model = graph([node("GridSample", ["x", "g"])], {"x": [1, 1, 2, 2], "g": [1, 2, 2, 2]}, opset=20)
    first = next(entry for entry in operator_report(model, SOC).errors if not entry.operator)
    assert "operator set 20, and 11 to 18 are read" in first.what
    assert "GridSample" in first.what
    assert "opset_version=18 (17, say)" in first.what_to_do


@pytest.mark.parametrize(("opset", "errors"), [(20, 0), (18, 0), (9, 1)])
def test_an_operator_set_that_can_be_lowered_is_none(opset: int, errors: int):
    assert len(operator_report(adder([2, 3], opset=opset), SOC).errors) == errors


def test_axes_without_a_range_and_int64_inputs_are_told():
    report = operator_report(encoder(), SOC)
    assert not report.errors
    said = [entry.what for entry in report.findings]
    assert any("'phoneme_ids' varies along batch, ids" in what for what in said)
    assert any("'lengths' is INT64" in what for what in said)
    assert not operator_report(adder([2, 3]), SOC).findings


def test_an_output_as_large_as_what_is_found_is_an_error():
    (error,) = operator_report(nonzero(), SOC).errors
    assert error.operator == "NonZero"
    assert "depends on values" in error.what
    assert "on the host" in error.what_to_do


def test_a_length_regulator_is_found_where_its_size_comes_from():
    nodes = [
        node("ReduceSum", ["d"], ["total"], keepdims=0),
        node("Range", ["zero", "total", "one"], ["positions"]),
        node("Cast", ["positions"], to=TensorProto.FLOAT),
    ]
    model = graph(nodes, {"d": ["ids"]}, {"zero": np.array(0), "one": np.array(1)}, kinds={"d": TensorProto.INT64})
    assert [entry.operator for entry in operator_report(model, SOC).errors] == ["Range"]


def test_sizes_that_follow_from_shapes_are_fine():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("ConstantOfShape", ["s"], ["zeros"]),
        node("Add", ["x", "zeros"], ["y"]),
    ]
    assert not operator_report(graph(nodes, {"x": ["n", 4]}), SOC).errors


def test_element_types_without_a_kernel_are_errors():
    double = operator_report(adder([2, 3], kind=TensorProto.DOUBLE, op="Erf"), SOC).errors
    assert [(entry.code, entry.operator) for entry in double] == [("EZ3003", "Erf")]
    complex_numbers = operator_report(adder([2, 3], kind=TensorProto.COMPLEX64, op="Neg"), SOC).errors
    assert all(entry.code == "EZ3003" and "pairs of real ones" in entry.what_to_do for entry in complex_numbers)
    assert complex_numbers


@pytest.mark.parametrize(
    ("name", "properties", "scope"),
    [
        ("/enc/layers.0/attn/MatMul", {}, "enc.layers.0.attn"),
        ("MatMul_12", {}, ""),
        ("node_1", {"namespace": ": Net/enc: Encoder/enc.layers.0: Layer/linear: aten.linear"}, "enc.layers.0"),
        ("node_2", {"pkg.torch.onnx.name_scopes": "['', 'enc', 'enc.layers.0', 'linear']"}, "enc.layers.0"),
    ],
)
def test_the_module_is_read_as_the_exporters_write_it(name: str, properties: dict[str, str], scope: str):
    made = helper.make_node("MatMul", ["x", "w"], ["y"], name=name)
    for key, value in properties.items():
        made.metadata_props.add(key=key, value=value)
    assert scope_of(made) == scope


def test_plain_values_have_everything():
    report = operator_report(nonzero(), SOC).to_json()
    assert report["soc"] == "Ascend310P3"
    assert report["operators"] == [{"operator": "NonZero", "count": 1, "replaced": {}, "failing": 1, "supported": 0}]
    assert report["findings"][0]["level"] == ERROR
