"""What the two executors of the library check of the user's buffers before a run, as pure as the map allows."""

from __future__ import annotations

from collections.abc import Sequence

from acl.emulation import codes
from acl.emulation.graph import Dims, GraphFacts, Tensor
from acl.emulation.memory import ALIGNMENT_BYTES, Span
from acl.emulation.objects import DataBuffer, Dataset
from acl.emulation.state import ledger

SLACK_BYTES = 64
"""A static model takes buffers that are short by so much, and then reads or writes beyond them."""


def located(buffer: DataBuffer, count: int, role: str) -> Span:
    """Where the first ``count`` bytes of a data buffer lie; violations for what is wrong with that."""
    span = ledger.memory.span(buffer.address, count)
    if span.problem:
        ledger.report.violation(f"{role}: {span.problem}")
    elif not span.on_device and ledger.settings.run_mode == 1:
        ledger.report.violation(f"{role}: {span.name} is given to the model as device memory")
        return Span(span.address, count, None, 0, "host memory", fatal=True)
    elif buffer.address % ALIGNMENT_BYTES:
        ledger.report.violation(f"{role}: its address is not a multiple of {ALIGNMENT_BYTES}")
    return span


def _name(tensor: Tensor, role: str, index: int) -> str:
    return f"{role} {index} ({tensor.name})"


def exact_count(tensors: Sequence[Tensor], dataset: Dataset, role: str) -> int:
    """A static or geared model wants just as many buffers as it has tensors."""
    if len(dataset.buffers) == len(tensors):
        return codes.SUCCESS
    text = f"E13025: the model has {len(tensors)} {role}s, the dataset has {len(dataset.buffers)}"
    return ledger.fail(codes.GE_PARAM_INVALID, text)


def static_buffers(
    tensors: Sequence[Tensor], dims: Sequence[Dims], dataset: Dataset, role: str, *, sizes_checked: bool
) -> tuple[list[Span], int]:
    """Check the buffers of a static or geared model.

    Args:
        tensors: of the model, in order.
        dims: true dims of each in this run.
        dataset: the user's.
        role: ``input`` or ``output``.
        sizes_checked: whether the executor compares sizes; with gears it does not.
    """
    spans = []
    for index, (tensor, size, buffer) in enumerate(zip(tensors, dims, dataset.buffers, strict=True)):
        name = _name(tensor, role, index)
        needed = tensor.bytes_of(size)
        if buffer.address == 0:
            return [], ledger.fail(codes.INVALID_PARAM, f"E13025: the data buffer of {name} is null")
        if sizes_checked and buffer.size + SLACK_BYTES < needed:
            text = f"E13025: {name} has {buffer.size} bytes, {needed} are needed"
            return [], ledger.fail(codes.GE_FAILURE, text)
        if buffer.size < needed:
            ledger.report.violation(
                f"{name}: the data buffer has {buffer.size} bytes, the device uses {needed}: out of bounds"
            )
        spans.append(located(buffer, needed, name))
    return spans, codes.SUCCESS


def range_dims(facts: GraphFacts, dataset: Dataset) -> tuple[list[Dims], int]:
    """Dims of each input of a range model, from the tensor descs that the user set."""
    dims = []
    for index, tensor in enumerate(facts.inputs):
        name = _name(tensor, "input", index)
        desc = dataset.descs.get(index)
        if desc is None:
            if -1 in tensor.dims:
                ledger.report.violation(f"{name}: no tensor desc was set, what the device does then is not defined")
                return [], ledger.fail(codes.GE_FAILURE, f"E19999: the shape of {name} is not known")
            dims.append(tensor.dims)
            continue
        problem = _outside(tensor, desc.dims)
        if problem:
            return [], ledger.fail(codes.INVALID_PARAM, f"E13025: {name}: {problem}")
        if -1 in desc.dims:
            ledger.report.violation(f"{name}: the tensor desc has a size of -1, what the device does then is undefined")
            return [], ledger.fail(codes.GE_FAILURE, f"E19999: the shape of {name} is not known")
        dims.append(desc.dims)
    return dims, codes.SUCCESS


def _outside(tensor: Tensor, dims: Dims) -> str:
    if not tensor.dims:
        # scalars are not checked
        return ""
    if len(dims) != len(tensor.dims):
        return f"the shape {list(dims)} has {len(dims)} dims, the model {len(tensor.dims)}"
    ranges = tensor.ranges or tuple((dim, dim) if dim >= 0 else (1, -1) for dim in tensor.dims)
    for size, (low, high) in zip(dims, ranges, strict=True):
        if size == -1 or (low <= 1 and high == -1):
            continue
        if size < low or (high != -1 and size > high):
            upper = "unbounded" if high == -1 else high
            return f"the shape {list(dims)} is outside the range, {size} is not within {low} to {upper}"
    return ""


def range_inputs(facts: GraphFacts, dims: Sequence[Dims], dataset: Dataset) -> tuple[list[Span], int]:
    """Check the input buffers of a range model; more of them than inputs are accepted."""
    spans = []
    for index, (tensor, size, buffer) in enumerate(zip(facts.inputs, dims, dataset.buffers, strict=False)):
        name = _name(tensor, "input", index)
        needed = tensor.bytes_of(size)
        if buffer.address == 0 and needed:
            return [], ledger.fail(codes.INVALID_PARAM, f"E13025: the data buffer of {name} is null")
        if buffer.size < needed:
            text = f"E13025: {name} has {buffer.size} bytes, its shape {list(size)} needs {needed}"
            return [], ledger.fail(codes.GE_FAILURE, text)
        spans.append(located(buffer, needed, name))
    return spans, codes.SUCCESS


def check_freshness(tensor: Tensor, index: int, span: Span) -> None:
    """Record a violation if the bytes last copied into an input are not as many as its tensor desc says."""
    allocation = span.allocation
    if allocation is None or allocation.filled_from != span.offset:
        return
    filled = allocation.filled_to - allocation.filled_from
    if filled and filled != span.count:
        ledger.report.violation(
            f"{_name(tensor, 'input', index)}: its tensor desc stands for {span.count} bytes, {filled} were copied "
            "in; set the desc whenever the shape changes"
        )
