"""Names and constants for nodes that are added to a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, numpy_helper

from voxrepo.importers.graph import Graph


class GraphParts:
    """Names that are not taken, and constants under such names.

    Args:
        graph: that the nodes are added to.
        prefix: of all names.

    Attributes:
        constants: made so far.
    """

    def __init__(self, graph: Graph, prefix: str) -> None:
        self.constants: list[TensorProto] = []
        self._graph = graph
        self._prefix = prefix
        self._fresh: dict[str, Iterator[str]] = {}

    def name(self, stem: str) -> str:
        """A name that occurs nowhere yet."""
        if stem not in self._fresh:
            self._fresh[stem] = self._graph.fresh_names(f"{self._prefix}_{stem}")
        return next(self._fresh[stem])

    def constant(self, value: Any, dtype: npt.DTypeLike = np.int64) -> str:
        """The name of a new constant."""
        name = self.name("constant")
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name
