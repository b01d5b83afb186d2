"""``acl.mdl``: runs."""

from __future__ import annotations

from acl.calls.memory import allocate as allocate_device_memory
from acl.emulation import codes
from acl.emulation.binding import call
from acl.emulation.devices import require
from acl.emulation.execution import note_synchronous, plan, sleep_without_release
from acl.emulation.models import LoadedModel, find_model
from acl.emulation.objects import Dataset, ExecConfig
from acl.emulation.state import ledger
from acl.emulation.streams import FOR_EVER, Stream, Task, TaskFault
from acl.emulation.waiting import stream_of, wait
from voxrepo_contract.emulated_om import RANGE

_STREAM_SYNC_TIMEOUT = 0
_EVENT_SYNC_TIMEOUT = 1


def model_in_context(number: int) -> tuple[LoadedModel | None, int]:
    """The model of that id, if it was loaded in the current context; else ``None`` and a code."""
    model = find_model(number)
    if model is None:
        return None, ledger.fail(codes.GE_MODEL_ID_INVALID, f"E19999: there is no loaded model with the id {number}")
    if model.context is not require():
        return None, ledger.fail(codes.RT_MODEL_CONTEXT, "EE9999: the model was loaded in another context")
    return model, codes.SUCCESS


def dataset_of(handle: int) -> tuple[Dataset | None, int]:
    """The dataset of that handle, else ``None`` and a code."""
    if handle == 0:
        return None, ledger.fail(codes.INVALID_PARAM, "EE1001: the dataset is null")
    dataset = ledger.handles.get(handle, Dataset)
    if dataset is None:
        return None, ledger.misuse(codes.INVALID_PARAM, f"not a dataset: {ledger.handles.describe(handle)}")
    return dataset, codes.SUCCESS


def _allocate(size: int) -> tuple[int, int]:
    allocation, code = allocate_device_memory(size)
    return (allocation.address if allocation else 0), code


def _resolve(number: int, inputs: int, outputs: int) -> tuple[tuple[LoadedModel, Dataset, Dataset] | None, int]:
    model, code = model_in_context(number)
    if model is None:
        return None, code
    input_set, code = dataset_of(inputs)
    if input_set is None:
        return None, code
    output_set, code = dataset_of(outputs)
    if output_set is None:
        return None, code
    for buffer in (*input_set.buffers, *output_set.buffers):
        if ledger.handles.get(buffer.handle, type(buffer)) is None:
            return None, ledger.misuse(codes.INVALID_PARAM, "a data buffer of the dataset is destroyed already")
    return (model, input_set, output_set), codes.SUCCESS


@call("mdl.execute", "upp", context=True, device=True, executor=True)
def execute(number: int, inputs: int, outputs: int) -> int:
    """Run and wait; nothing else runs in this process meanwhile."""
    note_synchronous()
    resolved, code = _resolve(number, inputs, outputs)
    if resolved is None:
        return code
    stream = Stream(require())
    task, code = plan(*resolved, stream, _allocate)
    if task is None:
        return code
    try:
        task.prepare()()
    except TaskFault as fault:
        stream.context.fault(fault.code)
        return ledger.fail(fault.code, fault.text)
    if task.duration_s:
        sleep_without_release(task.duration_s)
    return codes.SUCCESS


def _queue(number: int, inputs: int, outputs: int, stream: Stream, *, may_allocate: bool) -> int:
    with ledger.lock:
        resolved, code = _resolve(number, inputs, outputs)
        if resolved is None:
            return code
        if resolved[0].facts.kind != RANGE:
            return _submit(plan(*resolved, stream, None), stream)
    # not under the lock: a range model waits for its stream here
    return _submit(plan(*resolved, stream, _allocate if may_allocate else None), stream)


def _submit(planned: tuple[Task | None, int], stream: Stream) -> int:
    task, code = planned
    if task is not None:
        stream.submit(task)
    return code


@call("mdl.execute_async", "uppp", context=True, device=True, executor=True, locked=False)
def execute_async(number: int, inputs: int, outputs: int, stream_handle: int) -> int:
    """Queue a run."""
    stream, code = stream_of(stream_handle)
    if stream is None:
        return code
    return _queue(number, inputs, outputs, stream, may_allocate=False)


@call("mdl.execute_v2", "upppp", context=True, device=True, executor=True, locked=False)
def execute_v2(number: int, inputs: int, outputs: int, stream_handle: int, config_handle: int) -> int:
    """Run in a stream and wait, at most as long as the config says."""
    config = ledger.handles.get(config_handle, ExecConfig)
    if config is None:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the execution config is null")
    stream, code = stream_of(stream_handle)
    if stream is None:
        return code
    code = _queue(number, inputs, outputs, stream, may_allocate=True)
    return code or wait(stream, config.values.get(_STREAM_SYNC_TIMEOUT, FOR_EVER))


@call("mdl.create_exec_config_handle")
def create_exec_config_handle() -> int:
    """A config for ``execute_v2``."""
    return ledger.handles.add(ExecConfig()).handle


@call("mdl.set_exec_config_opt", "pii")
def set_exec_config_opt(handle: int, attribute: int, value: int) -> int:
    """0 stream wait in ms, 1 event wait in ms."""
    config = ledger.handles.get(handle, ExecConfig)
    if config is None or attribute not in (_STREAM_SYNC_TIMEOUT, _EVENT_SYNC_TIMEOUT):
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the config or its attribute is invalid")
    config.values[attribute] = value
    return codes.SUCCESS


@call("mdl.destroy_exec_config_handle", "p")
def destroy_exec_config_handle(handle: int) -> int:
    """End a config."""
    config = ledger.handles.get(handle, ExecConfig)
    if config is None:
        return ledger.misuse(codes.INVALID_PARAM, f"not an execution config: {ledger.handles.describe(handle)}")
    ledger.handles.remove(config)
    return codes.SUCCESS
