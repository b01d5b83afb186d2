"""Target ``emulator``: an emulated OM, after the checks that ATC makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import onnx

from voxrepo.convert.fixed_shapes import Shapes
from voxrepo.convert.input_shape import VARIES
from voxrepo.convert.onnx_graph import (
    MAX_ONNX_BYTES,
    check_dtypes,
    check_operators,
    dtype_name,
    graph_inputs,
    sized,
    weights_bytes,
)
from voxrepo.convert.plan import ShapePlan
from voxrepo.convert.planned_shapes import planned_shapes
from voxrepo.convert.precision.tiers import FP16, FP32, INT8, MIXED, parse_precision
from voxrepo.convert.refusal import OM_TOO_LARGE, UNSOUND, AtcRefusal
from voxrepo.convert.target import BuildRequest, BuiltGraph, BuiltTensor, Progress, cpu_tools
from voxrepo_contract import emulated_om
from voxrepo_contract.emulated_om import GEAR_KINDS, RANGE, STATIC, OmHeader, OmTensor
from voxrepo_contract.errors import ConfigError

MODES = {FP32: "origin", FP16: "fp16", MIXED: "mixed_float16", INT8: "int8"}
"""How the file names its precision: ATC's word for it, where ATC has one."""


class EmulatorTarget:
    """See :class:`voxrepo.convert.target.Target`."""

    name = "emulator"
    device: Literal["cpu", "npu"] = "npu"
    suffix = ".om"
    lowers_itself = False

    def check_precision(self, precision: str) -> None:
        """Refuse what is no tier: the emulator runs graphs that were lowered before."""
        parse_precision(precision)

    def tools(self) -> dict[str, str]:
        """Versions of voxrepo, onnx and onnxruntime."""
        return cpu_tools()

    def build(self, request: BuildRequest, file: Path, progress: Progress) -> BuiltGraph:
        """Check the graph at every gear and write an emulated OM."""
        model, plan, soc = request.model, request.plan, request.soc
        precision = parse_precision(request.precision)
        check_operators(model, quantised=precision == INT8)
        check_dtypes(model, soc)
        shapes = planned_shapes(model, plan, soc, progress)
        header = _header(request, shapes)
        payload = _payload(model, plan)
        if len(payload) > MAX_ONNX_BYTES:
            raise AtcRefusal(OM_TOO_LARGE, f"the compiled graph has {len(payload)} bytes, more than 2 GB; split it")
        try:
            emulated_om.write(file, header, payload)
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror or error}", file=file) from error
        return BuiltGraph(
            file=file,
            kind=header.kind,
            inputs=tuple(BuiltTensor(t.name, t.dtype, t.dims) for t in header.inputs),
            outputs=tuple(BuiltTensor(t.name, t.dtype, t.dims) for t in header.outputs),
            gears=len(header.gears),
            weights_bytes=header.weights_bytes,
            work_bytes=header.work_bytes,
            unbounded_outputs=header.unbounded_outputs,
        )

    def reference_model(self, file: Path) -> bytes:
        """The ONNX graph inside."""
        return emulated_om.read(file).onnx


def _header(request: BuildRequest, shapes: Sequence[Shapes]) -> OmHeader:
    plan = request.plan
    inputs = tuple(
        OmTensor(entry.name, entry.dtype, plan.dims[entry.name], plan.ranges.get(entry.name, ()))
        for entry in graph_inputs(request.model)
    )
    dtypes = {value.name: dtype_name(value.type.tensor_type.elem_type) for value in request.model.graph.output}
    bounded = all(high != VARIES for axes in plan.ranges.values() for _, high in axes)
    outputs = tuple(_output(name, dtype, shapes, plan, bounded) for name, dtype in dtypes.items())
    by_gear = [{name: _known_dims(dims) for name, dims in at.outputs.items()} for at in shapes]
    depends = any(dims is None or None in dims for at in shapes for dims in at.outputs.values())
    return OmHeader(
        name=request.name,
        soc=request.soc.name,
        kind=plan.kind,
        inputs=inputs,
        outputs=outputs,
        gears=plan.gears,
        outputs_by_gear=tuple(by_gear) if plan.kind in GEAR_KINDS else (),
        input_order=plan.input_order,
        precision=MODES[parse_precision(request.precision)],
        weights_bytes=weights_bytes(request.model),
        work_bytes=max(at.work_bytes for at in shapes),
        unbounded_outputs=depends or (plan.kind == RANGE and any(VARIES in t.dims for t in outputs) and not bounded),
        conversion=request.command,
    )


def _known_dims(dims: Sequence[int | None] | None) -> tuple[int, ...]:
    return tuple(VARIES if dim is None else dim for dim in dims or ())


def _output(name: str, dtype: str, shapes: Sequence[Shapes], plan: ShapePlan, bounded: bool) -> OmTensor:
    found = [at.outputs[name] for at in shapes]
    if any(dims is None or len(dims) != len(found[0] or ()) for dims in found):
        raise AtcRefusal(
            UNSOUND, f"the number of axes of the output {name!r} depends on values; give it a fixed number of axes"
        )
    axes = [{dims[axis] for dims in found if dims is not None} for axis in range(len(found[0] or ()))]
    dims = tuple(next(iter(sizes)) or VARIES if len(sizes) == 1 else VARIES for sizes in axes)
    if plan.kind != RANGE:
        return OmTensor(name, dtype, dims)
    return OmTensor(name, dtype, dims, tuple(_range(sizes, bounded) for sizes in axes))


def _range(sizes: set[int | None], bounded: bool) -> tuple[int, int]:
    known = [size for size in sizes if size is not None]
    if None in sizes:
        return 0, VARIES
    return min(known), max(known) if bounded or len(known) == 1 else VARIES


def _payload(model: onnx.ModelProto, plan: ShapePlan) -> bytes:
    """The graph with what is fixed fixed."""
    copy = sized(model, plan.dims)
    copy.ClearField("doc_string")
    if plan.kind == STATIC:
        for value in copy.graph.output:
            value.type.tensor_type.ClearField("shape")
    payload: bytes = copy.SerializeToString(deterministic=True)
    return payload
