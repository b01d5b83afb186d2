"""Reading a graph that is to be converted, and what ATC refuses in it whatever its shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, shape_inference
from pydantic import Field

from voxrepo.convert.input_shape import VARIES
from voxrepo.convert.plan import GraphInput
from voxrepo.convert.refusal import NO_KERNEL, NO_NODES, NO_PARSER, NOT_LOADABLE, UNSOUND, AtcRefusal
from voxrepo.convert.soc import Soc
from voxrepo.importers.graph import ONNX_DOMAINS, opset_of
from voxrepo_contract import onnx_tensors, yamlfile
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.om.sniff import HEAD_BYTES, kind_of, noun_of
from voxrepo_contract.yamlfile import StrictModel

OPERATORS_FILE = Path(__file__).parent / "data" / "operators.yaml"
MAX_ONNX_BYTES = 2**31 - 1
"""A protobuf message cannot exceed 2 GB."""

DTYPES = {number: name for number, name in onnx_tensors.DTYPES.items() if name != "BYTES"} | {
    TensorProto.BFLOAT16: "BF16"
}
"""Open Inference Protocol names by ONNX element type, of numbers only: a device has no texts."""


class OperatorList(StrictModel):
    """What ATC's ONNX front end reads.

    Attributes:
        opset_min: lowest version of the operator set.
        opset_max: highest.
        operators: names that it has a parser for.
        replacements: what to use instead of others.
    """

    opset_min: int
    opset_max: int
    operators: list[str] = Field(min_length=1)
    replacements: dict[str, str]


@cache
def operator_list() -> OperatorList:
    """The list that ships with voxrepo."""
    return yamlfile.read(OPERATORS_FILE, OperatorList)


def dtype_name(elem_type: int) -> str:
    """Open Inference Protocol name of an ONNX element type, ONNX's own name where there is none."""
    return DTYPES.get(elem_type) or TensorProto.DataType.Name(elem_type)


def read_onnx(file: Path) -> onnx.ModelProto:
    """Read an ONNX file with its external data.

    Raises:
        ConfigError: it cannot be read, or is something else; the text says what.
        AtcRefusal: it is not a sound ONNX model, or too large.
    """
    try:
        with file.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
        size_bytes = file.stat().st_size
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    if kind_of(head) not in ("onnx", "unknown"):
        raise ConfigError(f"this is {noun_of(head)}, not an ONNX graph; give the .onnx file of a model", file=file)
    if size_bytes > MAX_ONNX_BYTES:
        raise AtcRefusal(
            NOT_LOADABLE, f"{file}: {size_bytes} bytes, and an ONNX file cannot exceed 2 GB; export its weights as "
            "external data beside it"
        )  # fmt: skip
    try:
        # format="protobuf" or the suffix decides: a .json given by mistake would be parsed as an ONNX JSON graph
        model = onnx.load(file, format="protobuf", load_external_data=False)
    except DecodeError as error:
        raise ConfigError("not an ONNX file; give the .onnx file of a model", file=file) from error
    if not model.graph.node or not model.opset_import:
        raise ConfigError("not an ONNX file, or one without a graph; give the .onnx file of a model", file=file)
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(file.parent))
    except Exception as error:  # onnx raises its checker's errors, OSError and ValueError here
        raise AtcRefusal(
            NOT_LOADABLE, f"{file}: its weights are in a separate file that cannot be read ({error}); keep it beside it"
        ) from error
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise AtcRefusal(UNSOUND, f"{file}: the constant {name!r} is stored sparsely; export it as a dense tensor")
    if model.ByteSize() > MAX_ONNX_BYTES:
        raise AtcRefusal(NOT_LOADABLE, f"{file}: with its external data it exceeds 2 GB; split the model")
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        reason = str(error).strip().splitlines()[0]
        raise AtcRefusal(UNSOUND, f"{file}: not a sound ONNX model ({reason}); export it again") from error
    return model


def graph_inputs(model: onnx.ModelProto) -> list[GraphInput]:
    """Inputs that a caller gives, without initialisers.

    Raises:
        AtcRefusal: an input is not a tensor of a known rank.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    found: list[GraphInput] = []
    for value in model.graph.input:
        if value.name in constants:
            continue
        if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
            raise AtcRefusal(
                UNSOUND, f"the input {value.name!r} is not a tensor of a known number of axes; export the graph again"
            )
        dims = tuple(
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None
            for dim in value.type.tensor_type.shape.dim
        )
        found.append(GraphInput(value.name, dtype_name(value.type.tensor_type.elem_type), dims))
    if not found:
        raise AtcRefusal(NO_NODES, "the graph has no inputs, so it computes a constant; nothing is left to run")
    return found


QUANTISED_BY_US = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""In an emulated 8-bit graph these stand for what Ascend's own tool (AMCT) puts around the layers it quantises."""


def check_operators(model: onnx.ModelProto, *, quantised: bool = False) -> None:
    """Refuse operator sets and operators that ATC has no parser for.

    Args:
        model: the graph.
        quantised: it was quantised here, so that the operators in ``QUANTISED_BY_US`` are no export's.

    Raises:
        AtcRefusal: E19010, with what replaces the operator.
    """
    known = operator_list()
    opset = opset_of(model)
    if not known.opset_min <= opset <= known.opset_max:
        example = next(node.op_type for node in model.graph.node)
        raise AtcRefusal(
            NO_PARSER,
            f"no parser for ai.onnx::{opset}::{example}: the graph uses operator set {opset}, and "
            f"{known.opset_min} to {known.opset_max} are read; export it with one of those (opset_version=17, say)",
        )
    local = {(function.domain, function.name) for function in model.functions}
    for node in _all_nodes(model.graph):
        if node.domain in ONNX_DOMAINS and (
            node.op_type in known.operators or (quantised and node.op_type in QUANTISED_BY_US)
        ):
            continue
        domain = node.domain or "ai.onnx"
        advice = (
            "export the model without functions"
            if (node.domain, node.op_type) in local
            else _advice(known, node.op_type, custom=node.domain not in {"", "ai.onnx"})
        )
        raise AtcRefusal(
            NO_PARSER,
            f"no parser for {domain}::{opset}::{node.op_type} (node {node.name or node.output[0]!r}); {advice}",
        )


def _advice(known: OperatorList, op_type: str, *, custom: bool) -> str:
    if custom:
        return "it is not an operator of ONNX: export without fused or custom operators, or install a custom parser"
    replacement = known.replacements.get(op_type)
    if replacement:
        return f"use {replacement}"
    return "export at a lower operator set, simplify the graph, or build it from listed operators"


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for entry in node.attribute:
            if entry.HasField("g"):
                yield from _all_nodes(entry.g)


def check_dtypes(model: onnx.ModelProto, soc: Soc) -> None:
    """Refuse element types and operators that the chip has no kernel for.

    Raises:
        AtcRefusal: EZ3003, with what to do.
    """
    family = soc.properties()
    types = elem_types(model)
    for name, elem_type in types.items():
        if dtype_name(elem_type) not in family.dtypes:
            raise AtcRefusal(
                NO_KERNEL,
                f"the tensor {name!r} has the element type {dtype_name(elem_type)}, which no kernel of {soc.name} "
                f"takes; cast to one of {', '.join(family.dtypes)}, complex numbers to pairs of real ones",
            )
    for node in model.graph.node:
        if node.op_type in family.no_kernel:
            raise AtcRefusal(
                NO_KERNEL, f"{soc.name} has no kernel for {node.op_type} (node {node.name or node.output[0]!r}); "
                f"{family.no_kernel[node.op_type]}"
            )  # fmt: skip
        allowed = family.kernel_dtypes.get(node.op_type)
        first = types.get(node.input[0]) if node.input else None
        if allowed is not None and first is not None and dtype_name(first) not in allowed:
            raise AtcRefusal(
                NO_KERNEL,
                f"{soc.name} has no kernel for {node.op_type} of {dtype_name(first)} "
                f"(node {node.name or node.output[0]!r}); cast to one of {', '.join(allowed)}",
            )


def sized(model: onnx.ModelProto, sizes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """A copy whose inputs have these sizes; axes of size -1, and inputs that are not named, stay as they are."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes.get(value.name, ()), strict=False):
            if size != VARIES:
                dim.dim_value = size
    return copy


def elem_types(model: onnx.ModelProto) -> dict[str, int]:
    """ONNX element type of every tensor that has one."""
    inferred = shape_inference.infer_shapes(model)
    types = {
        value.name: value.type.tensor_type.elem_type
        for value in (*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output)
        if value.type.HasField("tensor_type") and value.type.tensor_type.elem_type
    }
    types.update({tensor.name: tensor.data_type for tensor in model.graph.initializer})
    return types


def weights_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all initialisers."""
    return sum(tensor.ByteSize() for tensor in model.graph.initializer)
