"""``acl.mdl``: datasets."""

from __future__ import annotations

from acl.calls.runs import dataset_of
from acl.emulation import codes
from acl.emulation.binding import call, handle_only
from acl.emulation.models import forget_dataset
from acl.emulation.objects import DataBuffer, Dataset, TensorDesc
from acl.emulation.state import ledger
from acl.emulation.streams import in_use

_STALE = "work that is not waited for uses it; synchronise its stream first"


@call("mdl.create_dataset", failure=handle_only)
def create_dataset() -> int:
    """An empty dataset."""
    return ledger.handles.add(Dataset()).handle


@call("mdl.destroy_dataset", "p")
def destroy_dataset(handle: int) -> int:
    """End a dataset and its tensor descs; buffers and memory stay."""
    dataset, code = dataset_of(handle)
    if dataset is None:
        return code
    if in_use(handle):
        ledger.report.violation(f"a dataset is destroyed while {_STALE}")
    for index in list(dataset.descs):
        dataset.replace_desc(index, None)
    ledger.handles.remove(dataset)
    forget_dataset(handle)
    return codes.SUCCESS


@call("mdl.add_dataset_buffer", "pp", lambda code: (0, code))
def add_dataset_buffer(handle: int, buffer_handle: int) -> tuple[int, int]:
    """Append a buffer; the order is that of the model's tensors."""
    dataset, code = dataset_of(handle)
    if dataset is None:
        return handle, code
    buffer = ledger.handles.get(buffer_handle, DataBuffer)
    if buffer is None:
        if buffer_handle:
            ledger.report.violation(f"not a data buffer: {ledger.handles.describe(buffer_handle)}")
        return handle, ledger.fail(codes.INVALID_PARAM, "EE1001: the data buffer is null")
    dataset.buffers.append(buffer)
    return handle, codes.SUCCESS


@call("mdl.get_dataset_num_buffers", "p", handle_only)
def get_dataset_num_buffers(handle: int) -> int:
    """Number of buffers."""
    dataset, _ = dataset_of(handle)
    return 0 if dataset is None else len(dataset.buffers)


@call("mdl.get_dataset_buffer", "pp", handle_only)
def get_dataset_buffer(handle: int, index: int) -> int:
    """A buffer, 0 if the index is wrong."""
    dataset, _ = dataset_of(handle)
    return dataset.buffers[index].handle if dataset is not None and index < len(dataset.buffers) else 0


@call("mdl.set_dataset_tensor_desc", "ppp", lambda code: (0, code))
def set_dataset_tensor_desc(handle: int, desc_handle: int, index: int) -> tuple[int, int]:
    """Set the dims of an input; the desc is copied, 0 clears."""
    dataset, code = dataset_of(handle)
    if dataset is None:
        return handle, code
    if index >= len(dataset.buffers):
        return handle, ledger.fail(codes.INVALID_PARAM, f"EE1001: the dataset has no buffer {index}")
    if in_use(handle):
        ledger.report.violation(f"a tensor desc is set while {_STALE}")
    if desc_handle == 0:
        dataset.replace_desc(index, None)
        return handle, codes.SUCCESS
    desc = ledger.handles.get(desc_handle, TensorDesc)
    if desc is None:
        sentence = f"not a tensor desc: {ledger.handles.describe(desc_handle)}"
        return handle, ledger.misuse(codes.INVALID_PARAM, sentence)
    dataset.replace_desc(index, TensorDesc(desc.acl_type, desc.dims, desc.acl_format, desc.name))
    return handle, codes.SUCCESS


@call("mdl.get_dataset_tensor_desc", "pp", handle_only)
def get_dataset_tensor_desc(handle: int, index: int) -> int:
    """The desc that the dataset owns; dead after the next run. 0 if there is none."""
    dataset, _ = dataset_of(handle)
    if dataset is None or index not in dataset.descs:
        return 0
    if in_use(handle):
        ledger.report.violation(f"a tensor desc is read while {_STALE}: it is that of an earlier run")
    return dataset.descs[index].handle
