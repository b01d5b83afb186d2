"""Loading models: what the loader checks, what a loaded model keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from acl.emulation import codes
from acl.emulation.devices import Context
from acl.emulation.errors import CodedError
from acl.emulation.executor import GraphError, GraphRunner
from acl.emulation.graph import GraphFacts, facts_of
from acl.emulation.handles import Handled
from acl.emulation.profile import Profile
from acl.emulation.state import ledger
from voxrepo_contract import emulated_om
from voxrepo_contract.emulated_om import EmulatedOm
from voxrepo_contract.errors import ConfigError


class LoadError(CodedError):
    """A file that the loader refuses."""


@dataclass(eq=False)
class LoadedModel(Handled):
    """A model on a device.

    Attributes:
        number: its model id.
        gear_by_dataset: gear set for each input dataset.
        current_gear: gear set last, for ``get_cur_output_dims``.
        charged_bytes: device memory it takes beyond what the user gave it.
    """

    number: int
    context: Context
    facts: GraphFacts
    runner: GraphRunner
    charged_bytes: int
    gear_by_dataset: dict[int, int] = field(default_factory=dict)
    current_gear: int | None = None

    what = "a loaded model"
    call = "acl.mdl.unload"


_loaded: dict[int, LoadedModel] = {}
_next_number = 1
profile = Profile.load(ledger.settings.profile)
profile.check_fits(ledger.settings.soc, ledger.settings.profile)


def find_model(number: int) -> LoadedModel | None:
    """The loaded model of that id."""
    return _loaded.get(number)


def read_file(path: str) -> EmulatedOm:
    """Read a file as the loader does.

    Raises:
        LoadError: missing, not an emulated OM, or damaged.
    """
    file = Path(path)
    if not file.is_file():
        raise LoadError(codes.GE_PATH_INVALID, f"E13000: the path {path} is not that of a file")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise LoadError(codes.GE_PATH_INVALID, f"E13001: {path} cannot be opened: {error.strerror}") from error
    return read_bytes(data)


def read_bytes(data: bytes) -> EmulatedOm:
    """Parse the bytes of a file as the loader does.

    Raises:
        LoadError: not an emulated OM, or damaged.
    """
    try:
        return emulated_om.read(data)
    except ConfigError as error:
        raise LoadError(codes.GE_DATA_SIZE_INVALID, f"E10001: Invalid om file: {error}") from error


def check_fits(model: EmulatedOm) -> None:
    """Check that a file is for this machine.

    Raises:
        LoadError: another chip, not built for slices, or another operator package.
    """
    header, settings = model.header, ledger.settings
    if header.soc != settings.soc:
        raise LoadError(
            codes.GE_FAILURE,
            f"E10001: the model is built for socVersion {header.soc}, this device is {settings.soc}",
        )
    if settings.vnpu and header.virtual_type != 1:
        raise LoadError(codes.RT_TASK_TYPE, "EE9999: the model holds tasks that a slice of a chip does not run")
    if header.kind == emulated_om.RANGE and header.opp_version != settings.opp_version:
        raise LoadError(
            codes.GE_FAILURE,
            f"E19999: opp version of the model does not match: built with {header.opp_version}, "
            f"installed is {settings.opp_version}",
        )


def load(model: EmulatedOm, context: Context, given_bytes: tuple[int, int] | None = None) -> LoadedModel:
    """Put a model on the device of a context.

    Args:
        model: the file.
        context: where it will run.
        given_bytes: sizes of the work and weight memory that the user gives; ``None`` to allocate them.

    Raises:
        LoadError: the file does not fit the machine, its graph is not sound, or the device is full.
    """
    global _next_number  # noqa: PLW0603  ids only grow, over all models of the process
    check_fits(model)
    charged = _needed(model, given_bytes)
    if not context.device.take(charged):
        raise LoadError(
            codes.GE_DEVICE_MEMORY,
            f"EL0004: the model needs {charged} bytes of device memory, {context.device.free_bytes} of "
            f"{context.device.capacity_bytes} are free",
        )
    try:
        runner = GraphRunner(model, compute=ledger.settings.compute)
        facts = facts_of(model.header)
        _complete(facts, runner)
    except (ConfigError, GraphError) as error:
        context.device.give_back(charged)
        raise LoadError(codes.GE_LOAD_MODEL, f"E19999: {error}") from error
    loaded = ledger.handles.add(LoadedModel(_next_number, context, facts, runner, charged))
    _loaded[_next_number] = loaded
    _next_number += 1
    ledger.report.counters["loads"] += 1
    return loaded


def _needed(model: EmulatedOm, given_bytes: tuple[int, int] | None) -> int:
    """Device memory that a model takes beyond what the user gives it."""
    header = model.header
    needed = header.weights_bytes + header.work_bytes
    if given_bytes is not None:
        work, weights = given_bytes
        if weights < header.weights_bytes or (work < header.work_bytes and header.kind != emulated_om.RANGE):
            raise LoadError(
                codes.GE_FAILURE,
                f"E19999: {work} bytes of work and {weights} of weight memory are given, "
                f"{header.work_bytes} and {header.weights_bytes} are needed",
            )
        # a range model takes no notice of the work memory it is given
        needed = header.work_bytes if header.kind == emulated_om.RANGE else 0
    return needed


def _complete(facts: GraphFacts, runner: GraphRunner) -> None:
    """Find the output dims of the gears whose converter did not write them down."""
    for gear in facts.gears:
        if gear.outputs is None:
            gear.outputs = tuple(runner.output_dims(gear.inputs))


def unload(model: LoadedModel) -> None:
    """Take a model from the device."""
    del _loaded[model.number]
    ledger.handles.remove(model)
    model.context.device.give_back(model.charged_bytes)


def describe(model: EmulatedOm) -> GraphFacts:
    """What the descriptor calls tell of a file that is not loaded.

    Raises:
        ConfigError: its graph is not sound.
        GraphError: its graph cannot be run on zeros, which is needed where the file does not give output dims.
    """
    facts = facts_of(model.header)
    if any(gear.outputs is None for gear in facts.gears):
        _complete(facts, GraphRunner(model, compute=False))
    return facts


def forget_dataset(handle: int) -> None:
    """Drop the gears set for a dataset that is no more."""
    for model in _loaded.values():
        model.gear_by_dataset.pop(handle, None)
