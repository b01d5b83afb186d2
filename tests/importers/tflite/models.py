"""Small TensorFlow Lite models, written as plain data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.importers.tflite.model import Operator, Quantisation, Tensor, TfliteModel

CONV = {
    "DilationHFactor": 1,
    "DilationWFactor": 1,
    "FusedActivationFunction": 0,
    "Padding": 0,
    "StrideH": 1,
    "StrideW": 1,
}
VALID = 1


class Builder:
    """Collects tensors and operators; numbers of tensors are returned."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []

    def tensor(
        self,
        shape: tuple[int, ...] = (),
        data: npt.ArrayLike | None = None,
        dtype: npt.DTypeLike = np.float32,
        quantisation: Quantisation | None = None,
    ) -> int:
        value = None if data is None else np.asarray(data, dtype)
        shape = shape if value is None else value.shape
        self.tensors.append(Tensor(f"t{len(self.tensors)}", np.dtype(dtype), shape, value, quantisation))
        return len(self.tensors) - 1

    def ints(self, data: npt.ArrayLike) -> int:
        return self.tensor(data=data, dtype=np.int32)

    def add(self, kind: str, *inputs: int, dtype: npt.DTypeLike = np.float32, **options: Any) -> int:
        output = self.tensor(dtype=dtype)
        self.operators.append(Operator(kind, inputs, (output,), options))
        return output

    def conv(self, source: int, weights: npt.NDArray[Any], bias: npt.NDArray[Any], **options: Any) -> int:
        """A one-dimensional convolution as files have it: weights [out, kernel, in], over an axis put in and out."""
        wide = self.add("EXPAND_DIMS", source, self.ints(-3))
        made = self.add(
            "CONV_2D", wide, self.tensor(data=weights[:, np.newaxis]), self.tensor(data=bias), **{**CONV, **options}
        )
        return self.add("SQUEEZE", made, SqueezeDims=(1,))

    def model(self, inputs: list[int], outputs: list[int]) -> TfliteModel:
        return TfliteModel(tuple(self.tensors), tuple(self.operators), tuple(inputs), tuple(outputs))


def reflected(builder: Builder, source: int, amount: int) -> int:
    pads = builder.ints([[0, 0], [amount, amount], [0, 0]])
    return builder.add("MIRROR_PAD", source, pads, Mode=0)


def dilated(builder: Builder, source: int, weights: npt.NDArray[Any], bias: npt.NDArray[Any], block: int) -> int:
    """A dilated convolution by the detour through the batch axis that the exporter takes."""
    shape = builder.add("SHAPE", source, dtype=np.int32)
    one, two, step = (builder.ints([number]) for number in (1, 2, 1))
    masks = {"BeginMask": 0, "EllipsisMask": 0, "EndMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 1}
    length = builder.add("STRIDED_SLICE", shape, one, two, step, dtype=np.int32, **masks)
    size = builder.ints(block)
    over = builder.add("FLOOR_MOD", length, size, dtype=np.int32)
    missing = builder.add("FLOOR_MOD", builder.add("SUB", size, over, dtype=np.int32), size, dtype=np.int32)
    row = builder.add("PACK", builder.ints(0), missing, dtype=np.int32, Axis=0)
    paddings = builder.add("PACK", row, dtype=np.int32, Axis=0)
    blocks = builder.ints([block])
    parts = builder.add("SPACE_TO_BATCH_ND", source, blocks, paddings)
    made = builder.conv(parts, weights, bias, Padding=VALID)
    return builder.add("BATCH_TO_SPACE_ND", made, blocks, paddings)


def upsampled(builder: Builder, source: int, weights: npt.NDArray[Any], stride: int) -> int:
    """A transposed convolution: weights [out, kernel, in]."""
    tall = builder.add("EXPAND_DIMS", source, builder.ints(2))
    shape = builder.add("SHAPE", tall, dtype=np.int32)
    masks = {"BeginMask": 0, "EllipsisMask": 0, "EndMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 1}
    length = builder.add(
        "STRIDED_SLICE", shape, builder.ints([1]), builder.ints([2]), builder.ints([1]), dtype=np.int32, **masks
    )
    longer = builder.add("MUL", length, builder.ints(stride), dtype=np.int32)
    batch, width, filters = (builder.ints(n) for n in (1, 1, weights.shape[0]))
    size = builder.add("PACK", batch, longer, width, filters, dtype=np.int32, Axis=0)
    made = builder.add(
        "TRANSPOSE_CONV",
        size,
        builder.tensor(data=weights[:, :, np.newaxis]),
        tall,
        Padding=0,
        StrideH=stride,
        StrideW=1,
        FusedActivationFunction=0,
    )
    return builder.add("SQUEEZE", made, SqueezeDims=(2,))


def generator(*, rounded: bool = False) -> TfliteModel:
    """A tiny multi-band vocoder: 5 bands in, 3 x 2 samples per frame."""
    rng = np.random.default_rng(3)

    def weights(*shape: int) -> npt.NDArray[np.float32]:
        return (rng.standard_normal(shape) * 0.4).astype(np.float32)

    builder = Builder()
    mels = builder.tensor((1, -1, 5))
    x = builder.conv(reflected(builder, mels, 2), weights(8, 5, 5), weights(8), Padding=VALID)
    x = builder.add("ADD", x, builder.tensor(data=weights(8)), FusedActivationFunction=0)
    x = builder.add("LEAKY_RELU", x, Alpha=0.2)
    x = upsampled(builder, x, weights(6, 6, 8), 3)
    y = dilated(builder, reflected(builder, x, 3), weights(6, 3, 6), weights(6), 3)
    x = builder.add("ADD", builder.conv(x, weights(6, 1, 6), weights(6)), y, FusedActivationFunction=0)
    x = builder.add("TANH", builder.conv(x, weights(2, 1, 6), weights(2)))
    if rounded:
        scale = Quantisation(np.array([1 / 128], np.float32), np.array([0]), 0)
        whole = builder.add("QUANTIZE", x, dtype=np.int8)
        builder.tensors[whole] = Tensor("rounded", np.dtype(np.int8), (), None, scale)
        x = builder.add("DEQUANTIZE", whole)
    x = upsampled(builder, x, weights(2, 2, 2), 2)
    pads = builder.ints([[0, 0], [4, 4], [0, 0]])
    x = builder.conv(builder.add("PAD", x, pads), weights(1, 9, 2), weights(1), Padding=VALID)
    return builder.model([mels], [x])
