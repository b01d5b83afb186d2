"""The shapes of a graph at given input sizes: whether all are static, what comes out, how much memory it takes.

Shapes are folded by onnxruntime's basic optimisations, as ATC folds them, and inferred by onnx. What then is still
unknown depends on data.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, shape_inference

from voxrepo.convert.onnx_graph import dtype_name, sized
from voxrepo.convert.refusal import UNSOUND, AtcRefusal
from voxrepo_contract.emulated_om import ITEM_BYTES
from voxrepo_contract.errors import ConfigError

_NOT_WRITTEN = "Protobuf serialization failed"
"""What onnxruntime says where it could not write a whole file."""
_LARGE_ELEMENTS = 4096
"""Constants above this are weights: no shape depends on their values."""


@dataclass(frozen=True)
class Shapes:
    """What is known of a graph at fixed input sizes.

    Attributes:
        outputs: dims of every output by name, ``None`` where it depends on data.
        dynamic: first node whose output's shape depends on data, "" if there is none.
        work_bytes: most memory that intermediate results take at one time, as far as their shapes are known.
    """

    outputs: Mapping[str, tuple[int | None, ...] | None]
    dynamic: str
    work_bytes: int


class ShapeFinder:
    """Finds the shapes of one graph at one size after the other.

    Args:
        model: any ONNX graph; it is not changed.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._light = _without_weights(model)

    def at(self, sizes: Mapping[str, Sequence[int]]) -> Shapes:
        """Shapes where the inputs have these dims; an input that is not named keeps its own.

        Raises:
            AtcRefusal: the graph contradicts itself at these sizes.
        """
        folded = _fold(_sized(self._light, sizes), sizes)
        known: dict[str, tuple[int | None, ...]] = {}
        types: dict[str, int] = {}
        for value in (*folded.graph.input, *folded.graph.value_info, *folded.graph.output):
            kind = value.type.tensor_type
            types[value.name] = kind.elem_type
            if kind.HasField("shape"):
                known[value.name] = tuple(
                    dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim
                )
        dynamic = ""
        for node in folded.graph.node:
            unknown = [name for name in node.output if name and None in known.get(name, (None,))]
            if unknown:
                dynamic = f"{node.op_type} {node.name or unknown[0]!r}"
                break
        outputs = {value.name: known.get(value.name) for value in folded.graph.output}
        return Shapes(outputs, dynamic, _work_bytes(folded, known, types))


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with its large constants as inputs, so that folding it does not move them about."""
    light = onnx.ModelProto()
    light.CopyFrom(model)
    light.graph.ClearField("initializer")
    light.graph.ClearField("value_info")
    listed = {value.name for value in light.graph.input}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= _LARGE_ELEMENTS:
            light.graph.initializer.append(tensor)
        elif tensor.name not in listed:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    return light


def _sized(model: onnx.ModelProto, sizes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    copy = sized(model, sizes)
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    return copy


def _fold(model: onnx.ModelProto, sizes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory(prefix="voxrepo-fold-") as folder:
        target = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(target)
        try:
            ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return shape_inference.infer_shapes(onnx.load(target), data_prop=True)
        except Exception as error:  # the runtime has no public base class for its errors
            if isinstance(error, OSError) or _NOT_WRITTEN in str(error):
                problem = "a graph cannot be written to this folder for temporary files; is the disk full?"
                raise ConfigError(problem, file=Path(folder)) from error
            shown = "; ".join(f"{name}:{','.join(map(str, dims))}" for name, dims in sizes.items())
            reason = str(error).strip().splitlines()[0]
            raise AtcRefusal(UNSOUND, f"the graph cannot be built at the sizes {shown}: {reason}") from error


def _work_bytes(model: onnx.ModelProto, known: Mapping[str, tuple[int | None, ...]], types: Mapping[str, int]) -> int:
    """Largest sum of the tensors that are alive at one time when nodes run in the order of the file."""
    outputs = {value.name for value in model.graph.output}
    last_use = {name: index for index, node in enumerate(model.graph.node) for name in node.input}
    alive: dict[str, int] = {}
    peak = 0
    for index, node in enumerate(model.graph.node):
        for name in node.output:
            alive[name] = _tensor_bytes(known.get(name, ()), types.get(name, TensorProto.FLOAT))
        peak = max(peak, sum(alive.values()))
        for name in [*node.input, *node.output]:
            if last_use.get(name, -1) <= index and name not in outputs:
                alive.pop(name, None)
    return peak


def _tensor_bytes(dims: Sequence[int | None], elem_type: int) -> int:
    return math.prod(dim or 1 for dim in dims) * ITEM_BYTES.get(dtype_name(elem_type), 4)
