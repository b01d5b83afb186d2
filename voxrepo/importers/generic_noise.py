"""Random nodes of a graph replaced by numbers that follow from a seed and the ids.

A graph that draws its own noise says the same text differently each time. Here the noise is a hash of (seed, ids,
number of the node, position), so that the same seed and segment give the same audio whoever else is in flight and
whether the segment comes alone, as in a stream, or with its neighbours. The hash is a polynomial of degree nine over
the integers modulo ``PRIME``, in whole numbers only and so the same on every machine; normal numbers are made of two
uniform ones by Box and Muller's transform (1958).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from voxrepo.importers.graph import attribute
from voxrepo_contract.errors import ConversionRefused

PRIME = 2**31 - 1
"""Products of two residues fit 63 bits."""
_NORMAL = frozenset({"RandomNormal", "RandomNormalLike"})
_UNIFORM = frozenset({"RandomUniform", "RandomUniformLike"})
_OTHERS = frozenset({"Bernoulli", "Multinomial"})
_STEP, _MIX = 48_271, 16_807
_KEYS = (1_103_515_245, 69_069, 40_503)
_ROUND_KEYS = ((12_345, 998_244_353), (1_234_567_891, 777_767_777))


class NodeWriter:
    """Collects nodes and constants under names with a common prefix."""

    def __init__(self, prefix: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self._prefix = prefix
        self._known: dict[tuple[str, str], str] = {}
        self._made = 0

    def constant(self, value: Any, dtype: Any) -> str:
        """Name of a constant."""
        array = np.asarray(value, dtype)
        key = (str(array.dtype), f"{array.shape}{array.tolist()}")
        if key not in self._known:
            name = f"{self._prefix}constant_{len(self._known)}"
            self.constants.append(numpy_helper.from_array(array, name))
            self._known[key] = name
        return self._known[key]

    def node(self, op: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        self._made += 1
        name = output or f"{self._prefix}{op}_{self._made}"
        label = f"{self._prefix}node_{self._made}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=label, **attributes))
        return name


def noise_key(writer: NodeWriter, seed: str, ids: str) -> str:
    """A number from seed and ids.

    Args:
        writer: takes the nodes.
        seed: INT64 with one element.
        ids: INT64 [ids].

    Returns:
        INT64 [1].
    """
    prime, one = writer.constant(PRIME, np.int64), writer.constant(1, np.int64)
    count = writer.node("Size", [ids])
    places = writer.node("Range", [one, writer.node("Add", [count, one]), one])
    places = writer.node("Mod", [writer.node("Mul", [places, writer.constant(_KEYS[0], np.int64)]), prime])
    spread = writer.node("Mul", [writer.node("Add", [ids, one]), places])
    hashed = writer.node("ReduceSum", [writer.node("Mod", [spread, prime])], keepdims=0)
    seeded = writer.node("Mod", [writer.node("Reshape", [seed, writer.constant([1], np.int64)]), prime])
    seeded = writer.node("Mul", [seeded, writer.constant(_KEYS[0], np.int64)])
    hashed = writer.node("Mul", [writer.node("Mod", [hashed, prime]), writer.constant(_KEYS[1], np.int64)])
    return writer.node("Mod", [writer.node("Add", [seeded, hashed]), prime])


def _uniform(writer: NodeWriter, key: str, places: str, keys: tuple[int, int]) -> str:
    """FP32 numbers above 0 and up to 1, one for each of ``places``."""
    prime = writer.constant(PRIME, np.int64)
    value = writer.node(
        "Mod", [writer.node("Add", [writer.node("Mul", [places, writer.constant(_STEP, np.int64)]), key]), prime]
    )
    for round_key in keys:
        square = writer.node("Mod", [writer.node("Mul", [value, value]), prime])
        cube = writer.node("Mod", [writer.node("Mul", [square, value]), prime])
        line = writer.node("Mul", [value, writer.constant(_MIX, np.int64)])
        line = writer.node("Add", [line, writer.constant(round_key, np.int64)])
        value = writer.node("Mod", [writer.node("Add", [cube, line]), prime])
    shifted = writer.node(
        "Add", [writer.node("Cast", [value], to=TensorProto.DOUBLE), writer.constant(0.5, np.float64)]
    )
    share = writer.node("Div", [shifted, writer.constant(float(PRIME), np.float64)])
    return writer.node("Cast", [share], to=TensorProto.FLOAT)


def _replacement(writer: NodeWriter, node: onnx.NodeProto, key: str, number: int) -> None:
    if node.op_type.endswith("Like"):
        shape = writer.node("Shape", [node.input[0]])
    else:
        shape = writer.constant(attribute(node, "shape"), np.int64)
    size = writer.node("ReduceProd", [shape], keepdims=0)
    places = writer.node("Range", [writer.constant(0, np.int64), size, writer.constant(1, np.int64)])
    own = writer.node("Add", [key, writer.constant(number * _KEYS[2] + 1, np.int64)])
    first = _uniform(writer, own, places, _ROUND_KEYS[0])
    if node.op_type in _NORMAL:
        second = _uniform(writer, own, places, _ROUND_KEYS[1])
        radius = writer.node(
            "Sqrt", [writer.node("Mul", [writer.node("Log", [first]), writer.constant(-2, np.float32)])]
        )
        angle = writer.node("Mul", [second, writer.constant(2 * math.pi, np.float32)])
        drawn = writer.node("Mul", [radius, writer.node("Cos", [angle])])
        scale, shift = attribute(node, "scale", 1.0), attribute(node, "mean", 0.0)
    else:
        drawn = first
        shift = attribute(node, "low", 0.0)
        scale = attribute(node, "high", 1.0) - shift
    drawn = writer.node("Mul", [drawn, writer.constant(scale, np.float32)])
    drawn = writer.node("Add", [drawn, writer.constant(shift, np.float32)])
    drawn = writer.node("Reshape", [drawn, shape])
    writer.node("Cast", [drawn], output=node.output[0], to=attribute(node, "dtype", TensorProto.FLOAT))


def without_random_nodes(
    nodes: Sequence[onnx.NodeProto], key: str, prefix: str
) -> tuple[list[onnx.NodeProto], list[TensorProto]]:
    """The nodes with random ones replaced, and the constants that these need.

    Args:
        nodes: of a graph, in its order.
        key: INT64 [1], see :func:`noise_key`.
        prefix: for new names.

    Raises:
        ConversionRefused: a random node of another kind, or inside a loop or branch.
    """
    replaced: list[onnx.NodeProto] = []
    constants: list[TensorProto] = []
    number = 0
    for node in nodes:
        if node.op_type in _OTHERS:
            raise ConversionRefused(
                f"the graph draws random numbers with {node.op_type} ({node.name}); export it without"
            )
        for entry in node.attribute:
            if entry.type == onnx.AttributeProto.GRAPH and any(
                inner.op_type in _NORMAL | _UNIFORM | _OTHERS for inner in entry.g.node
            ):
                raise ConversionRefused(
                    f"the graph draws random numbers inside {node.op_type} {node.name!r}, where they cannot be seeded; "
                    "export it with that loop or branch unrolled"
                )
        if node.op_type in _NORMAL | _UNIFORM:
            writer = NodeWriter(f"{prefix}noise_{number}_")
            _replacement(writer, node, key, number)
            replaced += writer.nodes
            constants += writer.constants
            number += 1
        else:
            replaced.append(node)
    return replaced, constants
