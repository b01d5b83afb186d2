"""The precisions that a conversion offers."""

from __future__ import annotations

from voxrepo.convert.refusal import BAD_VALUE, AtcRefusal

FP32, FP16, MIXED, INT8 = "fp32", "fp16", "mixed", "int8"
TIERS = (FP32, FP16, MIXED, INT8)
ALIASES = {"origin": FP32}
"""ATC's own name for leaving a graph as it is."""


def parse_precision(text: str) -> str:
    """The tier of that name.

    Raises:
        AtcRefusal: there is none.
    """
    name = ALIASES.get(text, text)
    if name not in TIERS:
        raise AtcRefusal(BAD_VALUE, f"--precision {text!r} is not offered; choose {', '.join(TIERS)}")
    return name
