from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from voxrepo.convert.onnx_graph import check_dtypes, check_operators, graph_inputs, operator_list, read_onnx
from voxrepo.convert.refusal import AtcRefusal
from voxrepo.convert.soc import parse_soc
from voxrepo_contract import emulated_om
from voxrepo_contract.errors import ConfigError

from .graphs import adder, encoder, model, save

SOC = parse_soc("Ascend910B3")


@pytest.mark.parametrize(
    ("op", "replacement"),
    [("Einsum", "MatMul"), ("Gelu", "Erf"), ("IsNaN", "guards"), ("Bernoulli", "host fills with noise")],
)
def test_operators_without_a_parser_are_refused_with_what_replaces_them(op, replacement):
    with pytest.raises(AtcRefusal) as refused:
        check_operators(adder(["n"], op=op))
    assert refused.value.code == "E19010"
    assert f"no parser for ai.onnx::15::{op}" in refused.value.message
    assert replacement in refused.value.message


def test_an_operator_that_nobody_knows_is_refused_with_general_advice():
    with pytest.raises(AtcRefusal, match=r"E19010: .*export at a lower operator set"):
        check_operators(adder(["n"], op="Invented"))


def test_custom_operators_are_refused():
    with pytest.raises(
        AtcRefusal, match=r"E19010: no parser for com\.microsoft::15::FusedThing .*not an operator of ONNX"
    ):
        check_operators(adder(["n"], op="FusedThing", domain="com.microsoft"))


def test_operators_inside_branches_are_looked_at():
    inner = helper.make_graph(
        [helper.make_node("Einsum", ["x"], ["y"], equation="i->i")],
        "branch",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    f = TensorProto.FLOAT
    graph = model([node], {"c": (TensorProto.BOOL, []), "x": (f, ["n"])}, {"y": (f, ["n"])}, [])
    with pytest.raises(AtcRefusal, match="Einsum"):
        check_operators(graph)


@pytest.mark.parametrize("opset", [10, 19, 21])
def test_operator_sets_outside_11_to_18_are_refused(opset):
    with pytest.raises(AtcRefusal) as refused:
        check_operators(adder(["n"], opset=opset))
    assert refused.value.code == "E19010"
    assert f"operator set {opset}, and 11 to 18 are read" in refused.value.message


@pytest.mark.parametrize("opset", [11, 18])
def test_the_ends_of_the_operator_sets_are_read(opset):
    check_operators(adder(["n"], opset=opset))


def test_the_operators_of_a_voice_are_all_known():
    check_operators(encoder())
    check_dtypes(encoder(), SOC)


def test_the_list_names_real_operators_once():
    known = operator_list()
    schemas = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    assert len(set(known.operators)) == len(known.operators)
    assert set(known.operators) <= schemas | {"TfIdfVectorizer"}
    assert not set(known.operators) & set(known.replacements)
    assert set(known.replacements) <= schemas


@pytest.mark.parametrize(
    ("kind", "name"),
    [(TensorProto.BFLOAT16, "BF16"), (TensorProto.STRING, "STRING"), (TensorProto.COMPLEX64, "COMPLEX64")],
)
def test_element_types_without_kernels_are_refused(kind, name):
    with pytest.raises(AtcRefusal) as refused:
        check_dtypes(adder(["n"], kind=kind, op="Identity"), SOC)
    assert refused.value.code == "EZ3003"
    assert f"the tensor 'x' has the element type {name}" in refused.value.message


def test_element_types_are_looked_at_inside_the_graph():
    f = TensorProto.FLOAT
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["half"], ["y"], to=f),
    ]
    with pytest.raises(AtcRefusal, match="'half' has the element type BF16"):
        check_dtypes(model(nodes, {"x": (f, ["n"])}, {"y": (f, ["n"])}, []), SOC)


def test_int64_is_allowed():
    check_dtypes(adder(["n"], kind=TensorProto.INT64, op="Identity"), SOC)


def test_matrix_units_refuse_doubles():
    d = TensorProto.DOUBLE
    node = helper.make_node("MatMul", ["x", "x"], ["y"], name="product")
    with pytest.raises(
        AtcRefusal, match=r"EZ3003: Ascend910B3 has no kernel for MatMul of FP64 \(node 'product'\); cast to"
    ):
        check_dtypes(model([node], {"x": (d, [2, 2])}, {"y": (d, [2, 2])}, []), SOC)


def test_inputs_leave_out_constants_and_mark_what_varies():
    graph = adder(["n", 0, 3])
    graph.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "weight"))
    graph.graph.input.append(helper.make_tensor_value_info("weight", TensorProto.FLOAT, [2]))
    (found,) = graph_inputs(graph)
    assert (found.name, found.dtype, found.dims) == ("x", "FP32", (None, None, 3))


def test_an_input_of_unknown_rank_is_refused():
    graph = adder(["n"])
    graph.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(AtcRefusal, match=r"E19999: .*known number of axes"):
        graph_inputs(graph)


def test_a_graph_without_inputs_is_refused():
    graph = adder(["n"])
    graph.graph.ClearField("input")
    with pytest.raises(AtcRefusal, match=r"E16001: .*no inputs"):
        graph_inputs(graph)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"IMOD" + bytes(300), "an offline model of Huawei's"),
        (emulated_om.MAGIC + bytes(300), "an emulated OM"),
        (pickle.dumps({"a": 1}), "pickle"),
        (b"PK\x03\x04" + bytes(50), "ZIP"),
        (b"hello there", "a text file"),
        (b"", "an empty file"),
        (b"\xff" * 100, "not an ONNX file"),
    ],
)
def test_other_files_are_named_for_what_they_are(tmp_path: Path, content, words):
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        read_onnx(file)


def test_missing_files_and_folders_are_refused(tmp_path: Path):
    for file in (tmp_path / "no.onnx", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_onnx(file)


def test_an_unsound_graph_is_refused(tmp_path: Path):
    graph = adder(["n"])
    graph.graph.node[0].input[0] = "nowhere"
    with pytest.raises(AtcRefusal, match=r"E19999: .*not a sound ONNX model"):
        read_onnx(save(graph, tmp_path / "bad.onnx"))


def test_external_weights_must_be_beside_the_graph(tmp_path: Path):
    f = TensorProto.FLOAT
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (f, [1, 64])}, {"y": (f, [1, 64])}, [weight])
    file = tmp_path / "external.onnx"
    onnx.save(graph, file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    read = read_onnx(file)
    assert np.array_equal(numpy_helper.to_array(read.graph.initializer[0]), np.ones((64, 64)))
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(AtcRefusal, match=r"E10041: .*separate file"):
        read_onnx(file)
