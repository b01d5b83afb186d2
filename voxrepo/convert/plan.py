"""How the shapes of a graph are to be: one fixed shape, gears, or ranges. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from voxrepo.convert.input_shape import (
    VARIES,
    Shapes,
    parse_batches,
    parse_dims_gears,
    parse_input_shape,
)
from voxrepo.convert.refusal import (
    BAD_VALUE,
    BATCH_GEARS_ELSEWHERE,
    DYNAMIC_FLAGS_CLASH,
    FLAGS_EXCLUDE,
    GEAR_TOO_SHORT,
    GEAR_UNLIKE,
    NO_GEARS,
    NOT_IN_GRAPH,
    NOTHING_TO_FILL,
    RANK,
    AtcRefusal,
)
from voxrepo_contract.emulated_om import BATCH_GEARS, DIMS_GEARS, RANGE, STATIC

MAX_INPUT_ELEMENTS = 2**28
"""A gigabyte of FP32 in one input; more is a slip, and checking shapes there could take all memory."""

JointDims = dict[str, tuple[int, ...]]
"""Dims of every input by name."""


@dataclass(frozen=True)
class GraphInput:
    """An input as the ONNX file has it.

    Attributes:
        name: its name.
        dtype: Open Inference Protocol name.
        dims: sizes; ``None`` where it varies.
    """

    name: str
    dtype: str
    dims: tuple[int | None, ...]


@dataclass(frozen=True)
class ShapeFlags:
    """The flags that decide about shapes, as given; ``None`` where not given."""

    input_shape: str | None = None
    input_shape_range: str | None = None
    dynamic_batch: str | None = None
    dynamic_dims: str | None = None
    input_format: str = "ND"


@dataclass(frozen=True)
class ShapePlan:
    """What the compiled graph will take.

    Attributes:
        kind: ``static``, ``batch_gears``, ``dims_gears`` or ``range``.
        dims: dims of every input, -1 where they vary.
        ranges: for ``range``, lowest and highest size of each axis of every input, highest -1 if unbounded.
        gears: for gear kinds, each gear.
        input_order: names in the order in which a gear's dims are joined.
    """

    kind: str
    dims: Mapping[str, tuple[int, ...]]
    ranges: Mapping[str, tuple[tuple[int, int], ...]]
    gears: tuple[JointDims, ...]
    input_order: tuple[str, ...]

    def probes(self) -> list[JointDims]:
        """Sizes at which the graph's shapes must be looked at: every gear; for ranges the ends that exist."""
        if self.kind == RANGE:
            low = {name: tuple(low for low, _ in axes) for name, axes in self.ranges.items()}
            high = {
                name: tuple(low + 1 if high == VARIES else high for low, high in axes)
                for name, axes in self.ranges.items()
            }
            return [low] if low == high else [low, high]
        return list(self.gears) or [dict(self.dims)]


def plan_shapes(inputs: Sequence[GraphInput], flags: ShapeFlags) -> ShapePlan:
    """Check the flags against the graph and each other, as ATC does.

    Raises:
        AtcRefusal: with ATC's code.
    """
    plan = _plan(inputs, flags)
    for sizes in plan.probes():
        for name, dims in sizes.items():
            if math.prod(dims) > MAX_INPUT_ELEMENTS:
                raise AtcRefusal(
                    BAD_VALUE,
                    f"the input {name!r} would have {math.prod(dims)} elements at {list(dims)}; "
                    f"{MAX_INPUT_ELEMENTS} are allowed, give smaller sizes",
                )
    return plan


def _plan(inputs: Sequence[GraphInput], flags: ShapeFlags) -> ShapePlan:
    _check_flags(flags)
    given = _given_shapes(inputs, flags)
    shapes: Shapes = {e.name: given[e.name] if e.name in given else _own_shape(e, flags) for e in inputs}
    order = (*given, *(entry.name for entry in inputs if entry.name not in given))
    placeholders = [(name, axis) for name in order for axis, dim in enumerate(shapes[name]) if dim == VARIES]
    ranged = any(isinstance(dim, tuple) for shape in shapes.values() for dim in shape)
    if flags.dynamic_batch is not None or flags.dynamic_dims is not None:
        if ranged:
            raise AtcRefusal(
                NOTHING_TO_FILL, "--input-shape has ranges (~) and there are gears too; keep the ranges or the gears"
            )
        if not placeholders:
            raise AtcRefusal(
                NOTHING_TO_FILL,
                "gears are given, but --input-shape has no -1 for them to fill; write -1 where sizes vary",
            )
        return _geared(shapes, order, placeholders, flags)
    if ranged or flags.input_shape_range is not None:
        ranges = {name: tuple(_as_range(dim) for dim in shape) for name, shape in shapes.items()}
        dims = {name: tuple(low if low == high else VARIES for low, high in axes) for name, axes in ranges.items()}
        return ShapePlan(RANGE, dims, ranges, (), tuple(order))
    if placeholders:
        name, axis = placeholders[0]
        raise AtcRefusal(
            NO_GEARS,
            f"the input {name!r} has -1 at axis {axis}, but no gears are given; add --dynamic-batch (batch only) or "
            "--dynamic-dims, or write a range such as 1~512",
        )
    fixed = {name: tuple(dim for dim in shape if isinstance(dim, int)) for name, shape in shapes.items()}
    return ShapePlan(STATIC, fixed, {}, (), tuple(order))


def gear_plan(dims: Mapping[str, Sequence[int | str]], gears: Sequence[Mapping[str, int]]) -> ShapePlan:
    """The plan of a stage's graph, whose varying axes have names.

    Args:
        dims: of every input in the graph's order, sizes or names of axes.
        gears: a size for every axis name, at least one; a single gear makes a graph of fixed shape.
    """
    joined: list[JointDims] = [
        {name: tuple(dim if isinstance(dim, int) else gear[dim] for dim in shape) for name, shape in dims.items()}
        for gear in gears
    ]
    declared = {name: tuple(dim if isinstance(dim, int) else VARIES for dim in shape) for name, shape in dims.items()}
    if len(joined) == 1:
        return ShapePlan(STATIC, joined[0], {}, (), tuple(dims))
    only_batch = all(dim != VARIES for shape in declared.values() for dim in shape[1:])
    return ShapePlan(BATCH_GEARS if only_batch else DIMS_GEARS, declared, {}, tuple(joined), tuple(dims))


def _check_flags(flags: ShapeFlags) -> None:
    if flags.dynamic_batch is not None and flags.dynamic_dims is not None:
        raise AtcRefusal(
            DYNAMIC_FLAGS_CLASH, "--dynamic-batch and --dynamic-dims exclude each other; keep one, dims include batches"
        )
    if flags.input_shape is not None and flags.input_shape_range is not None:
        raise AtcRefusal(FLAGS_EXCLUDE, "--input-shape and --input-shape-range exclude each other; keep --input-shape")
    if flags.input_shape_range is not None and (flags.dynamic_batch is not None or flags.dynamic_dims is not None):
        raise AtcRefusal(DYNAMIC_FLAGS_CLASH, "--input-shape-range and gears exclude each other; keep one")
    if flags.dynamic_dims is not None and flags.input_shape is None:
        raise AtcRefusal(
            FLAGS_EXCLUDE, '--dynamic-dims needs --input-shape with -1 where sizes vary, such as "x:1,-1;m:1,-1"'
        )
    if flags.dynamic_dims is not None and flags.input_format != "ND":
        raise AtcRefusal(
            FLAGS_EXCLUDE, f"--input-format {flags.input_format} and --dynamic-dims exclude each other; use ND"
        )
    if flags.input_format != "ND":
        raise AtcRefusal(BAD_VALUE, f"--input-format {flags.input_format!r} is not made here; use ND, which all take")


def _given_shapes(inputs: Sequence[GraphInput], flags: ShapeFlags) -> Shapes:
    if flags.input_shape is not None:
        given = parse_input_shape(flags.input_shape)
    elif flags.input_shape_range is not None:
        given = parse_input_shape(flags.input_shape_range, "--input-shape-range")
    else:
        return {}
    known = {entry.name: entry for entry in inputs}
    for name, shape in given.items():
        if name not in known:
            raise AtcRefusal(
                NOT_IN_GRAPH, f"the graph has no input {name!r}; its inputs are {', '.join(map(repr, known))}"
            )
        own = known[name].dims
        if len(shape) != len(own):
            raise AtcRefusal(
                RANK, f"the input {name!r} has {len(own)} axes in the graph ({_shown(own)}) and {len(shape)} in "
                "--input-shape; give a size for each"
            )  # fmt: skip
        for axis, (dim, fixed) in enumerate(zip(shape, own, strict=True)):
            if fixed is not None and dim != fixed:
                raise AtcRefusal(
                    BAD_VALUE,
                    f"the input {name!r} has the fixed size {fixed} at axis {axis} of the graph; "
                    "--input-shape cannot change it, export the graph with that axis free",
                )
    return given


def _own_shape(entry: GraphInput, flags: ShapeFlags) -> tuple[int, ...]:
    """The shape of an input that no flag names."""
    if flags.dynamic_batch is not None and flags.input_shape is None:
        return tuple(VARIES if dim is None else dim for dim in entry.dims)
    if None in entry.dims:
        raise AtcRefusal(
            NO_GEARS,
            f"the input {entry.name!r} has sizes that vary ({_shown(entry.dims)}) and --input-shape does not name it; "
            "name every such input, with sizes, -1 and gears, or ranges",
        )
    return tuple(dim for dim in entry.dims if dim is not None)


def _shown(dims: Sequence[int | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in dims) + "]"


def _as_range(dim: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(dim, tuple):
        return dim
    return (1, VARIES) if dim == VARIES else (dim, dim)


def _geared(
    shapes: Shapes, order: Sequence[str], placeholders: Sequence[tuple[str, int]], flags: ShapeFlags
) -> ShapePlan:
    if flags.dynamic_batch is not None:
        elsewhere = next(((name, axis) for name, axis in placeholders if axis != 0), None)
        if elsewhere is not None:
            raise AtcRefusal(
                BATCH_GEARS_ELSEWHERE,
                f"--dynamic-batch varies the first axis only, and {elsewhere[0]!r} has -1 at axis {elsewhere[1]}; "
                "use --dynamic-dims",
            )
        fills = [(batch,) * len(placeholders) for batch in parse_batches(flags.dynamic_batch)]
        kind = BATCH_GEARS
    else:
        assert flags.dynamic_dims is not None
        fills = list(parse_dims_gears(flags.dynamic_dims))
        kind = DIMS_GEARS
        if len(fills[0]) != len(placeholders):
            raise AtcRefusal(
                GEAR_TOO_SHORT if len(placeholders) > len(fills[0]) else GEAR_UNLIKE,
                f"--dynamic-dims has {len(fills[0])} sizes per gear and --input-shape has {len(placeholders)} -1; "
                "they are filled in its order, one size for each",
            )
    dims = {name: tuple(dim for dim in shape if isinstance(dim, int)) for name, shape in shapes.items()}
    gears: list[JointDims] = []
    for fill in fills:
        sizes = iter(fill)
        gears.append({name: tuple(next(sizes) if dim == VARIES else dim for dim in dims[name]) for name in order})
    return ShapePlan(kind, dims, {}, tuple(gears), tuple(order))
