"""Static 8-bit quantisation: scales from calibration, per channel of the weights, QuantizeLinear and DequantizeLinear.

Only layers with constant weights are quantised: convolutions, transposed convolutions and products. On an NPU this is
the job of Ascend's own tool (AMCT), which quantises the inputs and weights of the same layers and leaves their results
in floating point; ``results=False`` does likewise. onnxruntime's 8-bit kernels want the results quantised too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import shape_inference
from onnxruntime.quantization.calibrate import CalibrationMethod, TensorData, TensorsData
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.quant_utils import QuantType

from voxrepo.convert.precision.nodes import plain
from voxrepo.convert.proof_cases import open_session
from voxrepo.importers.graph import opset_of
from voxrepo.importers.onnx_run import run
from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]
Ranges = Mapping[str, tuple[float, float]]
"""Lowest and highest value by tensor."""

LAYERS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
MIN_OPSET = 13
"""First operator set with scales per channel."""


def layers_of(model: onnx.ModelProto) -> list[str]:
    """Names of the layers that can be quantised, in the graph's order."""
    graph = plain(model).graph
    constants = {tensor.name for tensor in graph.initializer}
    return [node.name for node in graph.node if node.op_type in LAYERS and node.input[1] in constants]


def calibrate(model: onnx.ModelProto, rows: Iterable[Mapping[str, Array]]) -> dict[str, tuple[float, float]]:
    """Ranges of what the layers read and make, over all rows.

    Args:
        model: FP32.
        rows: inputs by name.

    Raises:
        ConversionRefused: the graph does not run, or makes values that are not numbers.
    """
    copy = plain(model)
    layers = set(layers_of(copy))
    wanted = list(
        dict.fromkeys(
            name for node in copy.graph.node if node.name in layers for name in (node.input[0], node.output[0])
        )
    )
    known = {value.name for value in copy.graph.output}
    inputs = {value.name for value in copy.graph.input}
    for name in wanted:
        if name not in known and name not in inputs:
            copy.graph.output.append(onnx.ValueInfoProto(name=name))
    session = open_session(copy.SerializeToString())
    ranges: dict[str, tuple[float, float]] = {}
    for row in rows:
        values = {**row, **run(session, row, "the graph, for calibration,")}
        for name in wanted:
            low, high = float(values[name].min(initial=0.0)), float(values[name].max(initial=0.0))
            if not np.isfinite([low, high]).all():
                raise ConversionRefused(f"the graph makes values of {name!r} that are not finite, on calibration texts")
            before = ranges.get(name, (0.0, 0.0))
            ranges[name] = (min(low, before[0]), max(high, before[1]))
    return ranges


def quantise(
    model: onnx.ModelProto, ranges: Ranges, exclude: Collection[str] = (), *, results: bool
) -> onnx.ModelProto:
    """Quantise all layers but some; the graph is not changed itself.

    Args:
        model: FP32.
        ranges: from :func:`calibrate`.
        exclude: names of layers that stay FP32.
        results: quantise what the layers make too.

    Raises:
        ConversionRefused: the graph's operator set is too old.
    """
    if opset_of(model) < MIN_OPSET:
        raise ConversionRefused(
            f"the graph uses operator set {opset_of(model)}, and scales per channel need {MIN_OPSET}; export it again "
            f"with opset_version={MIN_OPSET} or above"
        )
    copy = shape_inference.infer_shapes(plain(model))
    chosen = [name for name in layers_of(copy) if name not in set(exclude)]
    if not chosen:
        return plain(model)
    quantizer = QDQQuantizer(
        copy,
        True,  # per channel
        False,  # full range: a device's 8-bit units do not saturate between products
        QuantType.QInt8,
        QuantType.QInt8,
        TensorsData(
            CalibrationMethod.MinMax,
            {
                name: TensorData(lowest=np.float32(low), highest=np.float32(high))
                for name, (low, high) in ranges.items()
            },
        ),
        chosen,
        [],
        list(LAYERS),
        {
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "OpTypesToExcludeOutputQuantization": [] if results else list(LAYERS),
        },
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    made: onnx.ModelProto = quantizer.model.model
    made.producer_name, made.producer_version = model.producer_name, model.producer_version
    del made.graph.value_info[:]
    return made
