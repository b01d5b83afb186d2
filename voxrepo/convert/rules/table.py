"""The table of rules."""

from __future__ import annotations

from voxrepo.convert.rules import control_flow, einsum, indexing, integers, normalisations, plain, signals
from voxrepo.convert.rules.rule import Rule

_LIST = "not in the public list of ONNX operators that ATC reads (CANN commercial 5.0.4)"
_NO_PARSER = "ATC stops with E19010: no parser for it"
_PRACTICE = "seen in public conversions of speech models; speed on hardware not measured by us"

RULES: tuple[Rule, ...] = (
    Rule(
        "identity", ("Identity", "Dropout"), "nothing",
        "does nothing at inference, and each costs the compiler a node", "definition of the operators", plain.identity,
    ),
    Rule(
        "constant_if", ("If",), "the branch that is taken",
        "graphs inside nodes are not taken with gears", "Ascend's documentation of dynamic_dims",
        control_flow.constant_if,
    ),
    Rule("constant_loop", ("Loop",), "its rounds, written out", _NO_PARSER, _LIST, control_flow.constant_loop),
    Rule(
        "layer_normalization", ("LayerNormalization",), "ReduceMean, Sub, Mul, Sqrt, Div, Add", _NO_PARSER, _LIST,
        normalisations.layer_normalization,
    ),
    Rule(
        "group_normalization", ("GroupNormalization",), "Reshape, InstanceNormalization, Mul, Add", _NO_PARSER, _LIST,
        normalisations.group_normalization,
    ),
    Rule("gelu", ("Gelu",), "Erf or Tanh, Mul, Add", _NO_PARSER, _LIST, plain.gelu),
    Rule("mish", ("Mish",), "Softplus, Tanh, Mul", _NO_PARSER, _LIST, plain.mish),
    Rule("einsum", ("Einsum",), "Transpose, ReduceSum, MatMul, Reshape", _NO_PARSER, _LIST, einsum.einsum),
    Rule("stft", ("STFT",), "Conv with the windowed Fourier basis", _NO_PARSER, _LIST, signals.stft),
    Rule("dft", ("DFT",), "MatMul with the Fourier basis", _NO_PARSER, _LIST, signals.dft),
    Rule("trilu", ("Trilu",), "Where with a constant mask", _NO_PARSER, _LIST, indexing.trilu),
    Rule(
        "conv_transpose", ("ConvTranspose",), "ConvTranspose with plain pads",
        "output_padding and auto_pad are refused or computed otherwise by some releases", _PRACTICE,
        signals.conv_transpose,
    ),
    Rule(
        "reverse_slice", ("Slice",), "Gather with constant indices",
        "a negative step is no strided copy; it is refused or run on the AI CPU", _PRACTICE, indexing.reverse_slice,
    ),
    Rule(
        "cumsum", ("CumSum",), "MatMul with a triangle of ones",
        "a running sum is serial on the vector unit, and in FP16 its error grows along the axis",
        "public reports of phase drift from CumSum in FP16", indexing.cumsum,
    ),
    Rule(
        "constant_scatter", ("ScatterND",), "Concat and Gather with constant indices",
        "scattering runs on the AI CPU; places that are known need none of it", _PRACTICE, indexing.constant_scatter,
    ),
    Rule(
        "nearest_resize", ("Resize",), "Unsqueeze, Tile, Reshape",
        "Resize is made for images; of a sequence [batch, channels, frames] it is refused or run on the AI CPU",
        "a public report of EZ3003 for ResizeD on 310P", signals.nearest_resize,
    ),
    Rule(
        "reflect_pad", ("Pad",), "Slice, Gather, Concat",
        "reflection is not on the vector unit of every chip and release", _PRACTICE, signals.reflect_pad,
    ),
    Rule(
        "one_sided_clip", ("Clip",), "Max or Min",
        "a missing bound reaches ATC as an empty input, which some releases refuse", _PRACTICE, plain.one_sided_clip,
    ),
    Rule(
        "square", ("Pow",), "Mul",
        "the general power is an exponential of a logarithm, slow and inexact in FP16",
        "Ascend's advice to keep Pow in FP32", plain.square,
    ),
)  # fmt: skip
"""Rules that keep the graph's inputs and outputs, in the order in which they are tried."""

INTERFACE_RULES: tuple[Rule, ...] = (
    Rule(
        "random_input", ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        "a new input of the graph",
        "noise drawn on the device cannot be repeated: the same text would sound different each time",
        "definition of the operators: without a seed attribute they draw anew", plain.random_input,
    ),
    Rule(
        "int32_input", ("Gather",), "Gather with INT32 indices",
        "INT64 is emulated by the vector unit, and twice as many bytes are copied", _PRACTICE, integers.int32_input,
    ),
)  # fmt: skip
"""Rules that change the graph's inputs."""
