"""Converting any ONNX file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxrepo.convert.onnx_graph import check_operators, graph_inputs, read_onnx
from voxrepo.convert.plan import ShapeFlags, plan_shapes
from voxrepo.convert.precision.lowerer import lower
from voxrepo.convert.precision.tiers import FP16, INT8, MIXED, parse_precision
from voxrepo.convert.soc import Soc
from voxrepo.convert.target import BuildRequest, BuiltGraph, Target
from voxrepo_contract.errors import ConfigError, InvalidArgument


@dataclass(frozen=True)
class ConvertedFile:
    """A converted file."""

    built: BuiltGraph
    soc: Soc
    target: str

    def summary(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        built = self.built
        return {
            "file": str(built.file),
            "is_built": built.is_built,
            "script": None if built.script is None else str(built.script),
            "target": self.target,
            "soc": self.soc.name,
            "kind": built.kind,
            "gears": built.gears,
            "inputs": [{"name": t.name, "dtype": t.dtype, "dims": list(t.dims)} for t in built.inputs],
            "outputs": [{"name": t.name, "dtype": t.dtype, "dims": list(t.dims)} for t in built.outputs],
            "weights_bytes": built.weights_bytes,
            "work_bytes": built.work_bytes,
            "unbounded_outputs": built.unbounded_outputs,
        }


def convert_file(
    source: Path,
    output: Path,
    target: Target,
    soc: Soc,
    flags: ShapeFlags,
    *,
    precision: str,
    command: str,
    extra: tuple[str, ...] = (),
    progress: Callable[[str, float], None] = lambda _message, _share: None,
) -> ConvertedFile:
    """Convert one ONNX file; an existing ``output`` is replaced in one step, a failure leaves it as it was.

    Raises:
        InvalidArgument: the precision needs a voice.
        AtcRefusal: the graph, its shapes or the flags are not what the device's compiler takes.
        ConfigError: a file cannot be read or written.
    """
    if output.is_dir() or not output.parent.is_dir():
        raise ConfigError("cannot be written: give -o the name of a file in a folder that exists", file=output)
    if output.resolve() == source.resolve():
        raise ConfigError("is the source itself; give -o another name, ending in .om", file=output)
    tier = parse_precision(precision)
    target.check_precision(tier)
    if tier in {MIXED, INT8}:
        raise InvalidArgument(
            f"--precision {tier} needs texts to judge by, which a file has not; convert a voice, or use fp16 or fp32"
        )
    progress(f"reading {source.name}", 0.0)
    model = read_onnx(source)
    plan = plan_shapes(graph_inputs(model), flags)
    if tier == FP16 and not target.lowers_itself:
        check_operators(model)  # of the graph as it was given, before lowering adds to it
        model = lower(model, tier, device=target.device)
    request = BuildRequest(output.stem, model, plan, soc, tier, command, (), extra)
    built = target.build(request, output, progress)
    progress("done", 1.0)
    return ConvertedFile(built, soc, target.name)
