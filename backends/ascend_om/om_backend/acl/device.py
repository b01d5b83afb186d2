"""Opening and closing one device through pyACL."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from om_backend.acl import enums, process
from om_backend.acl.graph import AclGraph
from om_backend.acl.loading import load_graph
from om_backend.acl.memory import device_memory
from om_backend.acl.options import read_options
from om_backend.acl.owned import Owned
from om_backend.acl.session import Session, named
from om_backend.device.description import DeviceMemory
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import LoadedGraph

_LOG = logging.getLogger("voxrepo.device.acl")

REQUIRED = (
    "init",
    "finalize",
    "create_data_buffer",
    "update_data_buffer",
    "rt.set_device",
    "rt.create_context",
    "rt.get_mem_info",
    "rt.malloc_host",
    "rt.memcpy_async",
    "rt.synchronize_stream_with_timeout",
    "mdl.load_from_file",
    "mdl.execute_async",
    "mdl.get_input_dynamic_dims",
    "util.ptr_to_numpy",
)
"""Functions without which nothing runs here. What came later is asked for where it is used."""

_NO_DEVICE = (
    "no device can be seen: the driver is not loaded, the device nodes (/dev/davinci*, davinci_manager, devmm_svm, "
    "hisi_hdc) are not passed to this container or closed to this user, or the environment hides them; "
    "`voxrepo doctor` looks at each of these"
)


def open_device(device_id: int, options: Mapping[str, str]) -> AclDevice:
    """Open a device in this process.

    Args:
        device_id: its number as AscendCL counts, after ``ASCEND_RT_VISIBLE_DEVICES``.
        options: defaults for the graphs, see :class:`om_backend.acl.options.Options`.

    Raises:
        DeviceFault: pyACL is not here, or the device cannot be opened; nothing is left behind.
    """
    read_options(options)
    try:
        module = importlib.import_module("acl")
    except ImportError as error:
        raise DeviceFault(
            "import acl",
            0,
            Action.OUT_OF_SERVICE,
            f"pyACL cannot be imported by this Python ({error}); install CANN, source its set_env.sh, or name the "
            "Python that has it with VOXREPO_WORKER_PYTHON",
        ) from error
    return AclDevice(module, device_id, options)


class AclDevice:
    """A device, opened with a context of its own.

    Args:
        module: the ``acl`` module.
        device_id: the device's number.
        options: defaults for the graphs.

    Raises:
        DeviceFault: it cannot be opened.
    """

    def __init__(self, module: Any, device_id: int, options: Mapping[str, str]) -> None:
        self._session = Session(module)
        self._device_id = device_id
        self._options = dict(options)
        self._owned = Owned(f"device {device_id}")
        self._graphs: list[AclGraph] = []
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._open()
        except BaseException:
            self._owned.release()
            raise

    def _open(self) -> None:
        session, device_id = self._session, self._device_id
        calls = session.open
        missing = [name for name in REQUIRED if not calls.has(name)]
        if missing:
            raise DeviceFault(
                "import acl",
                0,
                Action.OUT_OF_SERVICE,
                f"this pyACL lacks {', '.join(f'acl.{name}' for name in missing)}; CANN 7.0 or newer is needed",
            )
        process.acquire(calls)
        self._owned.add("AscendCL", partial(process.release, session.close))
        count = self._device_count()
        if not 0 <= device_id < count:
            raise DeviceFault(
                "acl.rt.get_device_count",
                0,
                Action.REFUSE,
                f"there is no device {device_id}: {count} are visible, numbered from 0; look at "
                "device_ids in the model's configuration and at ASCEND_RT_VISIBLE_DEVICES",
            )
        calls.do("rt.set_device", device_id)
        self._owned.add("device", partial(session.close.do, "rt.reset_device", device_id))
        # our own context, which other users of the device in this process do not share
        session.context = int(calls.get("rt.create_context", device_id))
        self._owned.add("context", partial(session.close.do, "rt.destroy_context", session.context))
        session.shared = int(calls.get("rt.get_run_mode")) == enums.RUN_MODE_DEVICE
        session.soc = (calls.value("get_soc_name") if calls.has("get_soc_name") else "") or ""
        _LOG.info(
            "device %d is open: %s, AscendCL %s%s",
            device_id,
            session.soc or "chip unknown",
            self._version(),
            ", emulated" if session.emulator else "",
        )

    def _device_count(self) -> int:
        """Number of devices that this process sees; never 0."""
        try:
            count = int(self._session.open.get("rt.get_device_count"))
        except DeviceFault as fault:
            raise DeviceFault(
                fault.call, fault.code, fault.action, _NO_DEVICE, code_name=fault.code_name, text=fault.text
            ) from fault
        if count < 1:
            raise DeviceFault("acl.rt.get_device_count", 0, Action.OUT_OF_SERVICE, _NO_DEVICE)
        return count

    def _version(self) -> str:
        calls = self._session.open
        if not calls.has("get_version"):
            return "of unknown version"
        return ".".join(str(part) for part in calls.get("get_version"))

    @property
    def soc(self) -> str:
        """The chip's name, e.g. ``Ascend910B3``; "" if AscendCL does not tell."""
        return self._session.soc

    def load(self, file: Path, options: Mapping[str, str]) -> LoadedGraph:
        """Load a graph; see :class:`om_backend.device.interface.DeviceRuntime`."""
        self._check_open()
        graph = load_graph(self._session, file, {**self._options, **options})
        with self._lock:
            self._graphs.append(graph)
        graph.on_close = partial(self._forget, graph)
        return graph

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceFault("device", 0, Action.RESTART, f"device {self._device_id} is closed; open it again")

    def _forget(self, graph: AclGraph) -> None:
        with self._lock:
            if graph in self._graphs:
                self._graphs.remove(graph)

    def memory(self) -> DeviceMemory:
        """Memory of the device now; see :class:`om_backend.device.interface.DeviceRuntime`."""
        self._check_open()
        try:
            self._session.enter(self._session.run)
            return device_memory(self._session.run)
        except DeviceFault as fault:
            self._session.note(fault)
            raise named(fault, f"device {self._device_id}") from fault

    def close(self) -> None:
        """Close all graphs and the device; see :class:`om_backend.device.interface.DeviceRuntime`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            graphs = list(self._graphs)
        for graph in graphs:
            graph.close()
        if self._session.abandoned:
            self._leave_hung()
        else:
            self._owned.release()

    def _leave_hung(self) -> None:
        """Let go of a device that still works on something: only a forced reset does not wait for it."""
        calls = self._session.close
        left = self._owned.abandon()
        if calls.has("rt.reset_device_force"):
            forced = Owned(f"device {self._device_id}")
            forced.add("device by force", partial(calls.do, "rt.reset_device_force", self._device_id))
            forced.release()
        _LOG.error("device %d is left to the end of the process with its %s", self._device_id, ", ".join(left))
