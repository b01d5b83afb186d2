"""Runs of a model: from the user's datasets to a piece of work on a stream."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from acl.emulation import checks, codes
from acl.emulation.dtypes import FORMAT_ND, NUMPY_OF_NAME
from acl.emulation.executor import GraphError
from acl.emulation.graph import Dims, Tensor
from acl.emulation.memory import Span, poison
from acl.emulation.models import LoadedModel, profile
from acl.emulation.objects import DataBuffer, Dataset, TensorDesc
from acl.emulation.state import ledger
from acl.emulation.streams import Publish, Stream, Task, TaskFault, check_hazards, pending

Array = npt.NDArray[Any]
Allocate = Callable[[int], "tuple[int, int]"]
"""Device memory for an output that the library allocates: size -> (address, code)."""


def _array(span: Span, tensor: Tensor, dims: Dims) -> Array:
    dtype = NUMPY_OF_NAME.get(tensor.dtype)
    if dtype is None:
        raise TaskFault(codes.GE_FAILURE, f"EZ9999: the emulator cannot compute with {tensor.dtype}")
    if span.fatal or (span.allocation is not None and span.allocation.store.size < span.offset + span.count):
        raise TaskFault(codes.RT_AICORE_EXCEPTION, f"EZ9999: the address of {tensor.name} is not valid")
    view = span.view()
    if span.address % dtype.itemsize:
        view = view.copy()
    return view.view(dtype).reshape(dims)


def _write(span: Span, buffer_bytes: int, value: Array) -> None:
    """Put a result into device memory, and poison into the rest of its buffer: what is left of earlier runs."""
    data = value.reshape(-1).view(np.uint8)
    if span.fatal or span.allocation is None:
        raise TaskFault(codes.RT_AICORE_EXCEPTION, "EZ9999: the address of an output is not valid")
    store = span.allocation.store
    end = span.offset + data.size
    store[span.offset : end] = data
    span.allocation.filled(span.offset, data.size)
    rest_end = min(span.offset + buffer_bytes, span.allocation.size)
    poison(store[end : max(end, rest_end)], end)


def _conflict(model: LoadedModel, stream: Stream | None) -> None:
    for task in tuple(pending):
        if task.model == model.number and task.stream is not stream:
            ledger.report.violation(
                "the model has work that is not waited for on another stream; one model runs on one stream at a time"
            )
            return


def _compute(model: LoadedModel, arrays: Sequence[Array]) -> list[Array]:
    try:
        return model.runner.run(arrays)
    except GraphError as error:
        raise TaskFault(codes.RT_AICORE_EXCEPTION, f"EZ9999: a kernel failed: {error}") from error


def plan(
    model: LoadedModel, inputs: Dataset, outputs: Dataset, stream: Stream, allocate: Allocate | None
) -> tuple[Task | None, int]:
    """The work of one run, or ``None`` and the code with which the call fails.

    Args:
        model: loaded in the current context.
        inputs: the user's.
        outputs: the user's.
        stream: where it is going to run.
        allocate: makes memory for outputs without an address, where the call allows that.
    """
    _conflict(model, stream)
    ledger.report.counters["executes"] += 1
    if model.facts.kind == "range":
        return _plan_range(model, inputs, outputs, stream, allocate)
    return _plan_fixed(model, inputs, outputs, stream)


def _task(
    model: LoadedModel, inputs: Dataset, outputs: Dataset, spans: tuple[list[Span], list[Span]], dims: Sequence[Dims]
) -> Task:
    header = model.facts.header
    return Task(
        f"a run of {header.name or 'a model'}",
        prepare=lambda: lambda: None,
        reads=spans[0],
        writes=spans[1],
        uses=[
            inputs.handle,
            outputs.handle,
            *(buffer.handle for buffer in (*inputs.buffers, *outputs.buffers)),
        ],
        model=model.number,
        duration_s=profile.duration_s(header.name, header.precision, dims),
    )


def _plan_fixed(model: LoadedModel, inputs: Dataset, outputs: Dataset, stream: Stream) -> tuple[Task | None, int]:
    facts = model.facts
    for role, tensors, dataset in (("input", facts.inputs, inputs), ("output", facts.outputs, outputs)):
        code = checks.exact_count(tensors, dataset, role)
        if code:
            return None, code
    if facts.has_gears:
        number = model.gear_by_dataset.get(inputs.handle)
        if number is None:
            ledger.report.violation(
                "no gear was set for this dataset, so the model runs at its largest one; set it before the run"
            )
            number = facts.largest
        gear = facts.gears[number]
        assert gear.outputs is not None
        input_dims: list[Dims] = [*gear.inputs, facts.inputs[-1].dims]
        output_dims: list[Dims] = list(gear.outputs)
    else:
        input_dims = [tensor.dims for tensor in facts.inputs]
        output_dims = [tensor.dims for tensor in facts.outputs]
    checked = not facts.has_gears
    reads, code = checks.static_buffers(facts.inputs, input_dims, inputs, "input", sizes_checked=checked)
    if code:
        return None, code
    writes, code = checks.static_buffers(facts.outputs, output_dims, outputs, "output", sizes_checked=checked)
    if code:
        return None, code
    check_hazards(stream, reads, writes)
    graph_inputs = [
        (span, tensor, dims)
        for index, (span, tensor, dims) in enumerate(zip(reads, facts.inputs, input_dims, strict=True))
        if index != facts.hidden_index
    ]
    sizes = [buffer.size for buffer in outputs.buffers]
    with_descs = bool(inputs.descs)

    def prepare() -> Publish:
        results = _compute(model, [_array(*item) for item in graph_inputs])

        def publish() -> None:
            for span, size, value, tensor, dims in zip(writes, sizes, results, facts.outputs, output_dims, strict=True):
                if -1 not in dims and value.nbytes != tensor.bytes_of(dims):
                    raise TaskFault(
                        codes.GE_FAILURE, f"E19999: output {tensor.name} has {list(value.shape)}, declared {list(dims)}"
                    )
                _write(span, size, value)
            if with_descs:
                _set_output_descs(model, outputs, results)

        return publish

    task = _task(model, inputs, outputs, (reads, writes), [item[2] for item in graph_inputs])
    task.prepare = prepare
    return task, codes.SUCCESS


def _set_output_descs(model: LoadedModel, outputs: Dataset, results: Sequence[Array]) -> None:
    for index, (tensor, value) in enumerate(zip(model.facts.outputs, results, strict=True)):
        outputs.replace_desc(index, TensorDesc(tensor.acl_type, value.shape, FORMAT_ND, tensor.name))


def _checksums(spans: Sequence[Span]) -> list[int]:
    return [zlib.crc32(span.view().data) for span in spans if not span.fatal]


def _plan_range(
    model: LoadedModel, inputs: Dataset, outputs: Dataset, stream: Stream, allocate: Allocate | None
) -> tuple[Task | None, int]:
    """The host side of a range model works out shapes while it queues, for which it waits for the stream itself."""
    facts = model.facts
    for role, count, dataset in (("input", len(facts.inputs), inputs), ("output", len(facts.outputs), outputs)):
        if len(dataset.buffers) < count:
            text = f"E13025: the model has {count} {role}s, the dataset has {len(dataset.buffers)}"
            return None, ledger.fail(codes.INVALID_PARAM, text)
    dims, code = checks.range_dims(facts, inputs)
    if code:
        return None, code
    reads, code = checks.range_inputs(facts, dims, inputs)
    if code:
        return None, code
    check_hazards(stream, reads, [])
    # sources of queued copies are read now; whoever changes them before the wait has a race on hardware
    sources = [span for task in stream.tasks for span in task.reads if span.pinned]
    code = stream.drain()
    if code:
        return None, code
    for index, (tensor, span) in enumerate(zip(facts.inputs, reads, strict=True)):
        checks.check_freshness(tensor, index, span)
    before = _checksums(sources)
    try:
        results = _compute(model, [_array(*item) for item in zip(reads, facts.inputs, dims, strict=True)])
    except TaskFault as fault:
        return _failing(model, inputs, outputs, reads, fault), codes.SUCCESS
    writes, code = _range_outputs(model, outputs, results, allocate)
    if code:
        return None, code
    check_hazards(stream, [], writes)
    sizes = [buffer.size for buffer in outputs.buffers]

    def publish() -> None:
        if _checksums(sources) != before:
            ledger.report.violation("a host buffer was changed before the stream of its copy was waited for")
        for span, size, value in zip(writes, sizes, results, strict=False):
            if value.nbytes:
                _write(span, size, value)
        _set_output_descs(model, outputs, results)

    task = _task(model, inputs, outputs, (reads, writes), dims)
    task.prepare = lambda: publish
    return task, codes.SUCCESS


def _failing(model: LoadedModel, inputs: Dataset, outputs: Dataset, reads: list[Span], fault: TaskFault) -> Task:
    def prepare() -> Publish:
        raise fault

    task = _task(model, inputs, outputs, (reads, []), [])
    task.prepare = prepare
    return task


def _range_outputs(
    model: LoadedModel, outputs: Dataset, results: Sequence[Array], allocate: Allocate | None
) -> tuple[list[Span], int]:
    writes = []
    for index, (tensor, value) in enumerate(zip(model.facts.outputs, results, strict=True)):
        buffer = outputs.buffers[index]
        name = f"output {index} ({tensor.name})"
        if buffer.address == 0 and buffer.size == 0:
            code = _fill_in(buffer, value.nbytes, allocate)
            if code:
                return [], code
        elif buffer.address == 0:
            return [], ledger.fail(codes.INVALID_PARAM, f"E13025: the data buffer of {name} is null")
        if buffer.size < value.nbytes:
            text = f"E13031: {name} needs a buffer of {value.nbytes} bytes, the given one has {buffer.size}"
            return [], ledger.fail(codes.GE_FAILURE, text)
        writes.append(checks.located(buffer, value.nbytes, name))
    return writes, codes.SUCCESS


def _fill_in(buffer: DataBuffer, count: int, allocate: Allocate | None) -> int:
    if allocate is None:
        return ledger.fail(
            codes.INVALID_PARAM, "E13025: outputs without an address are allocated in synchronous runs only"
        )
    address, code = allocate(max(count, 1))
    if code == codes.SUCCESS:
        buffer.address, buffer.size = address, count
    return code


def note_synchronous() -> None:
    """Count a run that keeps Python's interpreter lock from start to end; in an event loop that is a violation."""
    ledger.report.counters["synchronous_executes"] += 1
    if "asyncio" in sys.modules and asyncio._get_running_loop() is not None:
        ledger.report.violation(
            f"a synchronous run in the thread {threading.current_thread().name} of a running event loop stops the loop "
            "for the whole run; use execute_async and synchronise in another thread or process"
        )


def sleep_without_release(seconds: float) -> None:
    """Sleep and keep Python's interpreter lock, as the synchronous call of the real module does."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
