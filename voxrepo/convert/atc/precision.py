"""Which of ATC's precision modes a precision tier is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from voxrepo.convert.refusal import BAD_VALUE, AtcRefusal
from voxrepo.convert.soc import Soc

TIERS = ("fp32", "fp16", "mixed", "int8")
MODES = ("origin", "fp16", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16")
"""Values of ``--precision_mode_v2`` that may be given in place of a tier; the eight-bit floats are left out."""

_BFLOAT_FAMILIES = frozenset({"ascend910b", "ascend910_93", "ascend310b"})
_FP32_CUBE_FAMILIES = frozenset({"ascend910b", "ascend910_93"})


@dataclass(frozen=True)
class PrecisionMode:
    """How ATC is told a precision.

    Attributes:
        mode: for ``--precision_mode_v2``.
        lowers: whether nodes that are not kept are computed in half precision.
        why: a sentence for whoever reads the command line.
    """

    mode: str
    lowers: bool
    why: str


def precision_mode(precision: str, soc: Soc) -> PrecisionMode:
    """The mode for a tier, or for a mode given by its own name.

    ``fp32`` is ``origin`` where the matrix unit takes FP32 (910B1 to B4, 910_93). On the other chips that unit takes
    half precision only, and ``origin`` would leave such nodes without a kernel, or cast inputs and results; there
    ``cube_fp16in_fp32out`` rounds what goes into matrix products to half precision and keeps sums, and everything
    else, in FP32. ``mixed`` is ATC's ``mixed_float16`` with the kept nodes in FP32: what ATC's own lists keep beyond
    them is only more exact. ``int8`` compiles what AMCT made, where the layers that are not quantised are FP16.

    Raises:
        AtcRefusal: there is no such precision, or the chip does not have it.
    """
    modes: Mapping[str, PrecisionMode] = {
        "fp16": PrecisionMode("fp16", True, "everything in half precision except the kept nodes"),
        "mixed": PrecisionMode("mixed_float16", True, "half precision where ATC's lists allow, FP32 in the kept nodes"),
        "int8": PrecisionMode("fp16", True, "INT8 in the layers that AMCT quantised, half precision elsewhere"),
        "origin": PrecisionMode("origin", False, "every node in the graph's own precision"),
    }
    if precision == "fp32":
        if soc.family in _FP32_CUBE_FAMILIES:
            return PrecisionMode("origin", False, "every node in FP32")
        why = f"the matrix unit of {soc.name} takes half precision only; it adds in FP32, and all else is FP32"
        return PrecisionMode("cube_fp16in_fp32out", False, why)
    if precision in modes:
        return modes[precision]
    if precision not in MODES:
        raise AtcRefusal(
            BAD_VALUE,
            f"--precision {precision!r} is not known; use {', '.join(TIERS)}, or a --precision_mode_v2 of ATC "
            f"({', '.join(MODES)})",
        )
    if precision == "mixed_bfloat16" and soc.family not in _BFLOAT_FAMILIES:
        raise AtcRefusal(BAD_VALUE, f"--precision {precision}: {soc.name} has no bfloat16; use mixed or fp16")
    return PrecisionMode(precision, precision.startswith("mixed"), "as given")
