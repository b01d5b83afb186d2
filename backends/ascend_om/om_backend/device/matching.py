"""Whether a graph is what ``stage.yaml`` says it is. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from om_backend.device.description import GraphDescription, TensorInfo
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import GraphSpec, GraphTensor


@dataclass(frozen=True)
class Binding:
    """Names of ``stage.yaml`` in the graph's own order.

    Attributes:
        inputs: one name per input of the graph.
        outputs: one name per output of the graph.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def bind(spec: GraphSpec, description: GraphDescription, file: Path) -> Binding:
    """Check a loaded graph against ``stage.yaml`` and find which tensor is which.

    Inputs go by name. Outputs go by name where the names agree, also in the form ``operator:0:name`` that ATC makes of
    an ONNX output; else by position, where number and data types agree.

    Raises:
        ConfigError: naming what differs, with both values.
    """
    inputs = _by_name(spec.inputs, description.inputs)
    if inputs is None:
        raise ConfigError(
            f"stage.yaml lists the inputs {_listed(spec.inputs)}, the graph has {_listed(description.inputs)}",
            file=file,
        )
    outputs = _by_name(spec.outputs, description.outputs)
    if outputs is None and len(spec.outputs) == len(description.outputs):
        outputs = list(spec.outputs)
    if outputs is None:
        raise ConfigError(
            f"stage.yaml lists the outputs {_listed(spec.outputs)}, the graph has {_listed(description.outputs)}",
            file=file,
        )
    for kind, ours, theirs in (("input", inputs, description.inputs), ("output", outputs, description.outputs)):
        for listed, have in zip(ours, theirs, strict=True):
            _check_tensor(kind, listed, have, file)
    _check_gears(spec, inputs, description, file)
    return Binding(tuple(tensor.name for tensor in inputs), tuple(tensor.name for tensor in outputs))


def _by_name(listed: Sequence[GraphTensor], have: Sequence[TensorInfo]) -> list[GraphTensor] | None:
    by_name = {tensor.name: tensor for tensor in listed}
    for names in ([tensor.name for tensor in have], [tensor.name.rpartition(":")[2] for tensor in have]):
        if len(names) == len(listed) and set(names) == set(by_name):
            return [by_name[name] for name in names]
    return None


def _check_tensor(kind: str, listed: GraphTensor, have: TensorInfo, file: Path) -> None:
    if listed.dtype != have.dtype:
        hint = ""
        if {listed.dtype, have.dtype} == {"FP16", "FP32"}:
            hint = (
                "; the graph was converted with other data types at its edges: convert it again without "
                "--input_fp16_nodes and with --output_type as in stage.yaml, or list the type that it has"
            )
        raise ConfigError(
            f"{kind} {listed.name!r} is {listed.dtype} in stage.yaml and {have.dtype} in the graph{hint}", file=file
        )
    if not have.dims and not listed.dims:
        return
    fits = len(listed.dims) == len(have.dims) and all(
        isinstance(want, str) or size < 0 or want == size for want, size in zip(listed.dims, have.dims, strict=True)
    )
    # an output whose shape follows from values has no dims to compare before it ran
    if not fits and not (kind == "output" and not have.dims):
        raise ConfigError(
            f"{kind} {listed.name!r} is {listed.dims} in stage.yaml and {list(have.dims)} in the graph", file=file
        )


def _check_gears(spec: GraphSpec, inputs: Sequence[GraphTensor], description: GraphDescription, file: Path) -> None:
    if description.kind == "range":
        return
    if description.kind == "static":
        built = [{info.name: tuple(info.dims) for info in description.inputs}]
    else:
        built = [{name: tuple(dims) for name, dims in gear.items()} for gear in description.gears]
    for gear in spec.gears or [{}]:
        asked: dict[str, tuple[int, ...]] = {}
        for info, tensor in zip(description.inputs, inputs, strict=True):
            missing = [axis for axis in tensor.dims if isinstance(axis, str) and axis not in gear]
            if missing:
                raise ConfigError(
                    f"gears: the axis {missing[0]!r} of input {tensor.name!r} varies, and "
                    + (f"the gear {gear} does not say its size" if gear else "no gears are listed")
                    + f"; the graph is built for {_shown(built)}",
                    file=file,
                )
            asked[info.name] = tuple(gear[axis] if isinstance(axis, str) else axis for axis in tensor.dims)
        if asked not in built:
            raise ConfigError(
                f"gears: the graph is not built for {_shown([asked])}, it is for {_shown(built)}", file=file
            )


def _listed(tensors: Sequence[GraphTensor | TensorInfo]) -> dict[str, str]:
    return {tensor.name: tensor.dtype for tensor in tensors}


def _shown(gears: Sequence[dict[str, tuple[int, ...]]]) -> str:
    texts = [" ".join(f"{name}:{list(dims)}" for name, dims in gear.items()) for gear in gears[:8]]
    return "; ".join(texts) + (f" and {len(gears) - 8} more" if len(gears) > 8 else "")
