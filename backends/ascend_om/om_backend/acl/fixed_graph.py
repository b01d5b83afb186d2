"""Graphs of fixed shapes: static ones and those with gears.

Everything is made at load: buffers for the largest gear, datasets, and at the first run of each gear the list of copies
with their sizes. A run makes no allocation and builds no AscendCL object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from om_backend.acl import enums
from om_backend.acl.datasets import Datasets
from om_backend.acl.descriptor import Port
from om_backend.acl.gears import Gear, joined_dims
from om_backend.acl.graph import AclGraph, LoadedModel
from om_backend.acl.memory import Piece
from om_backend.acl.shapes import Shapes, byte_count, check_arrays, no_such_gear, wrong_static_shape
from om_backend.device.dtypes import DTYPES
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array, PlaceOutput

_GEAR_BYTES_MIN = 4


@dataclass
class _Output:
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    view: Array


@dataclass
class _Plan:
    """How one gear runs: the call that sets it, views on the staging memory, and arguments of the copies."""

    gear_call: tuple[Any, ...] | None
    views: list[Array]
    copies_in: list[tuple[int, int, int, int, int, int]]
    outputs: list[_Output] | None = None
    copies_out: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)


class FixedGraph(AclGraph):
    """A static graph, or one with batch gears or dims gears.

    Raises:
        DeviceFault: a buffer could not be made; ``owned`` holds what was.
    """

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model)
        descriptor = model.descriptor
        self._model = model.number
        self._desc = model.desc
        self._descriptor = descriptor
        self._inputs = [self._piece(port.size_bytes) for port in descriptor.inputs]
        self._outputs = [self._piece(port.size_bytes) for port in descriptor.outputs]
        places = {port.index: _place(piece) for port, piece in zip(descriptor.inputs, self._inputs, strict=True)}
        if descriptor.gear_index >= 0:
            gear = self._piece(max(descriptor.gear_bytes, _GEAR_BYTES_MIN), hosted=False)
            places[descriptor.gear_index] = _place(gear)
        self._datasets = Datasets(
            model.session.load,
            model.session.close,
            model.owned,
            places,
            {port.index: _place(piece) for port, piece in zip(descriptor.outputs, self._outputs, strict=True)},
        )
        self._dtypes = [DTYPES[port.info.dtype] for port in descriptor.inputs]
        self._plans = self._make_plans()

    def _piece(self, size_bytes: int, *, hosted: bool = True) -> Piece:
        piece = Piece(size_bytes, shared=self._session.shared, hosted=hosted)
        self._owned.add("buffer", partial(piece.free, self._session.close))
        piece.allocate(self._session.load)
        return piece

    def _make_plans(self) -> dict[Shapes, _Plan]:
        gears: Sequence[Gear | None] = self._descriptor.gears or (None,)
        plans = {}
        for gear in gears:
            shapes = tuple(port.info.dims if gear is None else gear[port.info.name] for port in self._descriptor.inputs)
            plans[shapes] = self._plan(gear, shapes)
        return plans

    def _plan(self, gear: Gear | None, shapes: Shapes) -> _Plan:
        views, copies = [], []
        for port, piece, shape in zip(self._descriptor.inputs, self._inputs, shapes, strict=True):
            dtype = DTYPES[port.info.dtype]
            size = byte_count(shape, dtype)
            if size > piece.size_bytes:
                raise DeviceFault(
                    "descriptor",
                    0,
                    Action.REFUSE,
                    f"input {port.info.name} takes {size} bytes for {list(shape)}, its buffer in the model "
                    f"{piece.size_bytes}; the file is damaged, build it again",
                )
            views.append(piece.view(shape, dtype))
            if size and not self._session.shared:
                copies.append(
                    (piece.device, piece.size_bytes, piece.host_address, size, enums.COPY_HOST_TO_DEVICE, self._stream)
                )
        return _Plan(self._gear_call(gear), views, copies)

    def _gear_call(self, gear: Gear | None) -> tuple[Any, ...] | None:
        if gear is None:
            return None
        target = (self._model, self._datasets.inputs, self._descriptor.gear_index)
        if self._descriptor.kind == "batch_gears":
            first = next(port.info for port in self._descriptor.inputs if -1 in port.info.dims)
            return ("mdl.set_dynamic_batch_size", *target, gear[first.name][0])
        dims = joined_dims(gear, self._descriptor.gear_order)
        return ("mdl.set_input_dynamic_dims", *target, {"dimCount": len(dims), "dims": dims, "name": ""})

    def _run(self, inputs: Sequence[Array], place: PlaceOutput) -> None:
        plan = self._plans.get(tuple([array.shape for array in inputs]))
        if plan is None:
            check_arrays(self.description, inputs)
            fault = no_such_gear if self.description.gears else wrong_static_shape
            raise fault(self.description, inputs)
        for array, dtype in zip(inputs, self._dtypes, strict=True):
            if array.dtype != dtype:
                check_arrays(self.description, inputs)
        calls = self._session.run
        self._session.enter(calls)
        if plan.gear_call is not None:
            calls.do(*plan.gear_call)
        if plan.outputs is None:
            self._learn_outputs(plan)
        for view, array in zip(plan.views, inputs, strict=True):
            np.copyto(view, array)
        do = calls.do
        self._in_flight = True
        for copy in plan.copies_in:
            do("rt.memcpy_async", *copy)
        do("mdl.execute_async", self._model, self._datasets.inputs, self._datasets.outputs, self._stream)
        for copy in plan.copies_out:
            do("rt.memcpy_async", *copy)
        self.synchronize()
        for index, output in enumerate(plan.outputs or ()):
            np.copyto(place(index, output.shape, output.dtype), output.view)

    def _learn_outputs(self, plan: _Plan) -> None:
        """Read the true output shapes of the gear that has just been set; they do not change for a gear."""
        outputs, copies = [], []
        for port, piece in zip(self._descriptor.outputs, self._outputs, strict=True):
            dtype = DTYPES[port.info.dtype]
            shape = port.info.dims if plan.gear_call is None else self._current_dims(port)
            size = byte_count(shape, dtype)
            if min(shape, default=0) < 0 or size > piece.size_bytes:
                raise DeviceFault(
                    "acl.mdl.get_cur_output_dims",
                    0,
                    Action.RELOAD,
                    f"output {port.info.name} is said to be {list(shape)}, which its buffer of {piece.size_bytes} "
                    "bytes does not hold",
                )
            outputs.append(_Output(shape, dtype, piece.view(shape, dtype)))
            if size and not self._session.shared:
                copies.append(
                    (piece.host_address, piece.size_bytes, piece.device, size, enums.COPY_DEVICE_TO_HOST, self._stream)
                )
        plan.copies_out = copies
        plan.outputs = outputs

    def _current_dims(self, port: Port) -> tuple[int, ...]:
        answer = self._session.run.get("mdl.get_cur_output_dims", self._desc, port.index)
        return tuple(int(dim) for dim in answer["dims"][: answer["dimCount"]])

    def _forget_views(self) -> None:
        self._plans = {}


def _place(piece: Piece) -> tuple[int, int]:
    return piece.device, piece.size_bytes
