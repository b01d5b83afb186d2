"""Runtime ``ais_bench``: graphs through ais_bench's ``InferSession``, the inference tool of Ascend's own tool box.

For machines where it is what works or what people know; runtime ``acl`` is faster and tells errors better. What is
minded here, since the tool does not: data types are checked (it reads bytes as they are), shapes are gears (it takes
any and fails late), output buffers of free shapes are sized (its default holds a second of audio), the real error code
is read from what it prints, and a session is never used again after an error (it frees some things twice).
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from om_backend.acl import enums
from om_backend.acl.budget import check_budget
from om_backend.acl.codes import Phase, code_of
from om_backend.acl.options import Options, read_options
from om_backend.acl.shapes import check_arrays, check_ranges, no_such_gear, wrong_static_shape
from om_backend.acl.texts import MAX_TEXT_CHARS, refine
from om_backend.device.capture import Captured, captured_output
from om_backend.device.description import DeviceMemory, GraphDescription, MemoryNeed, TensorInfo
from om_backend.device.dtypes import DTYPES
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array, PlaceOutput
from om_backend.device.textcodes import acl_code
from voxrepo_contract import om
from voxrepo_contract.errors import ConfigError

_LOG = logging.getLogger("voxrepo.device.ais_bench")

MODES = {"static": "static", "batch_gears": "dymbatch", "dims_gears": "dymdims", "range": "dymshape"}
"""The words that ``infer`` takes for each kind of graph; its guide prints others for some, which it does not take."""

_DTYPE_NAMES = {
    "bool": "BOOL",
    "int8": "INT8",
    "uint8": "UINT8",
    "int16": "INT16",
    "uint16": "UINT16",
    "int32": "INT32",
    "uint32": "UINT32",
    "int64": "INT64",
    "uint64": "UINT64",
    "float16": "FP16",
    "float32": "FP32",
    "double": "FP64",
    "double64": "FP64",
}
"""Open Inference Protocol names by those of ``aclruntime.dtype``."""

_HIDDEN = (om.GEAR_INPUT, enums.AIPP_INPUT)


def open_device(device_id: int, options: Mapping[str, str]) -> AisBenchDevice:
    """Check the tool and give the device, which it opens with the first session.

    Raises:
        DeviceFault: the tool is not usable in this Python.
    """
    read_options(options)
    return AisBenchDevice(device_id, _session_class(), options)


def _session_class() -> Any:
    try:
        importlib.import_module("aclruntime")
    except ImportError as error:
        raise _refusal(
            "import aclruntime",
            f"ais_bench needs aclruntime, which cannot be imported ({error}); its wheels are made for one minor "
            "version of Python each and come from Ascend's tools, not from PyPI",
        ) from error
    try:
        interface = importlib.import_module("ais_bench.infer.interface")
    except ImportError as error:
        there = _is_importable("ais_bench")
        why = (
            "the package ais_bench that is installed is another product, AISBench's evaluation of language "
            "models; install ais_bench from Ascend's tools into a Python of its own"
            if there
            else f"ais_bench is not installed ({error}); install its wheel from Ascend's tools"
        )
        raise _refusal("import ais_bench.infer.interface", why) from error
    return interface.InferSession


class AisBenchDevice:
    """A device as ais_bench sees it: nothing but a number for its sessions."""

    library = "ais_bench"

    def __init__(self, device_id: int, session_class: Any, options: Mapping[str, str]) -> None:
        self._device_id = device_id
        self._session_class = session_class
        self._options = dict(options)
        self._graphs: list[AisBenchGraph] = []

    def load(self, file: Path, options: Mapping[str, str]) -> AisBenchGraph:
        """Load an OM file in a session of its own.

        Raises:
            DeviceFault: the file or the device does not allow it.
        """
        model = _read_model(file)
        need = MemoryNeed(weights_bytes=model.weight_bytes, work_bytes=model.memory_bytes)
        if self._graphs:
            # only now is there a context in which the device can be asked
            try:
                check_budget(file.name, need, self.memory())
            except DeviceFault as fault:
                if fault.action is Action.REFUSE:
                    raise
        output = Captured()
        try:
            with captured_output() as output:
                session = self._session_class(self._device_id, str(file))
        except Exception as error:
            raise _fault(error, output.text, Phase.LOAD) from error
        try:
            graph = AisBenchGraph(session, model, need, read_options({**self._options, **options}))
        except BaseException:
            _release(session)
            raise
        self._graphs = [*(kept for kept in self._graphs if kept.session is not None), graph]
        return graph

    def memory(self) -> DeviceMemory:
        """Memory of the device, through pyACL in the context of a session.

        Raises:
            DeviceFault: it cannot be asked for, ``RETRY``.
        """
        open_graphs = [graph for graph in self._graphs if graph.session is not None]
        try:
            acl = importlib.import_module("acl")
            open_graphs[0].session.set_context()
            free, total, code = acl.rt.get_mem_info(enums.MEMORY_KIND_HBM)
        except (ImportError, IndexError, AttributeError) as error:
            raise DeviceFault(
                "acl.rt.get_mem_info", 0, Action.RETRY, f"ais_bench does not tell the device's memory ({error})"
            ) from error
        if code != 0:
            raise DeviceFault("acl.rt.get_mem_info", code, Action.RETRY, "the device does not tell its memory")
        return DeviceMemory(free_bytes=free, total_bytes=total)

    def close(self) -> None:
        """Close all graphs. The tool's ``finalize`` is not called: it would end AscendCL for others in the process."""
        for graph in self._graphs:
            graph.close()
        self._graphs.clear()


class AisBenchGraph:
    """An OM file in an ``InferSession``."""

    def __init__(self, session: Any, model: om.OmFile, need: MemoryNeed, options: Options) -> None:
        self.session: Any = session
        self._mode = MODES[model.kind]
        self.description = _describe(session, model, need)
        bounds = [tensor.size_bytes for tensor in model.outputs]
        if len(bounds) != len(self.description.outputs):
            bounds = [0] * len(self.description.outputs)
        self._output_bytes = [
            bound or options.output_bound_bytes(tensor.name)
            for bound, tensor in zip(bounds, self.description.outputs, strict=True)
        ]

    def run(self, inputs: Sequence[Array], place: PlaceOutput) -> None:
        """See :class:`om_backend.device.interface.LoadedGraph`."""
        if self.session is None:
            raise DeviceFault("InferSession.infer", 0, Action.RESTART, "the session was given up after an error")
        self._check(inputs)
        # named and held until the call is over: the tool keeps addresses only
        held = [np.ascontiguousarray(value) for value in inputs]
        output = Captured()
        try:
            with captured_output() as output:
                self.session.set_context()
                if self._mode == "dymshape":
                    results = self.session.infer(held, self._mode, list(self._output_bytes))
                else:
                    results = self.session.infer(held, self._mode)
                self.session.reset_summaryinfo()
        except Exception as error:
            # not closed either: after an error it frees some things twice
            self.session = None
            raise _fault(error, output.text, Phase.RUN) from error
        self._hand_over(results, place)

    def close(self) -> None:
        """See :class:`om_backend.device.interface.LoadedGraph`."""
        session, self.session = self.session, None
        if session is not None:
            _release(session)

    def _check(self, inputs: Sequence[Array]) -> None:
        description = self.description
        check_arrays(description, inputs)
        shapes = {tensor.name: value.shape for tensor, value in zip(description.inputs, inputs, strict=True)}
        if description.kind == "range":
            check_ranges(description, inputs)
        elif description.kind == "static":
            if any(shapes[tensor.name] != tensor.dims for tensor in description.inputs):
                raise wrong_static_shape(description, inputs)
        elif description.gears and shapes not in [dict(gear) for gear in description.gears]:
            raise no_such_gear(description, inputs)

    def _hand_over(self, results: Sequence[Any], place: PlaceOutput) -> None:
        outputs = self.description.outputs
        if len(results) != len(outputs):
            raise _refusal("InferSession.infer", f"{len(results)} outputs came of {len(outputs)}", Action.FAIL)
        for index, (tensor, result) in enumerate(zip(outputs, results, strict=True)):
            array = np.asarray(result)
            if array.dtype != DTYPES[tensor.dtype]:
                raise _refusal(
                    "InferSession.infer",
                    f"output {tensor.name} came as {array.dtype}, not {tensor.dtype}",
                    Action.FAIL,
                )
            np.copyto(place(index, array.shape, array.dtype), array)


def _release(session: Any) -> None:
    try:
        session.set_context()
        session.free_resource()
    except Exception as error:
        _LOG.warning("the session could not be released: %s", error)


def _read_model(file: Path) -> om.OmFile:
    try:
        model = om.read(file)
    except ConfigError as error:
        raise _refusal("load", f"{file}: {error.problem}") from error
    if model.kind not in MODES:
        raise _refusal("load", f"{file}: graphs with image gears are not served; build it with --dynamic_dims")
    return model


def _describe(session: Any, model: om.OmFile, need: MemoryNeed) -> GraphDescription:
    ranges = {tensor.name: tensor.ranges for tensor in model.inputs}
    inputs = [entry for entry in session.get_inputs() if entry.name not in _HIDDEN]
    assert model.kind != "image_gears"
    return GraphDescription(
        kind=model.kind,
        inputs=tuple(_tensor(entry, ranges.get(entry.name, ())) for entry in inputs),
        outputs=tuple(_tensor(entry, ()) for entry in session.get_outputs()),
        gears=tuple(model.gears),
        memory=need,
        soc=model.soc,
    )


def _tensor(entry: Any, ranges: tuple[tuple[int, int], ...]) -> TensorInfo:
    word = getattr(entry.datatype, "name", "") or str(entry.datatype).rpartition(".")[2]
    dtype = _DTYPE_NAMES.get(word)
    if dtype is None:
        raise _refusal(
            "load", f"tensor {entry.name} has the data type {word}, which numpy lacks; build the graph with another"
        )
    return TensorInfo(entry.name, dtype, tuple(int(size) for size in entry.shape), ranges)


def _fault(error: Exception, printed: str, phase: Phase) -> DeviceFault:
    """The fault for an error of the tool, whose own codes say nothing; the device's are in what it printed."""
    call = "InferSession" if phase is Phase.LOAD else "InferSession.infer"
    text = f"{error}; printed: {printed}"[:MAX_TEXT_CHARS] if printed else str(error)
    code = acl_code(printed)
    worst = Action.REFUSE if phase is Phase.LOAD else Action.RESTART
    if code == 0:
        advice = "ais_bench failed, and did not print why" if not printed else "ais_bench failed"
        return DeviceFault(call, 0, worst, advice, text=text)
    entry = code_of(code)
    action, advice = entry.action(phase), entry.advice
    better = refine(code, printed, phase) if entry.vague else None
    if better is not None:
        action, advice = better.action, better.advice
    if phase is Phase.RUN and action is not Action.OUT_OF_SERVICE:
        # whatever the code would allow, the session is lost
        action = Action.RESTART
    return DeviceFault(call, code, action, advice, code_name=entry.name, text=text)


def _refusal(call: str, advice: str, action: Action = Action.REFUSE) -> DeviceFault:
    return DeviceFault(call, 0, action, advice)


def _is_importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
