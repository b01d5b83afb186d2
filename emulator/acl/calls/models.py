"""``acl.mdl``: loading and unloading."""

from __future__ import annotations

from collections.abc import Callable

from acl.calls.runs import model_in_context
from acl.emulation import codes
from acl.emulation.binding import call, with_two_zeros, with_zero
from acl.emulation.devices import require
from acl.emulation.memory import host_view, in_device_range
from acl.emulation.models import LoadError, load, read_bytes, read_file, unload
from acl.emulation.objects import LoadConfig
from acl.emulation.state import ledger
from acl.emulation.streams import pending
from voxrepo_contract import emulated_om
from voxrepo_contract.emulated_om import EmulatedOm

_PRIORITY, _LOAD_TYPE, _PATH, _ADDRESS, _SIZE, _WEIGHT, _WEIGHT_SIZE, _WORK, _WORK_SIZE = range(9)
_KNOWN_ATTRIBUTES = frozenset({*range(9), 13, 14})
_FROM_FILE, _FROM_FILE_WITH_MEM, _FROM_MEM, _FROM_MEM_WITH_MEM = 1, 2, 3, 4


def _load(read: Callable[[], EmulatedOm], given: tuple[int, int, int, int] | None = None) -> tuple[int, int]:
    try:
        if given is not None:
            _check_given(given)
        model = load(read(), require(), None if given is None else (given[1], given[3]))
    except LoadError as error:
        return 0, ledger.fail(error.code, error.text)
    return model.number, codes.SUCCESS


def _check_given(given: tuple[int, int, int, int]) -> None:
    work, work_bytes, weight, weight_bytes = given
    for name, address, count in (("work", work, work_bytes), ("weight", weight, weight_bytes)):
        if not count:
            continue
        span = ledger.memory.span(address, count)
        if span.problem or not (span.on_device or ledger.settings.run_mode == 0):
            sentence = f"the {name} memory is not {count} bytes of device memory"
            ledger.report.violation(sentence)
            raise LoadError(codes.INVALID_PARAM, f"EE1001: {sentence}")


@call("mdl.load_from_file", "s", with_zero, context=True, device=True, executor=True)
def load_from_file(path: str) -> tuple[int, int]:
    """Load a file; ids start at 1 and only grow."""
    return _load(lambda: read_file(path))


@call("mdl.load_from_mem", "pp", with_zero, context=True, device=True, executor=True)
def load_from_mem(pointer: int, size: int) -> tuple[int, int]:
    """Load from host memory, which may go afterwards."""
    return _load(lambda: _from_memory(pointer, size))


@call("mdl.load_from_file_with_mem", "spppp", with_zero, context=True, device=True, executor=True)
def load_from_file_with_mem(path: str, work: int, work_bytes: int, weight: int, weight_bytes: int) -> tuple[int, int]:
    """Load a file into device memory of the user's, which must outlive the model."""
    return _load(lambda: read_file(path), (work, work_bytes, weight, weight_bytes))


@call("mdl.load_from_mem_with_mem", "pppppp", with_zero, context=True, device=True, executor=True)
def load_from_mem_with_mem(
    pointer: int, size: int, work: int, work_bytes: int, weight: int, weight_bytes: int
) -> tuple[int, int]:
    """Load from host memory into device memory of the user's."""
    return _load(lambda: _from_memory(pointer, size), (work, work_bytes, weight, weight_bytes))


def _from_memory(pointer: int, size: int) -> EmulatedOm:
    if pointer == 0 or size == 0:
        raise LoadError(codes.INVALID_PARAM, "EE1001: the model pointer is null or its size 0")
    if in_device_range(pointer):
        ledger.report.violation("the model is given in device memory, host memory is expected")
        raise LoadError(codes.INVALID_PARAM, "EE1001: the model pointer is not one of the host")
    return read_bytes(host_view(pointer, size).tobytes())


def _sizes(read: Callable[[], EmulatedOm]) -> tuple[int, int, int]:
    try:
        header = read().header
    except LoadError as error:
        return 0, 0, ledger.fail(error.code, error.text)
    if header.kind == emulated_om.RANGE:
        return (
            0,
            0,
            ledger.fail(codes.GE_FAILURE, "E19999: the sizes of a model with ranges are not known before a run"),
        )
    return header.work_bytes, header.weights_bytes, codes.SUCCESS


@call("mdl.query_size", "s", with_two_zeros, executor=True)
def query_size(path: str) -> tuple[int, int, int]:
    """Work and weight memory that a file needs."""
    return _sizes(lambda: read_file(path))


@call("mdl.query_size_from_mem", "pp", with_two_zeros, executor=True)
def query_size_from_mem(pointer: int, size: int) -> tuple[int, int, int]:
    """Work and weight memory that a model in host memory needs."""
    return _sizes(lambda: _from_memory(pointer, size))


@call("mdl.create_config_handle")
def create_config_handle() -> int:
    """A config for ``load_with_config``."""
    return ledger.handles.add(LoadConfig()).handle


@call("mdl.set_config_opt", "pio")
def set_config_opt(handle: int, attribute: int, value: int | str) -> int:
    """Set an attribute of a load config."""
    config = ledger.handles.get(handle, LoadConfig)
    if config is None or attribute not in _KNOWN_ATTRIBUTES:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the config or its attribute is invalid")
    if not isinstance(value, str if attribute in (_PATH, 14) else int):
        raise TypeError("acl.mdl.set_config_opt args parse failed")
    config.values[attribute] = value
    return codes.SUCCESS


@call("mdl.load_with_config", "p", with_zero, context=True, device=True, executor=True)
def load_with_config(handle: int) -> tuple[int, int]:
    """Load as a config says."""
    config = ledger.handles.get(handle, LoadConfig)
    if config is None:
        return 0, ledger.fail(codes.INVALID_PARAM, "EE1001: the config is null")
    values = config.values

    def number(attribute: int) -> int:
        value = values.get(attribute, 0)
        return value if isinstance(value, int) else 0

    kind = number(_LOAD_TYPE)
    given = None
    if kind in (_FROM_FILE_WITH_MEM, _FROM_MEM_WITH_MEM):
        given = (number(_WORK), number(_WORK_SIZE), number(_WEIGHT), number(_WEIGHT_SIZE))
    if kind in (_FROM_FILE, _FROM_FILE_WITH_MEM):
        return _load(lambda: read_file(str(values.get(_PATH, ""))), given)
    if kind in (_FROM_MEM, _FROM_MEM_WITH_MEM):
        return _load(lambda: _from_memory(number(_ADDRESS), number(_SIZE)), given)
    return 0, ledger.fail(codes.INVALID_PARAM, f"EE1001: the load type {kind} is not supported")


@call("mdl.destroy_config_handle", "p")
def destroy_config_handle(handle: int) -> int:
    """End a load config."""
    config = ledger.handles.get(handle, LoadConfig)
    if config is None:
        return ledger.misuse(codes.INVALID_PARAM, f"not a load config: {ledger.handles.describe(handle)}")
    ledger.handles.remove(config)
    return codes.SUCCESS


@call("mdl.unload", "u", context=True, device=True, executor=True)
def unload_model(number: int) -> int:
    """Unload a model in the context in which it was loaded."""
    model, code = model_in_context(number)
    if model is None:
        return code
    if any(task.model == number for task in pending):
        return ledger.misuse(codes.RT_MODEL_RUNNING, "the model is unloaded while a run of it is not waited for")
    unload(model)
    return codes.SUCCESS


def _no_bundle() -> int:
    return ledger.fail(codes.GE_DATA_SIZE_INVALID, "E10001: Invalid om file: the emulator has no bundles of models")


@call("mdl.bundle_load_from_file", "s", with_zero, context=True, device=True, executor=True)
def bundle_load_from_file(_path: str) -> tuple[int, int]:
    """Always refused: an emulated OM is one model."""
    return 0, _no_bundle()


@call("mdl.bundle_get_model_num", "u", with_zero)
def bundle_get_model_num(_bundle: int) -> tuple[int, int]:
    """Always refused."""
    return 0, _no_bundle()


@call("mdl.bundle_get_model_id", "up", with_zero)
def bundle_get_model_id(_bundle: int, _index: int) -> tuple[int, int]:
    """Always refused."""
    return 0, _no_bundle()


@call("mdl.bundle_unload", "u")
def bundle_unload(_bundle: int) -> int:
    """Always refused."""
    return _no_bundle()
