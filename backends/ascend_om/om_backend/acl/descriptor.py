"""Reading a loaded model's descriptor: its tensors, its kind and its gears.

The kind is told from the descriptor alone: the hidden gear input, then which list of gears is not empty, then whether
any size is left open. Nobody is asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from om_backend.acl import enums
from om_backend.acl.calls import Calls
from om_backend.acl.files import Ranges
from om_backend.acl.gears import Gear, batch_gears, split_gears
from om_backend.device.description import Kind, TensorInfo
from om_backend.device.dtypes import DTYPES
from om_backend.device.faults import Action, DeviceFault
from voxrepo_contract.om import GEAR_INPUT, acl_dtype_name


@dataclass(frozen=True)
class Port:
    """One input or output at its place in the model's own numbering.

    Attributes:
        index: its number for AscendCL (inputs are counted with the hidden gear input).
        info: name, dtype, dims and ranges.
        acl_dtype: AscendCL's number of the dtype.
        acl_format: AscendCL's number of the format.
        size_bytes: buffer size; of the largest gear; 0 if not known before a run.
    """

    index: int
    info: TensorInfo
    acl_dtype: int
    acl_format: int
    size_bytes: int


@dataclass(frozen=True)
class Descriptor:
    """A model as AscendCL describes it.

    Attributes:
        kind: how its shapes vary.
        inputs: without the hidden gear input.
        outputs: all.
        gear_index: number of the hidden gear input, -1 if there is none.
        gear_bytes: buffer size of the hidden gear input.
        gears: dims by input name.
        gear_order: input names in the order in which a gear's dims are joined for the device.
    """

    kind: Kind
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    gear_index: int = -1
    gear_bytes: int = 0
    gears: tuple[Gear, ...] = ()
    gear_order: tuple[str, ...] = ()


def read_descriptor(
    calls: Calls, desc: int, input_order: tuple[str, ...], file_ranges: Mapping[str, Ranges]
) -> Descriptor:
    """Read a descriptor.

    Args:
        calls: at load.
        desc: handle of the filled descriptor.
        input_order: order of ATC's ``--input_shape`` as the file tells it, maybe empty.
        file_ranges: ranges as the file tells them, for a CANN that does not.

    Raises:
        DeviceFault: ``REFUSE`` for what is not run here (image gears, AIPP, dtypes without a numpy type).
    """
    names = [_name(calls, "input", desc, index) for index in range(_count(calls, "input", desc))]
    if enums.AIPP_INPUT in names:
        raise _refusal("it has image preprocessing (dynamic AIPP); build it without --insert_op_conf")
    gear_index = names.index(GEAR_INPUT) if GEAR_INPUT in names else -1
    inputs = tuple(_port(calls, "input", desc, i, name) for i, name in enumerate(names) if i != gear_index)
    outputs = tuple(
        _port(calls, "output", desc, index, _name(calls, "output", desc, index))
        for index in range(_count(calls, "output", desc))
    )
    if not inputs or not outputs:
        raise _refusal("it has no inputs or no outputs")
    if gear_index >= 0:
        return _with_gears(calls, desc, inputs, outputs, gear_index, input_order)
    if any(-1 in port.info.dims for port in (*inputs, *outputs)):
        ranged = tuple(_with_ranges(calls, desc, port, file_ranges) for port in inputs)
        return Descriptor("range", ranged, outputs)
    return Descriptor("static", inputs, outputs)


def _with_gears(
    calls: Calls,
    desc: int,
    inputs: tuple[Port, ...],
    outputs: tuple[Port, ...],
    gear_index: int,
    input_order: tuple[str, ...],
) -> Descriptor:
    dims = {port.info.name: port.info.dims for port in inputs}
    size = int(calls.value("mdl.get_input_size_by_index", desc, gear_index))
    batches = calls.get("mdl.get_dynamic_batch", desc)
    if batches["batchCount"]:
        sizes = sorted(int(batch) for batch in batches["batch"][: batches["batchCount"]])
        return Descriptor("batch_gears", inputs, outputs, gear_index, size, batch_gears(dims, sizes), tuple(dims))
    count = int(calls.get("mdl.get_input_dynamic_gear_count", desc, enums.ANY_INDEX))
    if count:
        listed: list[dict[str, Any]] = calls.get("mdl.get_input_dynamic_dims", desc, enums.ANY_INDEX, count)
        joined = [[int(dim) for dim in gear["dims"][: gear["dimCount"]]] for gear in listed]
        gears, order = split_gears(dims, joined, input_order)
        return Descriptor("dims_gears", inputs, outputs, gear_index, size, gears, order)
    if calls.get("mdl.get_dynamic_hw", desc, enums.ANY_INDEX)["hwCount"]:
        raise _refusal(
            "it has gears of image sizes (--dynamic_image_size), which are not run here; build it with "
            "--input_format=ND and --dynamic_dims"
        )
    raise _refusal(f"it has the gear input {GEAR_INPUT} but lists no gears; the file is damaged, build it again")


def _count(calls: Calls, side: str, desc: int) -> int:
    return int(calls.value(f"mdl.get_num_{side}s", desc))


def _name(calls: Calls, side: str, desc: int, index: int) -> str:
    name = str(calls.value(f"mdl.get_{side}_name_by_index", desc, index))
    # names over 127 characters are shown as a made-up one; the file's own order and ranges go by the real one
    if name.startswith("acl_") and calls.has("mdl.get_tensor_real_name"):
        return str(calls.value("mdl.get_tensor_real_name", desc, name) or name)
    return name


def _port(calls: Calls, side: str, desc: int, index: int, name: str) -> Port:
    dims = _dims(calls.get(f"mdl.get_{side}_dims", desc, index))
    acl_dtype = int(calls.value(f"mdl.get_{side}_data_type", desc, index))
    dtype = acl_dtype_name(acl_dtype)
    if dtype not in DTYPES:
        raise _refusal(
            f"its {side} {name} has the type {dtype}, which arrays here do not carry; build it with a float32 or "
            "float16 tensor there"
        )
    if side == "input" and calls.has("mdl.get_input_dims_v2"):
        outer = _dims(calls.get("mdl.get_input_dims_v2", desc, index))
        if outer != dims:
            raise _refusal(
                f"its input {name} has image preprocessing (static AIPP: {list(outer)} becomes {list(dims)}); build it "
                "without --insert_op_conf"
            )
    return Port(
        index,
        TensorInfo(name, dtype, dims),
        acl_dtype,
        int(calls.value(f"mdl.get_{side}_format", desc, index)),
        int(calls.value(f"mdl.get_{side}_size_by_index", desc, index)),
    )


def _with_ranges(calls: Calls, desc: int, port: Port, file_ranges: Mapping[str, Ranges]) -> Port:
    ranges: Ranges = ()
    if calls.has("mdl.get_input_dims_range"):
        found = calls.get("mdl.get_input_dims_range", desc, port.index)
        ranges = tuple((int(low), int(high)) for low, high in found["range"][: found["rangeCount"]])
    ranges = ranges or file_ranges.get(port.info.name, ())
    if len(ranges) != len(port.info.dims):
        ranges = ()
    info = TensorInfo(port.info.name, port.info.dtype, port.info.dims, ranges)
    return Port(port.index, info, port.acl_dtype, port.acl_format, port.size_bytes)


def _dims(answer: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(dim) for dim in answer["dims"][: answer["dimCount"]])


def _refusal(problem: str) -> DeviceFault:
    return DeviceFault("descriptor", 0, Action.REFUSE, problem)
