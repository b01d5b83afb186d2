"""Graphs whose shapes are free within ranges, or whose output sizes depend on values.

Buffers grow with what is asked for. The sizes of outputs are known after a run only: an output without a known bound
starts small, and grows when AscendCL says how many bytes it needs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from om_backend.acl import enums
from om_backend.acl.budget import buffers_bytes
from om_backend.acl.datasets import Datasets
from om_backend.acl.descriptor import Port
from om_backend.acl.graph import AclGraph, LoadedModel
from om_backend.acl.memory import Piece
from om_backend.acl.options import Options
from om_backend.acl.owned import Owned
from om_backend.acl.session import POISONING
from om_backend.acl.shapes import byte_count, check_arrays, check_ranges
from om_backend.acl.texts import OUTPUT_TOO_SMALL, needed_output_bytes
from om_backend.device.dtypes import DTYPES
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array, PlaceOutput

_LOG = logging.getLogger("voxrepo.device.acl")

FIRST_OUTPUT_BYTES = 1 << 20
"""First size of an output buffer without a known bound: over ten seconds of 24 kHz float32 audio."""
_FIRST_INPUT_BYTES = 4096
_GROWTH_STEP_BYTES = 4096


def first_output_bytes(port: Port, options: Options) -> int:
    """Size with which an output's buffer starts: its known largest size, if that is within bounds."""
    bound = options.output_bound_bytes(port.info.name)
    return port.size_bytes if 0 < port.size_bytes <= bound else min(FIRST_OUTPUT_BYTES, bound)


def first_input_bytes(port: Port) -> int:
    """Size with which an input's buffer starts."""
    return min(port.size_bytes, _FIRST_INPUT_BYTES) or _FIRST_INPUT_BYTES


@dataclass
class _Tensor:
    """A tensor, its memory and its data buffer."""

    port: Port
    dtype: np.dtype[np.generic]
    piece: Piece
    buffer: int = 0
    declared_bytes: int = 0


class RangeGraph(AclGraph):
    """A graph built for ranges.

    Raises:
        DeviceFault: a buffer could not be made; ``owned`` holds what was.
    """

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model)
        descriptor, options = model.descriptor, model.options
        self._model = model.number
        self._inputs = [self._tensor(port, first_input_bytes(port)) for port in descriptor.inputs]
        self._outputs = [self._tensor(port, first_output_bytes(port, options)) for port in descriptor.outputs]
        self._datasets = Datasets(
            model.session.load,
            model.session.close,
            model.owned,
            {tensor.port.index: (tensor.piece.device, tensor.piece.size_bytes) for tensor in self._inputs},
            {tensor.port.index: (tensor.piece.device, tensor.piece.size_bytes) for tensor in self._outputs},
        )
        for side, handles in (
            (self._inputs, self._datasets.input_buffers),
            (self._outputs, self._datasets.output_buffers),
        ):
            for tensor in side:
                tensor.buffer = handles[tensor.port.index]
                tensor.declared_bytes = tensor.piece.size_bytes
        self._tell_memory()

    def _tensor(self, port: Port, size_bytes: int) -> _Tensor:
        tensor = _Tensor(port, DTYPES[port.info.dtype], Piece(size_bytes, shared=self._session.shared))
        # the piece is looked up when it is released: growing replaces it
        self._owned.add(f"buffer of {port.info.name}", lambda: tensor.piece.free(self._session.close))
        tensor.piece.allocate(self._session.load)
        return tensor

    def _run(self, inputs: Sequence[Array], place: PlaceOutput) -> None:
        check_arrays(self.description, inputs)
        check_ranges(self.description, inputs)
        self._session.enter(self._session.run)
        sizes = [array.size * array.itemsize for array in inputs]
        for tensor, array, size in zip(self._inputs, inputs, sizes, strict=True):
            self._hold(tensor, size)
            self._declare(tensor, size)
            self._set_shape(tensor, array.shape)
            np.copyto(tensor.piece.view(array.shape, tensor.dtype), array)
        for left in range(len(self._outputs), -1, -1):  # each output may be found too small once
            try:
                self._launch(sizes)
                break
            except DeviceFault as fault:
                if not left or not self._grow_outputs(fault):
                    raise
        shapes = [self._output_shape(tensor) for tensor in self._outputs]
        self._fetch(shapes)
        for index, (tensor, shape) in enumerate(zip(self._outputs, shapes, strict=True)):
            np.copyto(place(index, shape, tensor.dtype), tensor.piece.view(shape, tensor.dtype))

    def _hold(self, tensor: _Tensor, size_bytes: int) -> None:
        """Have memory for ``size_bytes``. The old goes after the new has come, so that a failure changes nothing."""
        old = tensor.piece
        if size_bytes <= old.size_bytes:
            return
        grown = max(size_bytes, old.size_bytes * 3 // 2)
        new = Piece(-(-grown // _GROWTH_STEP_BYTES) * _GROWTH_STEP_BYTES, shared=self._session.shared)
        calls = self._session.run
        try:
            new.allocate(calls)
            calls.do("update_data_buffer", tensor.buffer, new.device, new.size_bytes)
        except DeviceFault:
            spare = Owned(f"{self._name} {tensor.port.info.name}")
            spare.add("new buffer", partial(new.free, self._session.close))
            spare.release()
            raise
        tensor.piece = new
        tensor.declared_bytes = new.size_bytes
        freed = Owned(f"{self._name} {tensor.port.info.name}")
        freed.add("outgrown buffer", partial(old.free, self._session.close))
        for fault in freed.release():
            self._session.note(fault)
        self._tell_memory()

    def _declare(self, tensor: _Tensor, size_bytes: int) -> None:
        """Give the data buffer the size that is really used, as a buffer and its shape must agree."""
        if size_bytes != tensor.declared_bytes:
            self._session.run.do("update_data_buffer", tensor.buffer, tensor.piece.device, size_bytes)
            tensor.declared_bytes = size_bytes

    def _set_shape(self, tensor: _Tensor, shape: tuple[int, ...]) -> None:
        """Tell the shape of an input. It is told every time: without it a run takes the shape of an earlier one."""
        calls = self._session.run
        port = tensor.port
        desc = calls.handle("create_tensor_desc", port.acl_dtype, list(shape), port.acl_format)
        try:
            calls.get("mdl.set_dataset_tensor_desc", self._datasets.inputs, desc, port.index)
        finally:
            calls.value("destroy_tensor_desc", desc)  # the dataset has its own copy

    def _launch(self, sizes: Sequence[int]) -> None:
        calls = self._session.run
        self._in_flight = True
        if not self._session.shared:
            for tensor, size in zip(self._inputs, sizes, strict=True):
                if size:
                    piece = tensor.piece
                    calls.do(
                        "rt.memcpy_async",
                        piece.device,
                        piece.size_bytes,
                        piece.host_address,
                        size,
                        enums.COPY_HOST_TO_DEVICE,
                        self._stream,
                    )
        calls.do("mdl.execute_async", self._model, self._datasets.inputs, self._datasets.outputs, self._stream)
        self.synchronize()

    def _grow_outputs(self, fault: DeviceFault) -> bool:
        """Make room for an output that was too small; whether the run may be repeated.

        Raises:
            DeviceFault: the output would be larger than allowed, there is no memory for it, or the stream is not clean.
        """
        if OUTPUT_TOO_SMALL not in fault.text or fault.action in POISONING:
            return False
        if self._in_flight:
            self.synchronize()  # only a clean context may run again
        grown = False
        for tensor in self._too_small(fault.text):
            needed = needed_output_bytes(fault.text, tensor.piece.size_bytes)
            if needed is None:
                continue
            name = tensor.port.info.name
            bound = max(self._options.output_bound_bytes(name), tensor.port.size_bytes)
            if needed > bound:
                raise DeviceFault(
                    fault.call,
                    fault.code,
                    Action.REQUEST,
                    f"output {name} needs {needed} bytes for these inputs and max_output_bytes allows {bound}; ask for "
                    "less, or raise the option",
                    code_name=fault.code_name,
                    text=fault.text,
                )
            _LOG.info("%s: output %s grows from %d to %d bytes", self._name, name, tensor.piece.size_bytes, needed)
            self._hold(tensor, needed)
            grown = True
        return grown

    def _too_small(self, text: str) -> list[_Tensor]:
        """The outputs that a text speaks of: those whose size it names, or else all without a known size."""
        words = set(text.replace(",", " ").replace(".", " ").replace("[", " ").replace("]", " ").split())
        named = [tensor for tensor in self._outputs if str(tensor.declared_bytes) in words]
        return named or [tensor for tensor in self._outputs if tensor.port.size_bytes != tensor.piece.size_bytes]

    def _output_shape(self, tensor: _Tensor) -> tuple[int, ...]:
        calls = self._session.run
        # belongs to the dataset and is replaced by the next run: never kept, never destroyed
        desc = calls.handle("mdl.get_dataset_tensor_desc", self._datasets.outputs, tensor.port.index)
        rank = int(calls.value("get_tensor_desc_num_dims", desc))
        shape = tuple(int(calls.get("get_tensor_desc_dim_v2", desc, axis)) for axis in range(rank))
        if min(shape, default=0) < 0 or byte_count(shape, tensor.dtype) > tensor.piece.size_bytes:
            raise DeviceFault(
                "acl.mdl.get_dataset_tensor_desc",
                0,
                Action.RELOAD,
                f"output {tensor.port.info.name} is said to be {list(shape)}, which its buffer of "
                f"{tensor.piece.size_bytes} bytes does not hold",
            )
        return shape

    def _fetch(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Copy the true bytes of all outputs to the host."""
        if self._session.shared:
            return
        calls = self._session.run
        for tensor, shape in zip(self._outputs, shapes, strict=True):
            piece, size = tensor.piece, byte_count(shape, tensor.dtype)
            if size:
                self._in_flight = True
                calls.do(
                    "rt.memcpy_async",
                    piece.host_address,
                    piece.size_bytes,
                    piece.device,
                    size,
                    enums.COPY_DEVICE_TO_HOST,
                    self._stream,
                )
        if self._in_flight:
            self.synchronize()

    def _tell_memory(self) -> None:
        sizes = [tensor.piece.size_bytes for tensor in (*self._inputs, *self._outputs)]
        memory = replace(self.description.memory, buffers_bytes=buffers_bytes(sizes))
        self.description = replace(self.description, memory=memory)

    def _forget_views(self) -> None:
        """Views are made for each run only."""
