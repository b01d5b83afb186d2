"""``acl.rt``: devices and contexts."""

from __future__ import annotations

from acl.emulation import codes, devices
from acl.emulation.binding import call, ret, with_dict, with_two_zeros, with_zero
from acl.emulation.devices import Context, close_context, current, device_of, make_current, require
from acl.emulation.report import site
from acl.emulation.state import ledger
from acl.emulation.streams import Stream

_STATUS_NORMAL = 0
_STATUS_ABNORMAL = 1
_MEM_ATTR_COUNT = 20
_UTILIZATION_KEYS = ("cube_utilization", "vector_utilization", "aicpu_utilization", "memory_utilization")


def _invalid_device(number: int) -> int:
    return ledger.fail(
        codes.RT_INVALID_DEVICE,
        f"EE1001: device id {number} is invalid, this machine has {len(devices.devices)} device(s)",
    )


@call("rt.get_device_count", failure=with_zero)
def get_device_count() -> tuple[int, int]:
    """Number of devices."""
    return len(devices.devices), codes.SUCCESS


@call("rt.set_device", "i")
def set_device(number: int) -> int:
    """Open a device; its default context becomes current in this thread."""
    device = device_of(number)
    if device is None:
        return _invalid_device(number)
    if device.lost:
        return ledger.fail(codes.RT_DEV_SETUP, "EL0004: the device cannot be opened")
    device.references += 1
    if device.references == 1:
        device.set_at, device.excused = site(), False
    make_current(device.open_default())
    return codes.SUCCESS


def _release(device: devices.Device) -> None:
    contexts = [
        thing
        for thing in ledger.handles.live()
        if isinstance(thing, Context) and thing.device is device and thing.alive
    ]
    for context in contexts:
        if context.owned and not context.excused and not context.error:
            ledger.report.violation(f"the device is reset while the context made at {context.made_at} is not destroyed")
        close_context(context)
    device.default_context = None
    device.references = 0
    device.give_back()
    device.memory_error = False
    ledger.aborted = False


def _drain_all(device: devices.Device) -> None:
    for thing in ledger.handles.live():
        if isinstance(thing, Stream) and thing.context.device is device and not thing.context.error:
            thing.drain()


@call("rt.reset_device", "i", locked=False)
def reset_device(number: int) -> int:
    """Close a device; it is released with the last ``set_device``, after its work is done."""
    device = device_of(number)
    if device is None:
        return _invalid_device(number)
    if device.references == 0:
        return ledger.fail(codes.RT_CONTEXT_RELEASE, "EE9999: the device is reset more often than it was set")
    if device.references == 1:
        if not device.lost:
            _drain_all(device)
        with ledger.lock:
            _release(device)
    else:
        device.references -= 1
    return codes.SUCCESS


@call("rt.reset_device_force", "i")
def reset_device_force(number: int) -> int:
    """Release a device at once, however often it was set."""
    device = device_of(number)
    if device is None:
        return _invalid_device(number)
    if device.references == 0:
        return ledger.fail(codes.RT_CONTEXT_RELEASE, "EE9999: the device is reset more often than it was set")
    _release(device)
    return codes.SUCCESS


@call("rt.get_device", failure=with_zero, context=True)
def get_device() -> tuple[int, int]:
    """Device of the current context."""
    return require().device.number, codes.SUCCESS


@call("rt.query_device_status", "i", with_zero)
def query_device_status(number: int) -> tuple[int, int]:
    """0 normal, 1 not."""
    device = device_of(number)
    if device is None:
        return 0, _invalid_device(number)
    return (_STATUS_ABNORMAL if device.lost else _STATUS_NORMAL), codes.SUCCESS


@call("rt.get_device_utilization_rate", "i", with_dict)
def get_device_utilization_rate(number: int) -> tuple[dict[str, int], int]:
    """Percentages; -1 where not supported, as all are here."""
    if device_of(number) is None:
        return {}, _invalid_device(number)
    return {**dict.fromkeys(_UTILIZATION_KEYS, -1), "utilization_extend": 0}, codes.SUCCESS


@call("rt.get_device_info", "ui", with_zero)
def get_device_info(number: int, _attribute: int) -> tuple[int, int]:
    """Not offered for any attribute."""
    if device_of(number) is None:
        return 0, _invalid_device(number)
    return 0, codes.FEATURE_NOT_SUPPORT


@call("rt.get_run_mode", failure=with_zero)
def get_run_mode() -> tuple[int, int]:
    """0 on the device side, 1 on a host with a card."""
    return ledger.settings.run_mode, codes.SUCCESS


@call("rt.get_mem_info", "i", with_two_zeros, context=True, device=True)
def get_mem_info(attribute: int) -> tuple[int, int, int]:
    """Free and total bytes, in this order."""
    if not 0 <= attribute < _MEM_ATTR_COUNT:
        return 0, 0, ledger.fail(codes.INVALID_PARAM, f"EE1001: memory attribute {attribute} is unknown")
    device = require().device
    return device.free_bytes, device.capacity_bytes, codes.SUCCESS


@call("rt.create_context", "i", with_zero)
def create_context(number: int) -> tuple[int, int]:
    """A context of one's own, current in this thread."""
    device = device_of(number)
    if device is None:
        return 0, _invalid_device(number)
    if device.lost:
        return 0, ledger.fail(codes.RT_DEV_SETUP, "EL0004: the device cannot be opened")
    context = ledger.handles.add(Context(device))
    make_current(context)
    return context.handle, codes.SUCCESS


@call("rt.set_context", "p")
def set_context(handle: int) -> int:
    """Make a context current in this thread."""
    if handle == 0:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the context is null")
    context = ledger.handles.get(handle, Context)
    if context is None:
        return ledger.misuse(codes.RT_INVALID_HANDLE, f"not a context: {ledger.handles.describe(handle)}")
    make_current(context)
    return codes.SUCCESS


@call("rt.get_context", failure=with_zero)
def get_context() -> tuple[int, int]:
    """The current context of this thread."""
    context = current()
    if context is None:
        return 0, ledger.fail(codes.RT_CONTEXT_NULL, "EE1023: this thread has no current context")
    return context.handle, codes.SUCCESS


@call("rt.destroy_context", "p", ret)
def destroy_context(handle: int) -> int:
    """End a context made by ``create_context``."""
    if handle == 0:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the context is null")
    context = ledger.handles.get(handle, Context)
    if context is None:
        return ledger.misuse(codes.RT_INVALID_HANDLE, f"not a context: {ledger.handles.describe(handle)}")
    if context.is_default:
        return ledger.misuse(codes.RT_PARAM_INVALID, "the default context is ended by reset_device, not by this call")
    if any(stream.tasks for stream in context.streams()):
        ledger.report.violation("the context is ended while work is queued in its streams; synchronise first")
    close_context(context)
    return codes.SUCCESS
