"""ATC's own notation for shapes and gears, parsed. Pure."""

from __future__ import annotations

import re

from voxrepo.convert.refusal import (
    BAD_VALUE,
    GEAR_NOT_POSITIVE,
    GEAR_TWICE,
    GEARS_UNEVEN,
    SYNTAX,
    TOO_FEW_GEARS,
    TOO_MANY_GEARS,
    AtcRefusal,
)
from voxrepo_contract.emulated_om import MAX_GEARS, MIN_GEARS

VARIES = -1
"""A size that gears fill in, or one without an upper bound in a graph with ranges."""

MAX_SIZE = 2**31 - 1

Range = tuple[int, int]
Dim = int | Range
"""A size, ``VARIES``, or the lowest and highest size."""
Shapes = dict[str, tuple[Dim, ...]]

_NUMBER = re.compile(r"[0-9]{1,10}")
_RANGE = re.compile(r"([0-9]{1,10})~([0-9]{1,10})")


def parse_input_shape(text: str, flag: str = "--input-shape") -> Shapes:
    """Parse ``name:1,-1,80;name2:1~8,1~512;scalar:``.

    A name may hold colons; the last one separates it from its shape.

    Returns:
        Shape by input name, in the order of the text.

    Raises:
        AtcRefusal: the syntax is wrong, or a name stands twice.
    """
    shapes: Shapes = {}
    for part in text.split(";"):
        name, colon, sizes = part.strip().rpartition(":")
        if not colon or not name:
            raise AtcRefusal(
                SYNTAX,
                f"{flag} {text!r}: {part!r} is not name:size,size; write for instance "
                '"x:1,80;m:1" and quote it, since ; ends a shell command',
            )
        if name in shapes:
            raise AtcRefusal(SYNTAX, f"{flag} {text!r}: the input {name!r} stands twice; name it once")
        inner = sizes.strip()
        if inner.startswith("[") and inner.endswith("]"):
            inner = inner[1:-1]  # the old --input_shape_range puts shapes in brackets
        shapes[name] = tuple(_dim(size.strip(), name, flag) for size in inner.split(",")) if inner else ()
    return shapes


def _dim(text: str, name: str, flag: str) -> Dim:
    if text == "-1":
        return VARIES
    if _NUMBER.fullmatch(text) and 0 < int(text) <= MAX_SIZE:
        return int(text)
    pair = _RANGE.fullmatch(text)
    if pair is None:
        raise AtcRefusal(
            SYNTAX,
            f"{flag}: {text!r} in the shape of {name!r} is not a size; use a whole number from 1 up, -1, "
            "or a range such as 1~512",
        )
    low, high = int(pair[1]), int(pair[2])
    if not 0 < low <= high <= MAX_SIZE:
        raise AtcRefusal(SYNTAX, f"{flag}: the range {text} of {name!r} must go from 1 or more up to no less than that")
    return low, high


def parse_batches(text: str) -> tuple[int, ...]:
    """Parse ``1,2,4,8`` of ``--dynamic-batch``.

    Raises:
        AtcRefusal: not whole numbers from 1 up, one stands twice, or fewer than 2 or more than 100.
    """
    flag = "--dynamic-batch"
    batches = tuple(_gear_size(size, flag) for size in text.split(","))
    _check_gears(batches, flag)
    return batches


def parse_dims_gears(text: str) -> tuple[tuple[int, ...], ...]:
    """Parse ``64,64;128,128`` of ``--dynamic-dims``: the sizes of all -1 of ``--input-shape``, in its order.

    Raises:
        AtcRefusal: not whole numbers from 1 up, gears of unequal length, or a wrong number of gears.
    """
    flag = "--dynamic-dims"
    gears = tuple(tuple(_gear_size(size, flag) for size in gear.split(",")) for gear in text.split(";"))
    uneven = next((gear for gear in gears if len(gear) != len(gears[0])), None)
    if uneven is not None:
        raise AtcRefusal(
            GEARS_UNEVEN, f"{flag}: the gear {_joined(gears[0])} has {len(gears[0])} sizes and {_joined(uneven)} "
            f"has {len(uneven)}; every gear needs one size for each -1 of --input-shape"
        )  # fmt: skip
    _check_gears(gears, flag)
    return gears


def _joined(gear: tuple[int, ...]) -> str:
    return ",".join(map(str, gear))


def _gear_size(text: str, flag: str) -> int:
    stripped = text.strip()
    if not re.fullmatch(r"-?[0-9]{1,10}", stripped):
        raise AtcRefusal(BAD_VALUE, f"{flag}: {text!r} is not a whole number")
    size = int(stripped)
    if not 0 < size <= MAX_SIZE:
        raise AtcRefusal(GEAR_NOT_POSITIVE, f"{flag}: {size} cannot be a size; sizes are from 1 to {MAX_SIZE}")
    return size


def _check_gears(gears: tuple[int, ...] | tuple[tuple[int, ...], ...], flag: str) -> None:
    if len(gears) < MIN_GEARS:
        raise AtcRefusal(
            TOO_FEW_GEARS,
            f"{flag} names {len(gears)} gear; at least {MIN_GEARS} are needed, for a single size write it "
            "into --input-shape",
        )
    if len(gears) > MAX_GEARS:
        raise AtcRefusal(TOO_MANY_GEARS, f"{flag} names {len(gears)} gears; at most {MAX_GEARS} are allowed")
    if len(set(gears)) != len(gears):
        raise AtcRefusal(GEAR_TWICE, f"{flag} names a gear twice; every gear may stand once")
