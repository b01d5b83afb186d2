"""A CPU graph that takes only its gears, as a graph on an NPU does, and is as careless with what is left over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from om_backend.device.description import GraphDescription
from om_backend.onnx_cpu import OnnxGraph
from om_backend.runtime import NUMPY_DTYPES, RuntimeSettings
from onnx import helper

from voxrepo_contract.stage import GraphSpec, WindowedStage, write_stage

from .graphs import CHANNELS, Tensors, place, place_vocoder, vocoder_constants

Gears = Sequence[Mapping[str, int]]


def gears(axis: str, lengths: Sequence[int], batches: Sequence[int]) -> list[dict[str, int]]:
    """Every batch with every length."""
    return [{"batch": batch, axis: length} for batch in batches for length in lengths]


class GearedGraph:
    """Runs an ONNX graph on the CPU, but only in the gears of ``spec``.

    Outputs are views of one buffer that the next run overwrites, and whatever a call leaves in rows and tails that the
    mask or the lengths call padding is NaN: a program that reads it, or keeps a result without a copy, is found out.

    Attributes:
        calls: gear of each run.
        feeds: what the last run was fed.
    """

    description: GraphDescription | None = None

    def __init__(self, folder: Path, spec: GraphSpec) -> None:
        assert spec.device == "npu"
        self._graph = OnnxGraph(folder / spec.file, spec, RuntimeSettings())
        self._spec = spec
        self._buffers: dict[tuple[str, tuple[int, ...]], npt.NDArray[Any]] = {}
        self.calls: list[dict[str, int]] = []
        self.feeds: dict[str, npt.NDArray[Any]] = {}

    def run(self, feeds: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        assert set(feeds) == {tensor.name for tensor in self._spec.inputs}
        gear: dict[str, int] = {}
        for tensor in self._spec.inputs:
            value = feeds[tensor.name]
            assert value.dtype == NUMPY_DTYPES[tensor.dtype], tensor.name
            assert value.ndim == len(tensor.dims)
            for dim, size in zip(tensor.dims, value.shape, strict=True):
                assert size == (dim if isinstance(dim, int) else gear.setdefault(dim, size)), (tensor, value.shape)
        if self._spec.gears:
            listed = [{name: known[name] for name in gear} for known in self._spec.gears]
            assert gear in listed, f"{gear} is no gear"
        self.calls.append(gear)
        self.feeds = {name: value.copy() for name, value in feeds.items()}
        outputs = {}
        for name, value in self._graph.run(feeds).items():
            buffer = self._buffers.setdefault((name, value.shape), np.empty_like(value))
            buffer[...] = value
            if value.dtype == np.float32:
                self._poison(buffer)
            outputs[name] = buffer
        return outputs

    def _poison(self, output: npt.NDArray[Any]) -> None:
        for row in range(len(output)):
            if "lengths" in self.feeds:
                true, of = int(self.feeds["lengths"][row]), self.feeds["phoneme_ids"].shape[1]
            elif "mask" in self.feeds:
                true, of = int(self.feeds["mask"][row].sum()), self.feeds["mask"].shape[2]
            else:
                return
            output[row, ..., true * output.shape[-1] // of :] = np.nan

    def release_work_memory(self) -> None:
        """Nothing to give back."""

    def close(self) -> None:
        """Nothing to close."""


def geared(spec: GraphSpec, gears: Gears) -> GraphSpec:
    """The same graph for an NPU, built for ``gears``."""
    return spec.model_copy(update={"device": "npu", "gears": [dict(gear) for gear in gears]})


def place_masked_vocoder(folder: Path, **options: Any) -> WindowedStage:
    """The generator of :func:`place_vocoder` with an input ``mask``, multiplied in before each convolution."""
    stage = place_vocoder(folder, **options)
    constants = vocoder_constants()
    nodes = [
        helper.make_node("Mul", ["features", "mask"], ["h0"]),
        helper.make_node("Conv", ["h0", "w1", "b1"], ["h1"], pads=[2, 2]),
        helper.make_node("Tanh", ["h1"], ["h2"]),
        helper.make_node("Mul", ["h2", "mask"], ["h2m"]),
        helper.make_node("Conv", ["h2m", "w2", "b2"], ["h3"], pads=[2, 2]),
        helper.make_node("Tanh", ["h3"], ["h4"]),
        helper.make_node("Mul", ["h4", "half"], ["h5"]),
        helper.make_node("Transpose", ["h5"], ["h6"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["h6", "shape"], ["audio"]),
    ]
    inputs: Tensors = [
        ("features", "FP32", ["batch", CHANNELS, "frames"]),
        ("mask", "FP32", ["batch", 1, "frames"]),
    ]
    spec = place(folder, "generator", nodes, inputs, [("audio", "FP32", ["batch", 1, "samples"])], constants)
    stage = stage.model_copy(update={"graphs": {"generator": spec}})
    write_stage(folder, stage)
    return stage
