"""Runtime ``onnx``: ONNX graphs on an NPU through onnxruntime's CANN execution provider.

In the worker and not in the stub, since a lost context needs a new process, and since the onnxruntime that has this
provider is another package than the one that the stub uses for the CPU. onnxruntime falls back to the CPU silently
where a provider fails; here that is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from om_backend.acl.codes import Phase, code_of
from om_backend.acl.shapes import check_arrays, check_ranges
from om_backend.device.description import UNBOUNDED, DeviceMemory, GraphDescription, TensorInfo
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import PlaceOutput
from om_backend.device.textcodes import acl_code
from voxrepo_contract.ort_types import ORT_DTYPES

PROVIDER = "CANNExecutionProvider"


def open_device(device_id: int, options: Mapping[str, str]) -> OnnxDevice:
    """Find the provider.

    Args:
        device_id: number of the NPU.
        options: ``provider`` names another provider to run the same code on.

    Raises:
        DeviceFault: this onnxruntime lacks it.
    """
    provider = options.get("provider", PROVIDER)
    try:
        ort = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise DeviceFault(
            "import onnxruntime",
            0,
            Action.REFUSE,
            f"runtime onnx needs onnxruntime in the worker's Python ({error}); install onnxruntime-cann there or set "
            "VOXREPO_WORKER_PYTHON",
        ) from error
    have = ort.get_available_providers()
    if provider not in have:
        raise DeviceFault(
            "onnxruntime",
            0,
            Action.REFUSE,
            f"onnxruntime {ort.__version__} of the worker's Python has the providers {', '.join(have)} and not "
            f"{provider}; install onnxruntime-cann there instead of onnxruntime, or convert the graph to .om",
        )
    return OnnxDevice(ort, provider, device_id)


class OnnxDevice:
    """An NPU as onnxruntime sees it."""

    def __init__(self, ort: Any, provider: str, device_id: int) -> None:
        self._ort = ort
        self._provider = provider
        self._device_id = device_id
        self.library = f"onnxruntime {ort.__version__}, {provider}"

    def load(self, file: Path, options: Mapping[str, str]) -> OnnxDeviceGraph:
        """Load an ONNX file; refuses one that would run elsewhere.

        Raises:
            DeviceFault: onnxruntime cannot load it, or not with the provider.
        """
        settings = self._ort.SessionOptions()
        settings.enable_mem_pattern = False
        settings.log_severity_level = 3
        own = {} if self._provider != PROVIDER else {"device_id": str(self._device_id)}
        try:
            session = self._ort.InferenceSession(file.read_bytes(), settings, providers=[(self._provider, own)])
        except Exception as error:
            raise _fault(error, Phase.LOAD, file.name) from error
        session.disable_fallback()
        if session.get_providers()[0] != self._provider:
            raise DeviceFault(
                "InferenceSession",
                0,
                Action.REFUSE,
                f"onnxruntime put {file.name} on {session.get_providers()[0]} instead of {self._provider}; the log "
                "says why the device could not be used",
            )
        return OnnxDeviceGraph(session, file.name)

    def memory(self) -> DeviceMemory:
        """Not told by onnxruntime.

        Raises:
            DeviceFault: always, ``RETRY``.
        """
        raise DeviceFault("onnxruntime", 0, Action.RETRY, "onnxruntime does not tell the device's memory")

    def close(self) -> None:
        """Nothing beyond its sessions."""


class OnnxDeviceGraph:
    """An ONNX graph in a session."""

    def __init__(self, session: Any, name: str) -> None:
        self._session: Any = session
        self._name = name
        inputs = tuple(_tensor(node) for node in session.get_inputs())
        outputs = tuple(_tensor(node) for node in session.get_outputs())
        varies = any(size < 0 for tensor in inputs for size in tensor.dims)
        self.description = GraphDescription(
            kind="range" if varies else "static",
            inputs=tuple(_with_ranges(tensor) for tensor in inputs) if varies else inputs,
            outputs=outputs,
        )

    def run(self, inputs: Sequence[Any], place: PlaceOutput) -> None:
        """See :class:`om_backend.device.interface.LoadedGraph`."""
        check_arrays(self.description, inputs)
        check_ranges(self.description, inputs)
        feeds = {tensor.name: value for tensor, value in zip(self.description.inputs, inputs, strict=True)}
        try:
            results = self._session.run([tensor.name for tensor in self.description.outputs], feeds)
        except Exception as error:
            raise _fault(error, Phase.RUN, self._name) from error
        for index, result in enumerate(results):
            np.copyto(place(index, result.shape, result.dtype), result)

    def close(self) -> None:
        """See :class:`om_backend.device.interface.LoadedGraph`."""
        self._session = None


def _tensor(node: Any) -> TensorInfo:
    dtype = ORT_DTYPES.get(node.type)
    if dtype is None:
        raise DeviceFault("load", 0, Action.REFUSE, f"tensor {node.name} has the type {node.type}, which no NPU takes")
    return TensorInfo(node.name, dtype, tuple(size if isinstance(size, int) else -1 for size in node.shape))


def _with_ranges(tensor: TensorInfo) -> TensorInfo:
    ranges = tuple((0, UNBOUNDED) if size < 0 else (size, size) for size in tensor.dims)
    return TensorInfo(tensor.name, tensor.dtype, tensor.dims, ranges)


def _fault(error: Exception, phase: Phase, name: str) -> DeviceFault:
    text = str(error)[:2000]
    code = acl_code(text)
    if code:
        entry = code_of(code)
        return DeviceFault("onnxruntime", code, entry.action(phase), entry.advice, code_name=entry.name, text=text)
    if phase is Phase.LOAD:
        return DeviceFault("onnxruntime", 0, Action.REFUSE, f"onnxruntime cannot load {name}: {text[:300]}")
    if type(error).__name__ in {"InvalidArgument", "Fail", "RuntimeException"} and "cann" not in text.lower():
        return DeviceFault("onnxruntime", 0, Action.REQUEST, f"{name} does not take these tensors", text=text)
    return DeviceFault("onnxruntime", 0, Action.RESTART, f"{name} failed on the device", text=text)
