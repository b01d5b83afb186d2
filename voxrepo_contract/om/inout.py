"""The partition that describes inputs, outputs and gears (``MODEL_INOUT_INFO``).

A sequence of blocks {u32 type, u32 length, content}. Files built by old CANN versions do not have it.
"""

from __future__ import annotations

from dataclasses import dataclass

from voxrepo_contract.om.model import OmTensor, Partition
from voxrepo_contract.om.numbering import acl_dtype_name, format_name
from voxrepo_contract.om.source import Cursor, Source, printable

INPUTS, OUTPUTS, BATCH_GEARS, IMAGE_GEARS, DIMS_GEARS, OUTPUT_SHAPES, SHAPE_ORDER = range(7)

_WHAT = "description of inputs and outputs"
_TENSOR_HEAD_BYTES = 32
_MAX_RANK = 128
"""AscendCL's own limit for the dims of a tensor."""

_MAX_NAME_BYTES = 4096
_MAX_GEARS = 4096


@dataclass(frozen=True)
class InOut:
    """What the partition, or for older files the graph, says.

    Attributes:
        inputs: including the hidden gear input.
        outputs: all outputs.
        batch_gears: batch sizes.
        image_gears: height and width of each gear.
        dims_gears: values of the varying dims of each gear, in ``shape_order``.
        shape_order: names of the inputs.
        output_shapes: texts of CANN's own, per gear.
    """

    inputs: tuple[OmTensor, ...] = ()
    outputs: tuple[OmTensor, ...] = ()
    batch_gears: tuple[int, ...] = ()
    image_gears: tuple[tuple[int, ...], ...] = ()
    dims_gears: tuple[tuple[int, ...], ...] = ()
    shape_order: tuple[str, ...] = ()
    output_shapes: tuple[str, ...] = ()


def read_inout(source: Source, partition: Partition) -> InOut:
    """Read the partition.

    Raises:
        ConfigError: a length or count in it does not fit.
    """
    found: dict[int, Cursor] = {}
    at, end = partition.offset, partition.offset + partition.size_bytes
    while at < end:
        source.step(at)
        block = Cursor(source, at, min(8, end - at), _WHAT)
        kind, size_bytes = block.u32("block type"), block.u32("block length")
        at = block.offset
        if size_bytes > end - at:
            source.refuse(f"{_WHAT}: block {kind} is {size_bytes} bytes long, {end - at} are left; damaged", at - 4)
        if kind in found:
            source.refuse(f"{_WHAT}: block {kind} stands there twice; the file is damaged", at - 8)
        # a newer CANN may add blocks
        if kind <= SHAPE_ORDER:
            found[kind] = Cursor(source, at, size_bytes, _WHAT)
        at += size_bytes
    return InOut(
        inputs=_tensors(source, found.get(INPUTS), "inputs"),
        outputs=_tensors(source, found.get(OUTPUTS), "outputs"),
        batch_gears=_numbers(found.get(BATCH_GEARS)),
        image_gears=_number_lists(found.get(IMAGE_GEARS)),
        dims_gears=_number_lists(found.get(DIMS_GEARS)),
        shape_order=_texts(found.get(SHAPE_ORDER)),
        output_shapes=_texts(found.get(OUTPUT_SHAPES)),
    )


def _tensors(source: Source, cursor: Cursor | None, what: str) -> tuple[OmTensor, ...]:
    if cursor is None:
        return ()
    tensors = []
    for _ in range(cursor.count(_TENSOR_HEAD_BYTES, f"number of {what}")):
        size_bytes = cursor.u64("size")
        layout, dtype = cursor.i32("format"), cursor.i32("data type")
        lengths = [cursor.u32(f"length of {name}") for name in ("the name", "dims", "dims (v2)", "ranges")]
        name_bytes, dims_bytes, dims_v2_bytes, range_bytes = lengths
        if name_bytes > _MAX_NAME_BYTES:
            cursor.refuse(f"a name of {name_bytes} bytes; the file is damaged")
        if dims_bytes % 8 or dims_v2_bytes % 8 or range_bytes % 16 or max(lengths[1:3]) > 8 * _MAX_RANK:
            cursor.refuse(f"{dims_bytes}, {dims_v2_bytes} and {range_bytes} bytes of dims and ranges; damaged")
        name = printable(cursor.take(name_bytes, "name"))
        dims = cursor.i64s(dims_bytes // 8, "dims")
        cursor.i64s(dims_v2_bytes // 8, "dims (v2)")
        bounds = cursor.i64s(range_bytes // 8, "ranges")
        if any(dim < -2 for dim in dims):
            cursor.refuse(f"{name!r} has the dims {list(dims)}; the file is damaged")
        tensors.append(
            OmTensor(
                name=name,
                dtype=acl_dtype_name(dtype),
                dims=dims,
                format=format_name(layout),
                size_bytes=size_bytes,
                ranges=tuple(zip(bounds[::2], bounds[1::2], strict=False)),
            )
        )
    return tuple(tensors)


def _numbers(cursor: Cursor | None) -> tuple[int, ...]:
    return () if cursor is None else cursor.i64s(_gear_count(cursor, 8), "gears")


def _gear_count(cursor: Cursor, item_bytes: int) -> int:
    count = cursor.count(item_bytes, "number of gears")
    if count > _MAX_GEARS:
        cursor.refuse(f"{count} gears; no tool builds that many, the file is damaged")
    return count


def _number_lists(cursor: Cursor | None) -> tuple[tuple[int, ...], ...]:
    if cursor is None:
        return ()
    lengths = [cursor.u32("length of a gear") for _ in range(_gear_count(cursor, 4))]
    return tuple(cursor.i64s(length, "gear") for length in lengths)


def _texts(cursor: Cursor | None) -> tuple[str, ...]:
    if cursor is None:
        return ()
    lengths = [cursor.u32("length of a text") for _ in range(cursor.count(4, "number of texts"))]
    return tuple(printable(cursor.take(length, "text")) for length in lengths)
