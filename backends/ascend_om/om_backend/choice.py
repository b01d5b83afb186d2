"""Which runtime runs a graph. A pure function: it never falls back, and says why where it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from om_backend.device.settings import Mode, RuntimeEntry
from voxrepo_contract.errors import ConfigError, Unavailable, VoxrepoError

ONNX_CPU = "onnx_cpu"
"""onnxruntime in the stub itself; all others run in a device worker."""

WORKER_RUNTIMES = {
    "acl": RuntimeEntry("acl", "om_backend.acl:open_device"),
    "ais_bench": RuntimeEntry("ais_bench", "om_backend.device.ais_bench:open_device"),
    "torch_npu": RuntimeEntry("torch_npu", "om_backend.device.torch_npu:open_device"),
    "onnx": RuntimeEntry("onnx", "om_backend.device.onnx_cann:open_device"),
}
"""Values of a model's parameter ``runtime``, and what they are in the worker."""

_SUFFIXES: dict[str, tuple[str, ...]] = {
    ".om": ("acl", "ais_bench"),
    ".onnx": ("onnx",),
    ".pt": ("torch_npu",),
    ".pt2": ("torch_npu",),
}


@dataclass(frozen=True)
class Choice:
    """How a graph is run.

    Attributes:
        runtime: :data:`ONNX_CPU` or a key of :data:`WORKER_RUNTIMES`.
        device: what the runtime is told to use.
    """

    runtime: str
    device: Literal["cpu", "npu"]


def choose(file: PurePath, device: Literal["cpu", "npu"], wanted: str | None, mode: Mode) -> Choice:
    """Choose.

    Args:
        file: the graph file; its suffix says what it is.
        device: what ``stage.yaml`` asks for.
        wanted: the model's parameter ``runtime``; ``None`` takes the usual one of the file type.
        mode: what the server was started for.

    Raises:
        ConfigError: the file type, the device and the runtime do not go together.
        Unavailable: the graph asks for a device that this server was not started with.
    """
    runtimes = _SUFFIXES.get(file.suffix)
    if wanted is not None and wanted not in WORKER_RUNTIMES:
        raise ConfigError(f"the parameter runtime is {wanted!r}; it must be one of {', '.join(WORKER_RUNTIMES)}")
    if runtimes is None:
        raise _refusal(file, f"files of this type are not run; these are: {', '.join(_SUFFIXES)}")
    if device == "cpu":
        return _on_cpu(file)
    if mode == "cpu":
        raise Unavailable(
            f"{file}: the graph asks for an NPU (device: npu) and this server runs on the CPU only; start it with "
            "--device npu (or emulator), or serve a version with device: cpu; it is never moved there silently"
        )
    runtime = wanted or runtimes[0]
    if runtime not in runtimes:
        raise _refusal(file, f"runtime {runtime!r} does not run {file.suffix} files; {' or '.join(runtimes)} does")
    if wanted is None and file.suffix == ".onnx":
        raise _refusal(
            file,
            "an .onnx graph with device: npu needs the parameter runtime set to onnx (onnxruntime's CANN provider in "
            "the worker's Python), or convert it to .om",
        )
    if mode == "emulator" and runtime != "acl":
        raise _refusal(file, f"runtime {runtime!r} needs a real NPU; the emulator stands in for runtime acl only")
    return Choice(runtime, "npu")


def _on_cpu(file: PurePath) -> Choice:
    if file.suffix == ".onnx":
        return Choice(ONNX_CPU, "cpu")
    if file.suffix == ".om":
        raise _refusal(file, "an .om graph runs on an NPU only; device cpu runs .onnx graphs: set device: npu")
    return Choice("torch_npu", "cpu")


def _refusal(file: PurePath, problem: str) -> VoxrepoError:
    return ConfigError(problem, file=str(file))
