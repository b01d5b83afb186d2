"""``acl.mdl``: what a model says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from acl.emulation import codes
from acl.emulation.binding import call, handle_only, with_dict, with_zero
from acl.emulation.dtypes import FORMAT_ND
from acl.emulation.executor import GraphError
from acl.emulation.graph import GraphFacts, Tensor
from acl.emulation.memory import host_view
from acl.emulation.models import LoadError, describe, find_model, read_bytes, read_file
from acl.emulation.objects import ModelDesc
from acl.emulation.state import ledger
from voxrepo_contract.emulated_om import BATCH_GEARS, DIMS_GEARS, IMAGE_GEARS, RANGE, EmulatedOm
from voxrepo_contract.errors import ConfigError

_MOST_GEARS = 4096
_MOST_GEARS_READ = 128

DimsDict = dict[str, Any]


def facts_of_desc(handle: int) -> GraphFacts | None:
    """What a filled descriptor tells; ``None`` and a violation where the handle is none."""
    desc = ledger.handles.get(handle, ModelDesc)
    if desc is None:
        if handle:
            ledger.report.violation(f"not a model desc: {ledger.handles.describe(handle)}")
        return None
    return desc.facts


def _tensor(handle: int, index: int, *, outputs: bool) -> Tensor | None:
    facts = facts_of_desc(handle)
    if facts is None:
        return None
    tensors = facts.outputs if outputs else facts.inputs
    if index >= len(tensors):
        ledger.errors.push(f"EE1001: there is no tensor {index}, the model has {len(tensors)}")
        return None
    return tensors[index]


def _dims_dict(name: str, dims: Sequence[int]) -> DimsDict:
    return {"name": name, "dimCount": len(dims), "dims": list(dims)}


@call("mdl.create_desc", failure=handle_only)
def create_desc() -> int:
    """An empty descriptor."""
    return ledger.handles.add(ModelDesc()).handle


@call("mdl.destroy_desc", "p")
def destroy_desc(handle: int) -> int:
    """End a descriptor."""
    if handle == 0:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the model desc is null")
    desc = ledger.handles.get(handle, ModelDesc)
    if desc is None:
        return ledger.misuse(codes.INVALID_PARAM, f"not a model desc: {ledger.handles.describe(handle)}")
    ledger.handles.remove(desc)
    return codes.SUCCESS


@call("mdl.get_desc", "pu", context=True, executor=True)
def get_desc(handle: int, number: int) -> int:
    """Fill a descriptor from a loaded model."""
    desc = ledger.handles.get(handle, ModelDesc)
    if desc is None:
        return ledger.misuse(codes.INVALID_PARAM, f"not a model desc: {ledger.handles.describe(handle)}")
    model = find_model(number)
    if model is None:
        return ledger.fail(codes.GE_MODEL_ID_INVALID, f"E19999: there is no loaded model with the id {number}")
    desc.facts, desc.model = model.facts, number
    return codes.SUCCESS


def _fill(handle: int, read: Callable[[], EmulatedOm]) -> int:
    desc = ledger.handles.get(handle, ModelDesc)
    if desc is None:
        return ledger.misuse(codes.INVALID_PARAM, f"not a model desc: {ledger.handles.describe(handle)}")
    try:
        desc.facts, desc.model = describe(read()), 0
    except LoadError as error:
        return ledger.fail(error.code, error.text)
    except (ConfigError, GraphError) as error:
        return ledger.fail(codes.GE_DATA_SIZE_INVALID, f"E10001: Invalid om file: {error}")
    return codes.SUCCESS


@call("mdl.get_desc_from_file", "ps")
def get_desc_from_file(handle: int, path: str) -> int:
    """Fill a descriptor from a file, nothing is loaded."""
    return _fill(handle, lambda: read_file(path))


@call("mdl.get_desc_from_mem", "ppp")
def get_desc_from_mem(handle: int, pointer: int, size: int) -> int:
    """Fill a descriptor from host memory, nothing is loaded."""
    return _fill(handle, lambda: read_bytes(host_view(pointer, size).tobytes()))


@call("mdl.get_num_inputs", "p", handle_only)
def get_num_inputs(handle: int) -> int:
    """Number of inputs, the hidden gear input included."""
    facts = facts_of_desc(handle)
    return 0 if facts is None else len(facts.inputs)


@call("mdl.get_num_outputs", "p", handle_only)
def get_num_outputs(handle: int) -> int:
    """Number of outputs."""
    facts = facts_of_desc(handle)
    return 0 if facts is None else len(facts.outputs)


@call("mdl.get_input_size_by_index", "pp", handle_only)
def get_input_size_by_index(handle: int, index: int) -> int:
    """Bytes; 0 where unbounded or the index is wrong."""
    facts = facts_of_desc(handle)
    return facts.input_bytes(index) if facts and _tensor(handle, index, outputs=False) else 0


@call("mdl.get_output_size_by_index", "pp", handle_only)
def get_output_size_by_index(handle: int, index: int) -> int:
    """Bytes; 0 where no bound is known or the index is wrong."""
    facts = facts_of_desc(handle)
    return facts.output_bytes(index) if facts and _tensor(handle, index, outputs=True) else 0


def _input_dims(handle: int, index: int) -> tuple[DimsDict, int]:
    tensor = _tensor(handle, index, outputs=False)
    return ({}, codes.INVALID_PARAM) if tensor is None else (_dims_dict(tensor.name, tensor.dims), codes.SUCCESS)


@call("mdl.get_input_dims", "pp", with_dict)
def get_input_dims(handle: int, index: int) -> tuple[DimsDict, int]:
    """Dims, -1 where they vary."""
    return _input_dims(handle, index)


@call("mdl.get_input_dims_v2", "pp", with_dict)
def get_input_dims_v2(handle: int, index: int) -> tuple[DimsDict, int]:
    """The same; differs for image preprocessing only."""
    return _input_dims(handle, index)


@call("mdl.get_output_dims", "pp", with_dict)
def get_output_dims(handle: int, index: int) -> tuple[DimsDict, int]:
    """Dims; of the largest gear, -1 where they vary in ranges."""
    facts = facts_of_desc(handle)
    tensor = _tensor(handle, index, outputs=True)
    if facts is None or tensor is None:
        return {}, codes.INVALID_PARAM
    return _dims_dict(tensor.name, _gear_dims(facts, facts.largest, index)), codes.SUCCESS


def _gear_dims(facts: GraphFacts, gear: int, index: int) -> Sequence[int]:
    if not facts.has_gears:
        return facts.outputs[index].dims
    outputs = facts.gears[gear].outputs
    assert outputs is not None
    return outputs[index]


@call("mdl.get_cur_output_dims", "pp", with_dict)
def get_cur_output_dims(handle: int, index: int) -> tuple[DimsDict, int]:
    """Dims at the gear set last; not offered for range models."""
    facts = facts_of_desc(handle)
    tensor = _tensor(handle, index, outputs=True)
    if facts is None or tensor is None:
        return {}, codes.INVALID_PARAM
    if facts.kind == RANGE:
        return {}, ledger.fail(codes.API_NOT_SUPPORT, "EE1001: not supported for models with ranges")
    desc = ledger.handles.get(handle, ModelDesc)
    model = find_model(desc.model) if desc else None
    gear = facts.largest if model is None or model.current_gear is None else model.current_gear
    return _dims_dict(tensor.name, _gear_dims(facts, gear, index)), codes.SUCCESS


def _name(handle: int, index: int, *, outputs: bool) -> str:
    tensor = _tensor(handle, index, outputs=outputs)
    return "" if tensor is None else tensor.name


def _empty_name(_code: int) -> str:
    return ""


def _minus_one(_code: int) -> int:
    return -1


@call("mdl.get_input_name_by_index", "pp", _empty_name)
def get_input_name_by_index(handle: int, index: int) -> str:
    """Name, "" if the index is wrong."""
    return _name(handle, index, outputs=False)


@call("mdl.get_output_name_by_index", "pp", _empty_name)
def get_output_name_by_index(handle: int, index: int) -> str:
    """Name, "" if the index is wrong."""
    return _name(handle, index, outputs=True)


@call("mdl.get_tensor_real_name", "ps", _empty_name)
def get_tensor_real_name(handle: int, name: str) -> str:
    """Name in the graph of a tensor whose name is too long to be shown."""
    facts = facts_of_desc(handle)
    tensors = [] if facts is None else [*facts.inputs, *facts.outputs]
    return next((tensor.real_name for tensor in tensors if tensor.name == name), "")


def _index(handle: int, name: str, *, outputs: bool) -> tuple[int, int]:
    facts = facts_of_desc(handle)
    tensors = [] if facts is None else facts.outputs if outputs else facts.inputs
    for index, tensor in enumerate(tensors):
        if name in (tensor.name, tensor.real_name):
            return index, codes.SUCCESS
    return 0, ledger.fail(codes.INVALID_PARAM, f"EE1001: there is no tensor named {name}")


@call("mdl.get_input_index_by_name", "ps", with_zero)
def get_input_index_by_name(handle: int, name: str) -> tuple[int, int]:
    """Index of an input."""
    return _index(handle, name, outputs=False)


@call("mdl.get_output_index_by_name", "ps", with_zero)
def get_output_index_by_name(handle: int, name: str) -> tuple[int, int]:
    """Index of an output."""
    return _index(handle, name, outputs=True)


@call("mdl.get_input_data_type", "pp", _minus_one)
def get_input_data_type(handle: int, index: int) -> int:
    """Data type number, -1 if the index is wrong."""
    tensor = _tensor(handle, index, outputs=False)
    return -1 if tensor is None else tensor.acl_type


@call("mdl.get_output_data_type", "pp", _minus_one)
def get_output_data_type(handle: int, index: int) -> int:
    """Data type number, -1 if the index is wrong."""
    tensor = _tensor(handle, index, outputs=True)
    return -1 if tensor is None else tensor.acl_type


@call("mdl.get_input_format", "pp", _minus_one)
def get_input_format(handle: int, index: int) -> int:
    """Format number, -1 if the index is wrong."""
    return -1 if _tensor(handle, index, outputs=False) is None else FORMAT_ND


@call("mdl.get_output_format", "pp", _minus_one)
def get_output_format(handle: int, index: int) -> int:
    """Format number, -1 if the index is wrong."""
    return -1 if _tensor(handle, index, outputs=True) is None else FORMAT_ND


@call("mdl.get_dynamic_batch", "p", with_dict)
def get_dynamic_batch(handle: int) -> tuple[dict[str, Any], int]:
    """Batch gears; count 0 for other kinds."""
    facts = facts_of_desc(handle)
    if facts is None:
        return {}, codes.INVALID_PARAM
    batches = batch_gears(facts)
    return {"batchCount": len(batches), "batch": batches}, codes.SUCCESS


def batch_gears(facts: GraphFacts) -> list[int]:
    """The batch of each gear, in the order of the file; empty for other kinds."""
    if facts.kind != BATCH_GEARS:
        return []
    varying = next(index for index, tensor in enumerate(facts.inputs) if tensor.dims[:1] == (-1,))
    return [gear.inputs[varying][0] for gear in facts.gears]


def image_gears(facts: GraphFacts) -> list[list[int]]:
    """Height and width of each gear; empty for other kinds."""
    if facts.kind != IMAGE_GEARS:
        return []
    varying = next(index for index, tensor in enumerate(facts.inputs) if -1 in tensor.dims)
    places = [place for place, dim in enumerate(facts.inputs[varying].dims) if dim == -1]
    return [[gear.inputs[varying][place] for place in places] for gear in facts.gears]


@call("mdl.get_dynamic_hw", "pi", with_dict)
def get_dynamic_hw(handle: int, _index: int) -> tuple[dict[str, Any], int]:
    """Image gears; count 0 for other kinds."""
    facts = facts_of_desc(handle)
    if facts is None:
        return {}, codes.INVALID_PARAM
    sizes = image_gears(facts)
    return {"hwCount": len(sizes), "hw": sizes}, codes.SUCCESS


@call("mdl.get_input_dynamic_gear_count", "pi", with_zero)
def get_input_dynamic_gear_count(handle: int, index: int) -> tuple[int, int]:
    """Number of dims gears; the index must be -1."""
    facts = facts_of_desc(handle)
    if facts is None or index != -1:
        return 0, ledger.fail(codes.INVALID_PARAM, f"EE1001: the index must be -1, it is {index}")
    if facts.kind != DIMS_GEARS:
        return 0, codes.SUCCESS
    if len(facts.gears) > _MOST_GEARS_READ:
        return 0, ledger.fail(codes.STORAGE_OVER_LIMIT, f"EE1001: {len(facts.gears)} gears are too many")
    return len(facts.gears), codes.SUCCESS


@call("mdl.get_input_dynamic_dims", "pip", lambda code: (None, code))
def get_input_dynamic_dims(handle: int, index: int, count: int) -> tuple[list[DimsDict] | None, int]:
    """Dims gears: each all dims of all inputs joined, in the order of ATC's ``--input_shape``."""
    facts = facts_of_desc(handle)
    if count > _MOST_GEARS:
        return None, ledger.fail(codes.INVALID_PARAM, f"EE1001: {count} gears are too many")
    if facts is None or index != -1:
        return [], ledger.fail(codes.INVALID_PARAM, f"EE1001: the index must be -1, it is {index}")
    gears = facts.gears if facts.kind == DIMS_GEARS else []
    if count < len(gears):
        return [], ledger.fail(codes.INVALID_PARAM, f"EE1001: the model has {len(gears)} gears, {count} are asked for")
    return [_dims_dict("", gear.joined) for gear in gears], codes.SUCCESS


@call("mdl.get_input_dims_range", "pp", with_dict)
def get_input_dims_range(handle: int, index: int) -> tuple[dict[str, Any], int]:
    """Lowest and highest size of each axis; highest -1 if unbounded; nothing for gears."""
    facts = facts_of_desc(handle)
    tensor = _tensor(handle, index, outputs=False)
    if facts is None or tensor is None:
        return {}, codes.INVALID_PARAM
    if facts.has_gears and -1 in tensor.dims:
        return {"rangeCount": 0, "range": []}, codes.SUCCESS
    ranges = tensor.ranges or tuple((dim, dim) if dim >= 0 else (0, -1) for dim in tensor.dims)
    return {"rangeCount": len(ranges), "range": [list(pair) for pair in ranges]}, codes.SUCCESS
