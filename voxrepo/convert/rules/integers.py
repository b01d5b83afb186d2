"""INT64 inputs as INT32, where what is computed from them allows."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from voxrepo.convert.rules.workbench import Builder, Workbench, names_read

_INT32 = np.iinfo(np.int32)


def int32_input(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """An INT64 input of the graph that only selects rows (Gather) becomes INT32.

    Ids are far below 2^31, so nothing is lost; the host must feed INT32.
    """
    if node.op_type != "Gather" or node.input[1] not in bench.input_names():
        return None
    name = node.input[1]
    value = next(entry for entry in bench.model.graph.input if entry.name == name)
    readers = [other for other in bench.nodes if name in names_read(other)]
    only_selects = all(other.op_type == "Gather" and other.input[0] != name for other in readers)
    if value.type.tensor_type.elem_type != TensorProto.INT64 or not only_selects or name in bench.output_names():
        return None
    value.type.tensor_type.elem_type = TensorProto.INT32
    copy = build.op("Gather", list(node.input), node.output[0], **_attributes(node))
    assert copy == node.output[0]
    return f"the input {name!r} is INT32 now, values up to {_INT32.max}"


def _attributes(node: onnx.NodeProto) -> dict[str, int]:
    return {entry.name: entry.i for entry in node.attribute}
