"""What a model file says of itself, read before it is loaded, and why it will not run here.

Reading first costs a few milliseconds and turns ``500002`` from the depths of CANN into a sentence.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from om_backend.acl.shapes import element_count
from om_backend.device.dtypes import DTYPES
from om_backend.device.faults import Action, DeviceFault
from voxrepo_contract import emulated_om, om
from voxrepo_contract.errors import ConfigError

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FileFacts:
    """What the runtime takes from a file, be it Huawei's or the emulator's.

    Attributes:
        soc: chip it was built for, "" if it does not say.
        takes_ranges: whether the executor for free shapes runs it, for which CANN tells no memory need.
        input_order: names of all inputs in the order of ATC's ``--input_shape``; empty if the file does not say.
        input_ranges: ranges by input name, for a CANN that does not give them; empty unless built for ranges.
        weights_bytes: on the device.
        work_bytes: on the device; for ranges what the file says, in truth by shape.
        input_bytes: buffer sizes of the inputs at their largest; 0 where not known.
        output_bytes: the same for the outputs.
    """

    soc: str
    takes_ranges: bool
    input_order: tuple[str, ...] = ()
    input_ranges: Mapping[str, Ranges] = field(default_factory=dict)
    weights_bytes: int = 0
    work_bytes: int = 0
    input_bytes: tuple[int, ...] = ()
    output_bytes: tuple[int, ...] = ()


def read_facts(file: Path, *, emulator: bool, soc: str) -> FileFacts:
    """Read a model file and check that it can run on this device.

    Args:
        file: the file.
        emulator: whether the device is the emulator.
        soc: the device's chip, "" if not known.

    Raises:
        DeviceFault: ``REFUSE``; the text says what is wrong and what to do.
    """
    try:
        kind = om.identify(file)
        if kind == "emulated_om":
            if not emulator:
                raise _refusal(
                    file,
                    "this is a model for the emulator, which no NPU runs; build an offline model for the chip with atc",
                )
            return _emulated(file, soc)
        if emulator and kind == "om":
            raise _refusal(
                file,
                "this is a model for an NPU, which the emulator does not run; convert the graph with "
                "`voxrepo convert --target emulator`, or serve with --device npu",
            )
        return _huawei(file, soc)
    except ConfigError as error:
        raise _refusal(file, error.problem) from error


def _emulated(file: Path, soc: str) -> FileFacts:
    header = emulated_om.read_header(file)
    if soc and header.soc.casefold() != soc.casefold():
        raise _refusal(
            file,
            f"the model was built for {header.soc} and this device is {soc}; convert it again with --soc {soc}",
        )
    return FileFacts(
        soc=header.soc,
        takes_ranges=header.kind == emulated_om.RANGE,
        input_order=header.input_order,
        input_ranges={tensor.name: tensor.ranges for tensor in header.inputs if tensor.ranges},
        weights_bytes=header.weights_bytes,
        work_bytes=header.work_bytes,
        input_bytes=tuple(_largest(tensor, header.gears) for tensor in header.inputs),
        output_bytes=tuple(_largest(tensor, header.outputs_by_gear) for tensor in header.outputs),
    )


def _largest(tensor: emulated_om.OmTensor, gears: tuple[Mapping[str, tuple[int, ...]], ...]) -> int:
    """Bytes of a tensor at its largest; 0 if that is not known before the model is loaded."""
    shapes = [gear[tensor.name] for gear in gears] or [_highest(tensor.dims, tensor.ranges)]
    if any(dim < 0 for shape in shapes for dim in shape):
        return 0
    return max(element_count(shape) for shape in shapes) * emulated_om.ITEM_BYTES[tensor.dtype]


def _highest(dims: tuple[int, ...], ranges: Ranges) -> tuple[int, ...]:
    return tuple(high for _, high in ranges) if ranges else dims


def _huawei(file: Path, soc: str) -> FileFacts:
    model = om.read(file)
    host = om.Host(os=platform.system().lower(), cpu=platform.machine())
    problems = om.check_fits(model, soc, installed_opp_version(), host)
    if problems:
        raise _refusal(file, "; ".join(problems))
    order = model.shape_order
    if order:
        named = [name for name in dict.fromkeys(order) if any(tensor.name == name for tensor in model.inputs)]
        order = (*named, *(tensor.name for tensor in model.inputs if tensor.name not in named))
    return FileFacts(
        soc=model.soc,
        takes_ranges=model.kind == "range",
        input_order=order,
        input_ranges={tensor.name: tensor.ranges for tensor in model.inputs if tensor.ranges},
        weights_bytes=model.weight_bytes,
        work_bytes=model.memory_bytes,
        input_bytes=tuple(_om_bytes(tensor) for tensor in model.inputs),
        output_bytes=tuple(_om_bytes(tensor) for tensor in model.outputs),
    )


def _om_bytes(tensor: om.OmTensor) -> int:
    if tensor.size_bytes or tensor.dtype not in DTYPES or min(tensor.dims, default=0) < 0:
        return tensor.size_bytes
    return element_count(tensor.dims) * DTYPES[tensor.dtype].itemsize


def installed_opp_version(environment: Mapping[str, str] | None = None) -> str:
    """Version of the operator package that is installed here, "" if that cannot be told."""
    folder = (os.environ if environment is None else environment).get("ASCEND_OPP_PATH", "")
    if not folder:
        return ""
    try:
        lines = (Path(folder) / "version.info").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip().casefold() == "version":
            return value.strip()
    return ""


def _refusal(file: Path, problem: str) -> DeviceFault:
    return DeviceFault("load", 0, Action.REFUSE, f"{file}: {problem}")
