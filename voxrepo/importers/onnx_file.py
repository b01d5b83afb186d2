"""Reading the source graph, and refusing files that cannot be a float VITS export."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from voxrepo.importers.graph import Graph, normalise
from voxrepo_contract.errors import ConfigError, ConversionRefused

MIN_OPSET = 13
"""Since operator set 13 Split, Squeeze, Unsqueeze and ReduceSum take axes as inputs, which the rewrite relies on."""

MAX_FILE_BYTES = 2_000_000_000
"""A protobuf message cannot exceed 2 GB."""

_QUANTISED = frozenset(
    {
        "ConvInteger",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
    }
)
_HALF: dict[int, str] = {TensorProto.FLOAT16: "FP16", TensorProto.BFLOAT16: "BF16"}


def _refuse_precision(graph: Graph) -> None:
    quantised = next((node.op_type for node in graph.nodes if node.op_type in _QUANTISED), None)
    if quantised is not None:
        raise ConversionRefused(
            f"the graph is quantised (it has {quantised} nodes); import the original FP32 voice and quantise "
            "the stages afterwards"
        )
    half = next((_HALF[t.data_type] for t in graph.constants.values() if t.data_type in _HALF), None)
    if half is not None:
        raise ConversionRefused(
            f"the graph has {half} weights; import the original FP32 voice, precision is chosen per stage at conversion"
        )


def load_graph(file: Path) -> Graph:
    """Read and normalise a voice's graph.

    Raises:
        ConfigError: the file is missing or cannot be read.
        ConversionRefused: it is not an ONNX graph, its weights are missing, or it is quantised or FP16.
    """
    try:
        size_bytes = file.stat().st_size
    except FileNotFoundError as error:
        raise ConfigError("the file is missing", file=file) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    if not file.is_file():
        raise ConfigError("this is not a file; give the voice's .onnx file", file=file)
    if size_bytes > MAX_FILE_BYTES:
        raise ConversionRefused(f"{file}: {size_bytes} bytes; an ONNX file cannot exceed {MAX_FILE_BYTES}")
    try:
        # format="protobuf" or the suffix decides: a .json given by mistake would be parsed as an ONNX JSON graph
        model = onnx.load(file, format="protobuf", load_external_data=False)
    except DecodeError as error:
        raise ConversionRefused(f"{file}: not an ONNX file; give the voice's .onnx file") from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    if not model.graph.node or not model.opset_import:
        raise ConversionRefused(f"{file}: not an ONNX file, or one without a graph; give the voice's .onnx file")
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(file.parent))
    except Exception as error:  # onnx raises its checker's errors, OSError and ValueError here
        raise ConversionRefused(
            f"{file}: the weights are in a separate file that cannot be read ({error}); keep it beside the graph"
        ) from error
    try:
        graph = normalise(model)
        if graph.opset < MIN_OPSET:
            raise ConversionRefused(
                f"the graph uses operator set {graph.opset}; {MIN_OPSET} or later is needed, Piper's exporter writes 15"
            )
        _refuse_precision(graph)
    except ConversionRefused as error:
        raise ConversionRefused(f"{file}: {error}") from error
    return graph
