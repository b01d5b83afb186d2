"""``acl.mdl``: choosing a gear. The choice is kept by model and input dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acl.calls.descriptors import batch_gears, image_gears
from acl.calls.runs import dataset_of, model_in_context
from acl.emulation import codes
from acl.emulation.binding import call
from acl.emulation.models import LoadedModel
from acl.emulation.objects import Dataset
from acl.emulation.state import ledger
from acl.emulation.streams import check_hazards, in_use
from voxrepo_contract.emulated_om import BATCH_GEARS, DIMS_GEARS, IMAGE_GEARS


def _target(number: int, dataset_handle: int, kind: str) -> tuple[tuple[LoadedModel, Dataset] | None, int]:
    model, code = model_in_context(number)
    if model is None:
        return None, code
    dataset, code = dataset_of(dataset_handle)
    if dataset is None:
        return None, code
    if not model.facts.has_gears:
        return None, ledger.fail(codes.MODEL_NOT_DYNAMIC, "E19999: the model has no gears")
    if model.facts.kind != kind:
        return None, ledger.fail(codes.INVALID_PARAM, f"E19999: the model's gears are {model.facts.kind}, not {kind}")
    return (model, dataset), codes.SUCCESS


def _set(model: LoadedModel, dataset: Dataset, index: int, gear: int, values: Sequence[int]) -> int:
    """Write the choice into the hidden input's buffer, as the library does, at once."""
    if index != model.facts.hidden_index or index >= len(dataset.buffers):
        return ledger.fail(codes.INVALID_PARAM, f"E19999: there is no buffer for the gear input at index {index}")
    buffer = dataset.buffers[index]
    if buffer.address == 0:
        return ledger.fail(codes.GE_DYNAMIC_INPUT_ADDR, "E19999: the buffer of the gear input is null")
    data = np.asarray(values, dtype=np.int32).view(np.uint8)
    if buffer.size < data.size:
        return ledger.fail(
            codes.GE_DYNAMIC_INPUT_LENGTH, f"E19999: the gear input needs {data.size} bytes, it has {buffer.size}"
        )
    if in_use(dataset.handle):
        ledger.report.violation("the gear is changed while a run with this dataset is not waited for")
    span = ledger.memory.span(buffer.address, data.size)
    if span.problem or not span.on_device:
        ledger.report.violation(f"the buffer of the gear input is not device memory: {span.problem or span.name}")
        if span.fatal or span.allocation is None:
            return ledger.fail(codes.GE_DYNAMIC_INPUT_ADDR, "E19999: the buffer of the gear input is not valid")
    check_hazards(None, [], [span])
    span.view()[:] = data
    model.gear_by_dataset[dataset.handle] = gear
    model.current_gear = gear
    return codes.SUCCESS


def _unknown(wanted: object, known: Sequence[object]) -> int:
    return ledger.fail(codes.GE_DYNAMIC_BATCH_SIZE, f"E19999: {wanted} is no gear of the model, it has {list(known)}")


@call("mdl.set_dynamic_batch_size", "uppp", context=True, device=True, executor=True)
def set_dynamic_batch_size(number: int, dataset_handle: int, index: int, batch: int) -> int:
    """Choose a batch gear."""
    if batch == 0:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the batch is 0")
    target, code = _target(number, dataset_handle, BATCH_GEARS)
    if target is None:
        return code
    batches = batch_gears(target[0].facts)
    if batch not in batches:
        return _unknown(batch, batches)
    return _set(*target, index, batches.index(batch), [batch])


@call("mdl.set_dynamic_hw_size", "upppp", context=True, device=True, executor=True)
def set_dynamic_hw_size(number: int, dataset_handle: int, index: int, height: int, width: int) -> int:
    """Choose an image gear."""
    target, code = _target(number, dataset_handle, IMAGE_GEARS)
    if target is None:
        return code
    sizes = image_gears(target[0].facts)
    if [height, width] not in sizes:
        return _unknown([height, width], sizes)
    return _set(*target, index, sizes.index([height, width]), [height, width])


def _joined_dims(value: Any) -> list[int]:
    if not isinstance(value, dict):
        raise TypeError
    dims, count = value.get("dims"), value.get("dimCount")
    if not isinstance(dims, list) or not isinstance(count, int) or not all(isinstance(dim, int) for dim in dims):
        raise TypeError
    return dims[:count] if count <= len(dims) else [*dims, *([0] * (count - len(dims)))]


@call("mdl.set_input_dynamic_dims", "uppg", context=True, device=True, executor=True, converters={"g": _joined_dims})
def set_input_dynamic_dims(number: int, dataset_handle: int, index: int, dims: Any) -> int:
    """Choose a dims gear by the joined dims of all inputs, in the order of ATC's ``--input_shape``."""
    target, code = _target(number, dataset_handle, DIMS_GEARS)
    if target is None:
        return code
    facts = target[0].facts
    by_name = {tensor.real_name: tensor.dims for tensor in facts.inputs}
    order = facts.header.input_order or tuple(tensor.name for tensor in facts.header.inputs)
    declared = [dim for name in order for dim in by_name[name]]
    if len(dims) != len(declared) or any(mine not in (-1, given) for mine, given in zip(declared, dims, strict=True)):
        return ledger.fail(
            codes.GE_DYNAMIC_INPUT_LENGTH,
            f"E19999: the dims {dims} do not go with {declared}, the dims of {', '.join(order)}",
        )
    joined = [list(gear.joined) for gear in facts.gears]
    if dims not in joined:
        return _unknown(dims, joined)
    return _set(*target, index, joined.index(dims), dims)
