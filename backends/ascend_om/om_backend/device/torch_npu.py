"""Runtime ``torch_npu``: TorchScript (``.pt``) and exported programs (``.pt2``) through PyTorch, on an NPU or a CPU.

The code for both devices is one; which it is, is the option ``device``. Weights are data: nothing in a file is ever
unpickled into objects of its choosing. A ``.pt`` file must be a TorchScript archive, for which PyTorch has a reader of
its own; a ``.pt2`` file is read with PyTorch's weights-only rule forced on, after a trial that this PyTorch keeps it.
"""

from __future__ import annotations

import importlib
import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from om_backend.acl.codes import Phase, code_of
from om_backend.acl.shapes import check_arrays, check_ranges
from om_backend.device.description import DeviceMemory, GraphDescription
from om_backend.device.dtypes import DTYPES
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array, PlaceOutput
from om_backend.device.listed import listed_description
from om_backend.device.textcodes import acl_code

_FORCE_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_FORCE_OTHERWISE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def open_device(device_id: int, options: Mapping[str, str]) -> TorchDevice:
    """Import PyTorch and take the device.

    Args:
        device_id: of an NPU.
        options: ``device``: ``npu`` or ``cpu``; ``threads`` for a CPU.

    Raises:
        DeviceFault: PyTorch, torch_npu or the device is not here.
    """
    kind = options.get("device", "npu")
    # before torch reads them
    os.environ[_FORCE_WEIGHTS_ONLY] = "1"
    os.environ.pop(_FORCE_OTHERWISE, None)
    torch = _import("torch")
    if kind == "cpu":
        torch.set_num_threads(int(options.get("threads", "1")))
        return TorchDevice(torch, torch.device("cpu"))
    _import("torch_npu")
    try:
        if not torch.npu.is_available():
            raise DeviceFault(
                "torch.npu.is_available", 0, Action.REFUSE, "torch_npu sees no NPU; check the driver and npu-smi"
            )
        torch.npu.set_device(device_id)
    except RuntimeError as error:
        raise fault_of(error, Phase.OPEN, on_npu=True) from error
    return TorchDevice(torch, torch.device(f"npu:{device_id}"))


class TorchDevice:
    """A device of PyTorch."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._device = device
        self.library = f"torch {torch.__version__} on {device}"

    def load(self, file: Path, options: Mapping[str, str]) -> TorchGraph:
        """Load a graph; its tensors are those of ``stage.yaml``, which PyTorch's files do not tell.

        Raises:
            DeviceFault: the file is not one of the two kinds, or PyTorch cannot load it.
        """
        description = listed_description(options)
        check_kind(file)
        try:
            if file.suffix == ".pt2":
                if not hasattr(self._torch, "export"):
                    raise _refusal(
                        file, f"PyTorch {self._torch.__version__} has no exported programs; take 2.1 or later"
                    )
                _prove_weights_only(self._torch)
                module = self._torch.export.load(str(file)).module().to(self._device)
            else:
                module = self._torch.jit.load(str(file), map_location=self._device).eval()
        except DeviceFault:
            raise
        except Exception as error:
            raise _refusal(file, f"PyTorch {self._torch.__version__} cannot load it: {first_line(error)}") from error
        return TorchGraph(self._torch, self._device, module, description, file.name)

    def memory(self) -> DeviceMemory:
        """See :class:`om_backend.device.interface.DeviceRuntime`."""
        if self._device.type == "cpu":
            page = os.sysconf("SC_PAGE_SIZE")
            return DeviceMemory(os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page)
        try:
            free, total = self._torch.npu.mem_get_info()
        except RuntimeError as error:
            raise fault_of(error, Phase.RUN, on_npu=True) from error
        return DeviceMemory(free, total)

    def close(self) -> None:
        """Nothing beyond what the process holds."""


class TorchGraph:
    """A TorchScript module or an exported program."""

    def __init__(self, torch: Any, device: Any, module: Any, description: GraphDescription, name: str) -> None:
        self._torch = torch
        self._device = device
        self._module: Any = module
        self._name = name
        self.description = description

    def run(self, inputs: Sequence[Array], place: PlaceOutput) -> None:
        """See :class:`om_backend.device.interface.LoadedGraph`."""
        torch = self._torch
        check_arrays(self.description, inputs)
        check_ranges(self.description, inputs)
        on_npu = self._device.type != "cpu"
        try:
            with torch.inference_mode():
                # copied: the arrays belong to the caller and cannot be written to
                given = [torch.from_numpy(np.array(value)).to(self._device) for value in inputs]
                results = self._results(self._module(*given))
                arrays = [result.detach().to("cpu").contiguous().numpy() for result in results]
        except (RuntimeError, AssertionError, TypeError) as error:
            raise fault_of(error, Phase.RUN, on_npu=on_npu, name=self._name) from error
        for index, (tensor, array) in enumerate(zip(self.description.outputs, arrays, strict=True)):
            if array.dtype != DTYPES[tensor.dtype]:
                raise DeviceFault(
                    "torch",
                    0,
                    Action.FAIL,
                    f"output {tensor.name} of {self._name} came as {array.dtype}; stage.yaml lists {tensor.dtype}",
                )
            np.copyto(place(index, array.shape, array.dtype), array)

    def close(self) -> None:
        """See :class:`om_backend.device.interface.LoadedGraph`."""
        self._module = None

    def _results(self, returned: Any) -> list[Any]:
        outputs = self.description.outputs
        if isinstance(returned, Mapping):
            returned = [returned.get(tensor.name) for tensor in outputs]
        results = list(returned) if isinstance(returned, list | tuple) else [returned]
        if len(results) != len(outputs) or not all(isinstance(result, self._torch.Tensor) for result in results):
            raise DeviceFault(
                "torch",
                0,
                Action.FAIL,
                f"{self._name} returned {len(results)} values; stage.yaml lists {len(outputs)} output tensors",
            )
        return results


def check_kind(file: Path) -> None:
    """Refuse what is not TorchScript (``.pt``) or an exported program (``.pt2``), without unpickling anything.

    Raises:
        DeviceFault: ``REFUSE``, saying what the file is.
    """
    try:
        with file.open("rb") as stream:
            head = stream.read(4)
            if head[:2] != b"PK":
                kind = "a Python pickle" if head[:1] == b"\x80" else "not a PyTorch archive"
                raise _refusal(file, f"it is {kind}; save the model with torch.jit.save or torch.export.save")
            names = zipfile.ZipFile(stream).namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise _refusal(file, f"it is damaged: {error}") from error
    tails = [name.partition("/")[2] for name in names]
    scripted = "constants.pkl" in tails and any(tail.startswith("code/") for tail in tails)
    exported = not scripted and any(tail.endswith((".json", "archive_format")) for tail in [*tails, *names])
    if file.suffix == ".pt" and not scripted:
        raise _refusal(
            file,
            "it holds a pickled model or its weights, which are not loaded; save the model with torch.jit.save"
            if any(tail == "data.pkl" for tail in tails)
            else "it is not TorchScript; exported programs have the suffix .pt2",
        )
    if file.suffix == ".pt2" and not exported:
        raise _refusal(file, "it is not an exported program; save it with torch.export.save")


def fault_of(error: Exception, phase: Phase, *, on_npu: bool, name: str = "") -> DeviceFault:
    """The fault for an error of PyTorch. torch_npu puts AscendCL's code into its text.

    Without a code, an error on a CPU is one of shapes or values; one on an NPU leaves the context in doubt.
    """
    text = str(error)
    code = acl_code(text) if on_npu else 0
    if code:
        entry = code_of(code)
        return DeviceFault("torch", code, entry.action(phase), entry.advice, code_name=entry.name, text=text[:2000])
    if phase is not Phase.RUN:
        return DeviceFault("torch", 0, Action.REFUSE, f"PyTorch failed: {first_line(error)}", text=text[:2000])
    action = Action.RESTART if on_npu else Action.REQUEST
    return DeviceFault("torch", 0, action, f"{name} does not take these tensors: {first_line(error)}", text=text[:2000])


def first_line(error: Exception) -> str:
    """The telling line of an error: TorchScript puts a trace of the graph before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("RuntimeError:", "AssertionError:"))]
    return (telling or lines or [type(error).__name__])[0][:300]


class _Canary:
    """An object of a class that no weights file may name."""


def _prove_weights_only(torch: Any) -> None:
    """Check that this PyTorch refuses objects even when it is asked to take them, as its loader of programs does."""
    weights, canary = io.BytesIO(), io.BytesIO()
    torch.save({"weights": torch.zeros(1)}, weights)
    torch.save({"canary": _Canary()}, canary)
    weights.seek(0)
    canary.seek(0)
    torch.load(weights, weights_only=False)
    try:
        torch.load(canary, weights_only=False)
    except Exception:
        return
    raise DeviceFault(
        "torch.load",
        0,
        Action.REFUSE,
        f"PyTorch {torch.__version__} would run code from a .pt2 file; use a newer PyTorch, or TorchScript (.pt)",
    )


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DeviceFault(
            f"import {name}",
            0,
            Action.REFUSE,
            f"the runtime torch_npu needs {name} in the worker's Python ({error}); install it there or set "
            "VOXREPO_WORKER_PYTHON to a Python that has it",
        ) from error


def _refusal(file: Path, problem: str) -> DeviceFault:
    return DeviceFault("load", 0, Action.REFUSE, f"{file}: {problem}")
