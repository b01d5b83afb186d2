"""Reading the ATC command that an OM file was made with, which CANN stores in the file."""

from __future__ import annotations

import re
from collections.abc import Mapping

DEFAULT_PRECISION = "fp16"
"""ATC computes everything in FP16 unless told otherwise."""

_OLD_PRECISIONS = {
    "force_fp16": "fp16",
    "must_keep_origin_dtype": "origin",
    "force_fp32": "cube_fp16in_fp32out",
    "allow_mix_precision": "mixed_float16",
    "allow_mix_precision_fp16": "mixed_float16",
    "allow_mix_precision_bf16": "mixed_bfloat16",
}
_OPTION = re.compile(r"(?:^|\s)--([A-Za-z][A-Za-z0-9_]*)")
"""Quotes are lost in the stored text, so a value reaches up to the next option."""


def options_of(command: str) -> dict[str, str]:
    """Options of a command line; ``--name=value`` and ``--name value`` alike, the last one counts."""
    found = {}
    matches = list(_OPTION.finditer(command))
    for match, following in zip(matches, [*matches[1:], None], strict=False):
        value = command[match.end() : following.start() if following else len(command)]
        found[match.group(1)] = value.strip().removeprefix("=").strip().strip("\"'")
    return found


def precision_of(options: Mapping[str, str]) -> tuple[str, bool]:
    """Precision mode in the newer vocabulary, and whether it is only ATC's default; ("", False) without options."""
    if not options:
        return "", False
    new = options.get("precision_mode_v2", "")
    if new:
        return new, False
    old = options.get("precision_mode", "")
    if old:
        return _OLD_PRECISIONS.get(old, old), False
    return DEFAULT_PRECISION, True


def virtual_type_of(options: Mapping[str, str]) -> bool | None:
    """Whether built for slices of a chip; None without options."""
    return options.get("virtual_type", "0") == "1" if options else None
