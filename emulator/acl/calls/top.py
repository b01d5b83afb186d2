"""``acl``: start, end, errors, data buffers, tensor descs."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acl.emulation import codes
from acl.emulation.binding import call, handle_only, with_dict, with_zero
from acl.emulation.dtypes import size_of
from acl.emulation.objects import DataBuffer, TensorDesc
from acl.emulation.report import site
from acl.emulation.state import ledger
from acl.emulation.streams import in_use

_DEEPEST = 10
_MASK_32 = (1 << 32) - 1
_VERSION = (1, 15, 0)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max((_depth(item) for item in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(item) for item in value), default=0)
    return 0


def _read_config(path: str) -> tuple[dict[str, Any], int]:
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        return {}, ledger.fail(codes.INVALID_FILE, f"EE1001: {path} cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return {}, ledger.fail(codes.PARSE_FILE, f"EE1001: {path} is not JSON: {error}")
    if not isinstance(value, dict) or _depth(value) > _DEEPEST:
        return {}, ledger.fail(codes.PARSE_FILE, f"EE1001: {path} is no JSON object or nested deeper than {_DEEPEST}")
    return value, codes.SUCCESS


@call("init", "|s")
def init(path: str | None = None) -> int:
    """Start the library; a second start counts up and says so."""
    if ledger.init_count:
        if path != ledger.config_path and path and not ledger.foreign_owner:
            return ledger.fail(codes.INVALID_PARAM, "EE1001: initialised before with another config")
        ledger.init_count += 1
        return ledger.fail(codes.REPEAT_INITIALIZE, "EE1001: initialised before")
    config: dict[str, Any] = {}
    if path:
        config, code = _read_config(path)
        if code:
            return code
    ledger.config_path = path
    ledger.errors.per_process = config.get("err_msg_mode") == "1"
    ledger.init_count = 1
    ledger.init_at = site()
    ledger.finalized = False
    return codes.SUCCESS


@call("finalize")
def finalize() -> int:
    """End the library at once, whatever the count."""
    if ledger.init_count == 0:
        return ledger.fail(codes.REPEAT_FINALIZE, "EE1001: finalized before, or never initialised")
    if ledger.foreign_owner:
        ledger.report.violation("another library initialised first and still needs it; only the owner may finalize")
    ledger.init_count = 0
    ledger.finalized = True
    return codes.SUCCESS


@call("finalize_reference", failure=with_zero)
def finalize_reference() -> tuple[int, int]:
    """Count down; the library ends at 0."""
    if ledger.init_count == 0:
        return 0, ledger.fail(codes.REPEAT_FINALIZE, "EE1001: finalized before, or never initialised")
    ledger.init_count -= 1
    ledger.finalized = ledger.init_count == 0
    return ledger.init_count, codes.SUCCESS


@call("get_version", failure=lambda code: (0, 0, 0, code))
def get_version() -> tuple[int, int, int, int]:
    """Version of the interface."""
    return (*_VERSION, codes.SUCCESS)


@call("get_cann_version", "i", with_dict)
def get_cann_version(_package: int) -> tuple[dict[str, Any], int]:
    """Version of the toolkit."""
    return {"version": ledger.settings.cann_version}, codes.SUCCESS


@call("get_soc_name", failure=lambda _code: None)
def get_soc_name() -> str | None:
    """Chip, e.g. ``Ascend910B3``."""
    return ledger.settings.soc


@call("get_recent_err_msg", failure=lambda _code: None)
def get_recent_err_msg() -> str | None:
    """Error texts of this thread, newest first; reading clears them."""
    return ledger.errors.take()


@call("app_log", "is", failure=lambda _code: None)
def app_log(_level: int, _text: str) -> None:
    """Accepted; there is no log of the device here."""


@call("get_device_capability", "ui", with_zero)
def get_device_capability(_device: int, _info: int) -> tuple[int, int]:
    """None is offered."""
    return 0, codes.SUCCESS


@call("create_data_buffer", "pp", handle_only)
def create_data_buffer(pointer: int, size: int) -> int:
    """Wrap an address and a size."""
    return ledger.handles.add(DataBuffer(pointer, size)).handle


def _buffer(handle: int) -> DataBuffer | None:
    buffer = ledger.handles.get(handle, DataBuffer)
    if buffer is None and handle:
        ledger.report.violation(f"not a data buffer: {ledger.handles.describe(handle)}")
    return buffer


@call("destroy_data_buffer", "p")
def destroy_data_buffer(handle: int) -> int:
    """End the wrapper; the memory stays."""
    buffer = _buffer(handle)
    if buffer is None:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the data buffer is null")
    if in_use(handle):
        ledger.report.violation("a data buffer is destroyed while work that is not waited for uses it")
    ledger.handles.remove(buffer)
    return codes.SUCCESS


@call("get_data_buffer_addr", "p", handle_only)
def get_data_buffer_addr(handle: int) -> int:
    """The address, 0 for a null handle."""
    buffer = _buffer(handle)
    return 0 if buffer is None else buffer.address


@call("get_data_buffer_size", "p", handle_only)
def get_data_buffer_size(handle: int) -> int:
    """The lower 32 bits of the size."""
    buffer = _buffer(handle)
    return 0 if buffer is None else buffer.size & _MASK_32


@call("get_data_buffer_size_v2", "p", handle_only)
def get_data_buffer_size_v2(handle: int) -> int:
    """The size."""
    buffer = _buffer(handle)
    return 0 if buffer is None else buffer.size


@call("update_data_buffer", "ppp")
def update_data_buffer(handle: int, pointer: int, size: int) -> int:
    """Point it elsewhere."""
    buffer = _buffer(handle)
    if buffer is None:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the data buffer is null")
    if in_use(handle):
        ledger.report.violation("a data buffer is changed while work that is not waited for uses it")
    buffer.address, buffer.size = pointer, size
    return codes.SUCCESS


def _integers(values: Sequence[Any], name: str) -> tuple[int, ...]:
    if not all(isinstance(value, int) for value in values):
        raise TypeError(f"acl.{name} args parse failed")
    return tuple(values)


@call("create_tensor_desc", "ili", handle_only)
def create_tensor_desc(acl_type: int, dims: list[Any], acl_format: int) -> int:
    """Describe a tensor."""
    sizes = _integers(dims, "create_tensor_desc")
    if any(size < -2 for size in sizes):
        return 0
    return ledger.handles.add(TensorDesc(acl_type, sizes, acl_format)).handle


def _desc(handle: int) -> TensorDesc | None:
    desc = ledger.handles.get(handle, TensorDesc)
    if desc is None and handle:
        ledger.report.violation(f"not a tensor desc: {ledger.handles.describe(handle)}")
    return desc


@call("destroy_tensor_desc", "p", lambda _code: None)
def destroy_tensor_desc(handle: int) -> None:
    """End a desc that ``create_tensor_desc`` made."""
    desc = _desc(handle)
    if desc is None:
        return
    if not desc.owned:
        ledger.report.violation("the tensor desc belongs to its dataset, which ends it; never destroy it")
        return
    ledger.handles.remove(desc)


@call("get_tensor_desc_type", "p", lambda _code: -1)
def get_tensor_desc_type(handle: int) -> int:
    """Data type number."""
    desc = _desc(handle)
    return -1 if desc is None else desc.acl_type


@call("get_tensor_desc_format", "p", lambda _code: -1)
def get_tensor_desc_format(handle: int) -> int:
    """Format number."""
    desc = _desc(handle)
    return -1 if desc is None else desc.acl_format


@call("get_tensor_desc_size", "p", handle_only)
def get_tensor_desc_size(handle: int) -> int:
    """Bytes."""
    desc = _desc(handle)
    return 0 if desc is None else desc.size


@call("get_tensor_desc_element_count", "p", handle_only)
def get_tensor_desc_element_count(handle: int) -> int:
    """Number of elements."""
    desc = _desc(handle)
    return 0 if desc is None else desc.element_count


@call("get_tensor_desc_num_dims", "p", handle_only)
def get_tensor_desc_num_dims(handle: int) -> int:
    """Number of dims."""
    desc = _desc(handle)
    return 0 if desc is None else len(desc.dims)


@call("get_tensor_desc_dim", "pp", lambda _code: -1)
def get_tensor_desc_dim(handle: int, index: int) -> int:
    """One dim, -1 if the index is wrong."""
    desc = _desc(handle)
    return -1 if desc is None or index >= len(desc.dims) else desc.dims[index]


@call("get_tensor_desc_dim_v2", "pp", with_zero)
def get_tensor_desc_dim_v2(handle: int, index: int) -> tuple[int, int]:
    """One dim and a code."""
    desc = _desc(handle)
    if desc is None or index >= len(desc.dims):
        return 0, ledger.fail(codes.INVALID_PARAM, f"EE1001: the tensor desc has no dim {index}")
    return desc.dims[index], codes.SUCCESS


@call("get_tensor_desc_name", "p", lambda _code: "")
def get_tensor_desc_name(handle: int) -> str:
    """Name."""
    desc = _desc(handle)
    return "" if desc is None else desc.name


@call("set_tensor_shape", "pl")
def set_tensor_shape(handle: int, dims: list[Any]) -> int:
    """Change the dims of a desc."""
    sizes = _integers(dims, "set_tensor_shape")
    desc = _desc(handle)
    if desc is None:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the tensor desc is null")
    desc.dims = sizes
    return codes.SUCCESS


@call("set_tensor_shape_range", "pl")
def set_tensor_shape_range(handle: int, ranges: list[Any]) -> int:
    """Give the dims of a desc ranges."""
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in ranges):
        raise TypeError("acl.set_tensor_shape_range args parse failed")
    pairs = tuple((low, high) for low, high in (_integers(pair, "set_tensor_shape_range") for pair in ranges))
    desc = _desc(handle)
    if desc is None:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the tensor desc is null")
    desc.ranges = pairs
    return codes.SUCCESS


@call("data_type_size", "i", handle_only)
def data_type_size(acl_type: int) -> int:
    """Bytes per element."""
    return size_of(acl_type)


@call("float16_to_float", "u", handle_only)
def float16_to_float(bits: int) -> float:
    """The number that 16 bits stand for."""
    return float(struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0])


@call("float_to_float16", "f", handle_only)
def float_to_float16(value: float) -> int:
    """The 16 bits that stand for a number."""
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00
