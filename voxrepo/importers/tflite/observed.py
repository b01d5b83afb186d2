"""What a model's tensors are, found by running it at two lengths.

The files know neither batch nor length: shapes are computed as they go. Instead of following those computations, the
model is run twice. What is equal in both runs is a constant; the axis that differs is time, and what stands behind it
are channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.importers.tflite.interpreter import run
from voxrepo.importers.tflite.model import TfliteModel

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Observed:
    """Values of all tensors in two runs at different lengths, batch 1."""

    first: Mapping[int, Array]
    second: Mapping[int, Array]

    @staticmethod
    def of(model: TfliteModel, first: Mapping[int, Array], second: Mapping[int, Array]) -> Observed:
        """Run ``model`` on two sets of inputs."""
        return Observed(run(model, first), run(model, second))

    def constant(self, tensor: int) -> Array | None:
        """The value of a tensor that depends neither on the input nor on its length."""
        a, b = self.first[tensor], self.second[tensor]
        return a if a.shape == b.shape and np.array_equal(a, b) else None

    def shapes(self, tensor: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes in both runs."""
        return self.first[tensor].shape, self.second[tensor].shape

    def channels(self, tensor: int) -> int | None:
        """Values per position of a sequence [1.., length, channels..]; ``None`` if it is none."""
        a, b = self.shapes(tensor)
        if len(a) != len(b):
            return None
        axes = [axis for axis, sizes in enumerate(zip(a, b, strict=True)) if sizes[0] != sizes[1]]
        if len(axes) != 1 or np.prod(a[: axes[0]], dtype=int) != 1:
            return None
        return int(np.prod(a[axes[0] + 1 :], dtype=int))

    def counts_from(self, tensor: int) -> int | None:
        """``n`` where the values are n, n + 1, n + 2 ... in both runs; ``None`` if they are not."""
        start: int | None = None
        for values in (self.first[tensor].reshape(-1), self.second[tensor].reshape(-1)):
            if (
                values.size < 2
                or values.dtype.kind != "i"
                or not np.array_equal(np.diff(values), np.ones(values.size - 1))
            ):
                return None
            if start not in (None, int(values[0])):
                return None
            start = int(values[0])
        return start
