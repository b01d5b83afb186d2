"""Which gears the graphs of a stage get: as the user says, or proposed from a record of lengths."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from voxrepo.convert.call_cost import NPU_VOCODER, Cost
from voxrepo.convert.gear_planner import plan_gears
from voxrepo.convert.gear_task import GearMemory, GearTask, Windows
from voxrepo.convert.gears import DEVICE_BATCHES, MAX_GEARS, Gear, aligned
from voxrepo.convert.records import LengthRecord
from voxrepo.convert.refusal import TOO_MANY_GEARS, AtcRefusal
from voxrepo_contract import emulated_om
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.stage import GraphSpec
from voxrepo_contract.tensors import SPEED_MIN

BATCH, IDS, FRAMES = "batch", "ids", "frames"
AUTO = "auto"

LIMITS = {"encoder": 4096, "decoder": 8192, "generator": 2048}
"""Largest batch x length. The generator's intermediate results take about 200 kB per frame, 400 MB at its limit; the
others take a twentieth of that, and more rows would only make a short unit wait for a long one."""
WORK_BYTES_PER_UNIT = {"encoder": 10_000, "decoder": 10_000, "generator": 200_000}
"""Intermediate results per row and unit of length, as said above; a compiled graph knows its own."""

_DTYPE_BYTES = {"INT64": 8, "FP32": 4, "INT32": 4, "FP16": 2, "INT16": 2, "INT8": 1, "UINT8": 1, "BOOL": 1}

ONE_ROW_NOTE = (
    "the vocoder reflects at its ends, and where a row ends decides what its whole call copies: its gears have batch "
    "1, whatever --gears says, so windows are run one by one"
)

_LONGEST_MARGIN = 1.15
_LONGEST_STEP = 512


@dataclass(frozen=True)
class GearRequest:
    """What ``--gears`` says: sizes by axis; an axis that is not named is proposed.

    Attributes:
        sizes: by axis name (``batch``, ``ids``, ``frames``).
    """

    sizes: Mapping[str, tuple[int, ...]]


def parse_gears(text: str) -> GearRequest:
    """Parse ``auto`` or ``batch=1,4;frames=32,64,128``.

    Raises:
        InvalidArgument: the syntax is wrong; the text says how it goes.
    """
    if text.strip() == AUTO:
        return GearRequest({})
    sizes: dict[str, tuple[int, ...]] = {}
    for part in text.split(";"):
        axis, equals, values = (piece.strip() for piece in part.partition("="))
        if not equals or axis not in {BATCH, IDS, FRAMES} or axis in sizes:
            raise InvalidArgument(
                f"--gears {text!r}: {part!r} is not axis=size,size with each axis once; write auto, or for instance "
                f'"{BATCH}=1,4;{IDS}=64,128;{FRAMES}=64,256"'
            )
        if not re.fullmatch(r"[0-9]{1,6}(\s*,\s*[0-9]{1,6})*", values):
            raise InvalidArgument(f"--gears: {values!r} of {axis} are not whole numbers separated by commas")
        numbers = tuple(sorted({int(value) for value in values.split(",")}))
        if numbers[0] < 1:
            raise InvalidArgument(f"--gears: {axis} has a size of 0; sizes are from 1 up")
        sizes[axis] = numbers
    return GearRequest(sizes)


def longest_frames(record: LengthRecord, longest_ids: int) -> int:
    """Frames of the longest segment at the slowest speed, from the record's frames per id, with a margin."""
    per_id = sum(record.frames) / sum(record.ids)
    return aligned(int(longest_ids * per_id / SPEED_MIN * _LONGEST_MARGIN), _LONGEST_STEP)


def gear_task(
    graph: str,
    record: LengthRecord,
    *,
    longest: int,
    overlap_frames: int = 0,
    batches: Sequence[int] = DEVICE_BATCHES,
    max_gears: int = MAX_GEARS,
    cost: Cost = NPU_VOCODER,
    memory: GearMemory | None = None,
) -> GearTask:
    """What gears of a graph are planned for; see :func:`choose_gears` and :class:`GearTask`."""
    memory = memory or GearMemory()
    limit = LIMITS[graph]
    if graph == "generator":
        windows = Windows(overlap_frames)
        return GearTask(record.frames, cost, max_gears, batches, limit, windows=windows, memory=memory)
    units = record.ids if graph == "encoder" else record.frames
    units = tuple(length for length in units if length <= longest) or (longest,)
    return GearTask(units, cost, max_gears, batches, limit, longest, memory=memory)


def graph_memory(
    graph: str, spec: GraphSpec, hop: int, weights_bytes: int, limit_bytes: int | None = None
) -> GearMemory:
    """Device memory of a graph by its tensors.

    Args:
        graph: ``encoder``, ``decoder`` or ``generator``.
        spec: its tensors.
        hop: samples per frame.
        weights_bytes: of its file.
        limit_bytes: that must not be exceeded.
    """
    sizes = {BATCH: 1, IDS: 1, FRAMES: 1, "samples": hop}
    per_unit = 0
    for tensor in (*spec.inputs, *spec.outputs):
        elements = math.prod(dim if isinstance(dim, int) else sizes.get(dim, 1) for dim in tensor.dims)
        per_unit += elements * _DTYPE_BYTES.get(tensor.dtype, 8)
    return GearMemory(weights_bytes, per_unit, WORK_BYTES_PER_UNIT[graph], limit_bytes)


def choose_gears(
    graph: str,
    request: GearRequest,
    record: LengthRecord,
    *,
    longest: int,
    overlap_frames: int = 0,
    one_row: bool = False,
) -> list[Gear]:
    """Gears of one graph of a stage.

    Args:
        graph: ``encoder`` (over ids), ``decoder`` (over frames) or ``generator`` (over frames, in windows).
        request: what the user says.
        record: lengths of segments.
        longest: longest unit that must be possible; not for the generator, whose input is cut.
        overlap_frames: of the generator's windows.
        one_row: the graph takes one row at a time, see ``ONE_ROW_NOTE``.

    Raises:
        AtcRefusal: more gears than a graph can have.
        InvalidArgument: the lengths do not suit the graph.
    """
    axis = IDS if graph == "encoder" else FRAMES
    batches: Sequence[int] = (1,) if one_row else request.sizes.get(BATCH, DEVICE_BATCHES)
    lengths = request.sizes.get(axis)
    if lengths is None:
        task = gear_task(graph, record, longest=longest, overlap_frames=overlap_frames, batches=batches)
        return list(plan_gears(task).gears)
    if graph == "generator" and lengths[-1] <= 2 * overlap_frames:
        raise InvalidArgument(
            f"--gears: the longest window has {lengths[-1]} frames, and {2 * overlap_frames} of each window are "
            f"overlap; give one of more than {2 * overlap_frames} frames"
        )
    gears = [Gear(batch, length) for batch, length in product(batches, lengths)]
    if len(gears) > emulated_om.MAX_GEARS:
        raise AtcRefusal(
            TOO_MANY_GEARS,
            f"--gears makes {len(gears)} gears for the {graph}; at most {emulated_om.MAX_GEARS} are allowed",
        )
    return gears
