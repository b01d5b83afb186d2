"""Target ``onnx``: graphs for a CPU, simplified ahead of time, in standard operators only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

import onnx
import onnxruntime as ort

from voxrepo.convert.input_shape import VARIES
from voxrepo.convert.onnx_graph import MAX_ONNX_BYTES, dtype_name, graph_inputs, weights_bytes
from voxrepo.convert.precision.nodes import plain
from voxrepo.convert.precision.tiers import parse_precision
from voxrepo.convert.refusal import OM_TOO_LARGE, AtcRefusal
from voxrepo.convert.target import BuildRequest, BuiltGraph, BuiltTensor, Progress, cpu_tools
from voxrepo.importers.graph import ONNX_DOMAINS
from voxrepo_contract.emulated_om import RANGE
from voxrepo_contract.errors import ConfigError, ConversionRefused


def optimised(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph after onnxruntime's portable simplifications: constants folded, nodes without effect removed.

    Its further fusions are left to each start: they are made of operators of its own, and differ by CPU.

    Raises:
        ConversionRefused: onnxruntime cannot load the graph.
    """
    named = plain(model)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory(prefix="voxrepo-") as folder:
        file = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(file)
        try:
            ort.InferenceSession(named.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime has no public base class for its errors
            raise ConversionRefused(f"onnxruntime cannot load this graph: {error}") from error
        made = onnx.load(file)
    strange = next((node for node in made.graph.node if node.domain not in ONNX_DOMAINS), None)
    if strange is not None:
        return named  # an operator of onnxruntime's own came in; the graph as it was is portable
    imports = [entry for entry in made.opset_import if entry.domain in ONNX_DOMAINS]
    del made.opset_import[:]
    made.opset_import.extend(imports)
    made.producer_name, made.producer_version = model.producer_name, model.producer_version
    made.ir_version = model.ir_version
    del made.graph.value_info[:]
    return made


class OnnxTarget:
    """See :class:`voxrepo.convert.target.Target`."""

    name = "onnx"
    device: Literal["cpu", "npu"] = "cpu"
    suffix = ".onnx"
    lowers_itself = False

    def check_precision(self, precision: str) -> None:
        """Refuse what is no tier."""
        parse_precision(precision)

    def tools(self) -> dict[str, str]:
        """Versions of voxrepo, onnx and onnxruntime."""
        return cpu_tools()

    def build(self, request: BuildRequest, file: Path, progress: Progress) -> BuiltGraph:
        """Write the graph; it takes any size, whatever the plan."""
        progress("writing the graph", 0.0)
        model = request.model
        data = model.SerializeToString(deterministic=True)
        if len(data) > MAX_ONNX_BYTES:
            raise AtcRefusal(OM_TOO_LARGE, f"the graph has {len(data)} bytes, more than 2 GB; split it")
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            temporary.write_bytes(data)
            temporary.replace(file)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise ConfigError(f"cannot be written: {error.strerror or error}", file=file) from error
        inputs = tuple(
            BuiltTensor(entry.name, entry.dtype, tuple(VARIES if dim is None else dim for dim in entry.dims))
            for entry in graph_inputs(model)
        )
        outputs = tuple(
            BuiltTensor(
                value.name,
                dtype_name(value.type.tensor_type.elem_type),
                tuple(dim.dim_value if dim.dim_value > 0 else VARIES for dim in value.type.tensor_type.shape.dim),
            )
            for value in model.graph.output
        )
        return BuiltGraph(file, RANGE, inputs, outputs, 0, weights_bytes(model), 0, False)

    def reference_model(self, file: Path) -> bytes:
        """The file itself."""
        try:
            return file.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}", file=file) from error
