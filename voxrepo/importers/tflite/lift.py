"""Lifting a model to an ONNX graph of sequences.

Every sequence is [batch, channels, length] there. Since the model is understood operator by operator as something that
happens to sequences, nothing of the file's arithmetic on shapes is left, the batch axis is free, and at fixed sizes
all shapes are known. Dense layers become convolutions of kernel 1, and the detours by which the files express dilated
convolutions become those.

With a mask, the data of every convolution that looks at neighbours is multiplied by it first, so that padding behind a
sequence is what a true end is: zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.importers.tflite import attention, convolutions
from voxrepo.importers.tflite.model import Operator, TfliteModel
from voxrepo.importers.tflite.observed import Observed
from voxrepo.importers.tflite.writer import Value, Writer
from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]

MASKED_SCORE = -1e4
"""Added to attention scores of padding. The files' -1e9 is not a number of half precision; this one is, and e to the
power of either is 0."""

_RELU = 1
_PASSING = frozenset({"CAST", "DEQUANTIZE", "EXPAND_DIMS", "IDENTITY", "RESHAPE", "SQUEEZE", "STRIDED_SLICE"})
_BINARY = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul"}
_UNARY = {"EXP": "Exp", "LOG": "Log", "TANH": "Tanh", "ROUND": "Round"}


class Lifter(Writer):
    """Writes the part of a model between given tensors as ONNX nodes.

    Args:
        model: without chance and without rounding, see ``simplify``.
        observed: of the model.
        given: tensors that the lifted graph is given, by number.
        ids: number of the tensor of ids, if the part begins with an embedding, and its name in the lifted graph.
        mask: name of the mask [batch, 1, length], where there is one.
        length_of: name of a tensor of the lifted graph and its axis from which the length is read.
        extended: makes a position table longer than the file's.
    """

    def __init__(
        self,
        model: TfliteModel,
        observed: Observed,
        given: Mapping[int, Value],
        *,
        ids: tuple[int, str] | None = None,
        mask: str | None = None,
        length_of: tuple[str, int] | None = None,
        extended: Callable[[Array], Array] = lambda table: table,
    ) -> None:
        super().__init__()
        self.model = model
        self.observed = observed
        self.values: dict[int, Value] = dict(given)
        self.producers = model.producers()
        self.ids = ids
        self.length_of = length_of
        self.extended = extended
        self._mask = mask
        self._masked: dict[str, str] = {}

    def lift(self, tensor: int) -> Value:
        """The value of a tensor of the model, with all nodes that it needs.

        Raises:
            ConversionRefused: it is not computed by what a sequence model is made of.
        """
        # without recursion: a graph is deeper than Python's stack
        stack = [tensor]
        while stack:
            number = stack[-1]
            if number in self.values:
                stack.pop()
                continue
            operator = self.producers.get(number)
            if operator is None:
                raise self.refused(number, "is an input that is not a sequence")
            missing = [n for n in self._needs(operator) if n not in self.values]
            if missing:
                stack += missing
                continue
            self.values[number] = self._rule(operator)
            stack.pop()
        return self.values[tensor]

    def refused(self, tensor: int, why: str) -> ConversionRefused:
        """An error that names a tensor and its shape in the first run."""
        shape = list(self.observed.first[tensor].shape)
        return ConversionRefused(f"the tensor {self.model.tensors[tensor].name!r} {shape} {why}")

    def _needs(self, operator: Operator) -> list[int]:
        """The inputs of an operator that must be lifted first, in order."""
        kind = operator.kind
        if kind in _PASSING or kind in _UNARY or kind in {"CONV_2D", "FULLY_CONNECTED", "LEAKY_RELU", "MEAN"}:
            source = self._softplus(operator)
            return [operator.inputs[0] if source is None else source]
        if kind in _BINARY or kind in {"BATCH_MATMUL", "SQUARED_DIFFERENCE"}:
            return [number for number in operator.inputs if self.observed.constant(number) is None]
        if kind == "TRANSPOSE_CONV":
            return [operator.inputs[2]]
        if kind == "BATCH_TO_SPACE_ND":
            return [convolutions.detour(self, operator)[0].inputs[0]]
        if kind == "GATHER":
            return []
        if kind in _RULES:
            return [operator.inputs[0]]
        raise self.refused(operator.output, f"is made by {kind}, which sequence models do not have here")

    def _rule(self, operator: Operator) -> Value:
        if operator.kind in _PASSING:
            return self._pass(operator)
        if operator.kind in _BINARY:
            return self._binary(operator)
        if operator.kind in _UNARY:
            source = self._softplus(operator)
            value = self.values[operator.inputs[0] if source is None else source]
            op_type = _UNARY[operator.kind] if source is None else "Softplus"
            return Value(self.node(op_type, [value.name]), value.kind, value.channels)
        return _RULES[operator.kind](self, operator)

    def sequence(self, tensor: int) -> Value:
        """The value of a tensor that must be a sequence."""
        value = self.values[tensor]
        if value.kind != "sequence":
            raise self.refused(tensor, f"is used as a sequence, but is {value.kind}")
        return value

    def _pass(self, operator: Operator) -> Value:
        """Operators that only write a sequence in another shape or type."""
        source = self.values[operator.inputs[0]]
        channels = self.observed.channels(operator.output)
        length = [np.prod(self.observed.first[n].shape) for n in (operator.inputs[0], operator.output)]
        if source.kind != "sequence" or channels != source.channels or length[0] != length[1]:
            raise self.refused(operator.output, f"({operator.kind}) takes {source.kind} apart")
        return source

    def _softplus(self, operator: Operator) -> int | None:
        """The tensor x where the operator is log(exp(x) + 1)."""
        if operator.kind != "LOG":
            return None
        added = self.producers.get(operator.inputs[0])
        if added is None or added.kind != "ADD":
            return None
        one = self.observed.constant(added.inputs[1])
        raised = self.producers.get(added.inputs[0])
        if raised is None or raised.kind != "EXP" or one is None or one.size != 1 or one.item() != 1:
            return None
        return raised.inputs[0]

    def _binary(self, operator: Operator) -> Value:
        constants = [self.observed.constant(number) for number in operator.inputs]
        values = [self.values.get(number) for number in operator.inputs]
        if operator.kind == "MUL":
            for at in (0, 1):
                constant, other = constants[at], values[1 - at]
                if constant is not None and constant.size == 1 and constant.item() == 1 and other is not None:
                    return other
        lead = next((v for v in values if v is not None and v.kind != "sequence"), None) or max(
            (v for v in values if v is not None), key=lambda v: v.channels
        )
        if lead.kind == "sequence":
            lead = Value(lead.name, lead.kind, self.observed.channels(operator.output) or 0)
        names = [
            self._operand(operator, number, constant, value, lead)
            for number, constant, value in zip(operator.inputs, constants, values, strict=True)
        ]
        made = self.node(_BINARY[operator.kind], names)
        return Value(self.activated(operator, made), lead.kind, lead.channels)

    def _operand(
        self, operator: Operator, number: int, constant: Array | None, value: Value | None, lead: Value
    ) -> str:
        """An operand written so that it spreads over ``lead`` as the file means it."""
        if constant is None:
            assert value is not None
            if value.kind == lead.kind:
                if value.kind == "sequence" and value.channels not in (1, lead.channels):
                    raise self.refused(number, f"has {value.channels} channels where {lead.channels} are expected")
                return value.name
            if lead.kind == "scores" and value.kind == "sequence" and value.channels == 1:
                return self.node("Unsqueeze", [value.name, self.constant([1], np.int64)])
            raise self.refused(number, f"({value.kind}) does not go with {lead.kind} in {operator.kind}")
        if constant.size == 1:
            real = float(constant.item())
            return self.constant(max(real, MASKED_SCORE) if operator.kind == "MUL" else real)
        if lead.kind != "sequence" or constant.shape[-1] != constant.size or constant.size != lead.channels:
            raise self.refused(number, f"is a constant that does not spread over {lead.channels} channels")
        return self.constant(constant.reshape(1, -1, 1))

    def activated(self, operator: Operator, name: str) -> str:
        """The output of a node behind the operator's fused activation."""
        activation = operator.options.get("FusedActivationFunction", 0)
        if activation == 0:
            return name
        if activation != _RELU:
            raise self.refused(operator.output, f"has the fused activation {activation}; none or ReLU is supported")
        return self.node("Relu", [name])

    def _squared_difference(self, operator: Operator) -> Value:
        a, b = (self.sequence(number) for number in operator.inputs)
        difference = self.node("Sub", [a.name, b.name])
        return Value(self.node("Mul", [difference, difference]), "sequence", max(a.channels, b.channels))

    def _mean(self, operator: Operator) -> Value:
        source = self.sequence(operator.inputs[0])
        if self.observed.channels(operator.output) != 1 or not operator.options.get("KeepDims"):
            raise self.refused(operator.output, "is a mean over something else than all channels")
        return Value(self.node("ReduceMean", [source.name], axes=[1], keepdims=1), "sequence", 1)

    def _rsqrt(self, operator: Operator) -> Value:
        source = self.sequence(operator.inputs[0])
        root = self.node("Sqrt", [source.name])
        return Value(self.node("Reciprocal", [root]), "sequence", source.channels)

    def _leaky_relu(self, operator: Operator) -> Value:
        source = self.sequence(operator.inputs[0])
        alpha = float(operator.options["Alpha"])
        return Value(self.node("LeakyRelu", [source.name], alpha=alpha), "sequence", source.channels)

    def behind_mask(self, name: str) -> str:
        """A sequence times the mask, if there is one."""
        if self._mask is None:
            return name
        if name not in self._masked:
            self._masked[name] = self.node("Mul", [name, self._mask])
        return self._masked[name]

    def weights(self, tensor: int) -> Array:
        """The value of a constant, dequantised."""
        weights = self.model.real(tensor)
        if weights is None:
            raise self.refused(tensor, "is used as weights, but is computed")
        return weights


_RULES: dict[str, Callable[[Lifter, Operator], Value]] = {
    "BATCH_MATMUL": attention.batch_matmul,
    "BATCH_TO_SPACE_ND": convolutions.dilated,
    "CONV_2D": convolutions.conv,
    "FULLY_CONNECTED": convolutions.dense,
    "GATHER": attention.gather,
    "LEAKY_RELU": Lifter._leaky_relu,
    "MEAN": Lifter._mean,
    "MIRROR_PAD": convolutions.pad,
    "PAD": convolutions.pad,
    "RSQRT": Lifter._rsqrt,
    "SOFTMAX": attention.softmax,
    "SQUARED_DIFFERENCE": Lifter._squared_difference,
    "TRANSPOSE": attention.transpose,
    "TRANSPOSE_CONV": convolutions.transpose_conv,
}
