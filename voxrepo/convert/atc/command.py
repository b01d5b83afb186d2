"""The arguments of one ``atc`` call. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import onnx
from onnx import TensorProto

from voxrepo.convert.atc.flags import parse_extra
from voxrepo.convert.atc.precision import precision_mode
from voxrepo.convert.input_shape import VARIES
from voxrepo.convert.plan import ShapePlan
from voxrepo.convert.refusal import FLAGS_EXCLUDE, AtcRefusal
from voxrepo.convert.soc import Soc
from voxrepo_contract.emulated_om import BATCH_GEARS, DIMS_GEARS, RANGE

ONNX_FRAMEWORK = 5

_HOST_CPUS = ("", "x86_64", "aarch64")
_TWO_IMPLEMENTATIONS = {
    "Erf": "Erf",
    "Exp": "Exp",
    "Log": "Log",
    "Pow": "Pow",
    "Reciprocal": "Reciprocal",
    "Sigmoid": "Sigmoid",
    "Softmax": "SoftmaxV2",
    "Softplus": "Softplus",
    "Sqrt": "Sqrt",
    "Tanh": "Tanh",
}
"""ONNX operators whose kernels come in a fast and an exact kind, and what the graph engine calls them."""


@dataclass(frozen=True)
class AtcOptions:
    """What may be chosen beside the graph.

    Attributes:
        host_cpu: CPU of the machine that will serve, ``x86_64`` or ``aarch64``; empty: that of the build machine.
        external_weight: put weights into a folder beside the OM, for graphs near the size limit.
        log: level of ATC's log.
        compiler_cache: folder for compiled kernels, which speeds repeated builds; empty: none.
        extra: values of ``--atc-arg``.
    """

    host_cpu: str = ""
    external_weight: bool = False
    log: str = "error"
    compiler_cache: str = ""
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class AtcInputs:
    """Files of one call, as they are named on its command line.

    Attributes:
        model: the ONNX file.
        output: path of the OM without its suffix.
        keep_dtype: list of nodes that stay in FP32; empty: none.
        mixlist: changes to the lists of mixed precision; empty: none.
    """

    model: PurePath
    output: PurePath
    keep_dtype: str = ""
    mixlist: str = ""


@dataclass(frozen=True)
class AtcCommand:
    """One call.

    Attributes:
        flags: by name without dashes, in order.
    """

    flags: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """As the process gets them, without ``atc`` itself."""
        return [f"--{name}={value}" for name, value in self.flags.items()]


def atc_command(
    model: onnx.ModelProto, plan: ShapePlan, soc: Soc, precision: str, files: AtcInputs, options: AtcOptions
) -> AtcCommand:
    """The call that compiles a graph.

    Args:
        model: the graph in ``files.model``.
        plan: its shapes.
        soc: chip.
        precision: tier or mode, see :func:`voxrepo.convert.atc.precision.precision_mode`.
        files: names of files.
        options: what else is chosen; ``extra`` replaces the values set here, where it names the same flags.

    Raises:
        AtcRefusal: ATC would refuse it.
    """
    mode = precision_mode(precision, soc)
    if options.host_cpu not in _HOST_CPUS:
        raise AtcRefusal(FLAGS_EXCLUDE, f"the host CPU {options.host_cpu!r} is not known; use x86_64 or aarch64")
    flags = {
        "model": str(files.model),
        "framework": str(ONNX_FRAMEWORK),
        "output": str(files.output),
        "soc_version": soc.name,
        "input_format": "ND",
        **shape_flags(plan),
        "precision_mode_v2": mode.mode,
    }
    if files.keep_dtype:
        flags["keep_dtype"] = files.keep_dtype
    if files.mixlist and mode.mode.startswith("mixed"):
        flags["modify_mixlist"] = files.mixlist
    exact = exact_operators(model) if mode.lowers else []
    if exact:
        flags["op_select_implmode"] = "high_precision"
        flags["optypelist_for_implmode"] = ",".join(exact)
    flags["buffer_optimize"] = "l2_optimize"
    if all(
        value.type.tensor_type.elem_type in {TensorProto.FLOAT, TensorProto.FLOAT16} for value in model.graph.output
    ):
        # else outputs come in the precision that they are computed in, and differ from stage.yaml
        flags["output_type"] = "FP32"
    if options.host_cpu:
        flags |= {"host_env_os": "linux", "host_env_cpu": options.host_cpu}
    if options.external_weight:
        flags["external_weight"] = "1"
    if options.compiler_cache:
        flags |= {"op_compiler_cache_mode": "enable", "op_compiler_cache_dir": options.compiler_cache}
    flags["log"] = options.log
    extra = parse_extra(options.extra)
    if "op_precision_mode" in extra:
        flags.pop("op_select_implmode", None)
        flags.pop("optypelist_for_implmode", None)
    return AtcCommand({**flags, **extra})


def shape_flags(plan: ShapePlan) -> dict[str, str]:
    """``input_shape`` and the gears of a plan."""
    strange = next((name for name in plan.input_order if ";" in name or "," in name), None)
    if strange is not None:
        raise AtcRefusal(
            FLAGS_EXCLUDE, f"the input {strange!r} has ; or , in its name, which separates shapes; export it renamed"
        )
    if plan.kind == RANGE:
        return _range_flags(plan)
    shapes = {name: ",".join(map(str, plan.dims[name])) for name in plan.input_order}
    flags = {"input_shape": ";".join(f"{name}:{shape}" for name, shape in shapes.items())}
    if plan.kind == BATCH_GEARS:
        varying = next(name for name in plan.input_order if plan.dims[name] and plan.dims[name][0] == VARIES)
        flags["dynamic_batch_size"] = ",".join(str(gear[varying][0]) for gear in plan.gears)
    if plan.kind == DIMS_GEARS:
        places = [(name, axis) for name in plan.input_order for axis, d in enumerate(plan.dims[name]) if d == VARIES]
        flags["dynamic_dims"] = ";".join(
            ",".join(str(gear[name][axis]) for name, axis in places) for gear in plan.gears
        )
    return flags


def _range_flags(plan: ShapePlan) -> dict[str, str]:
    shapes = {name: ",".join(_range(*pair) for pair in plan.ranges[name]) for name in plan.input_order}
    if any(high == VARIES for axes in plan.ranges.values() for _, high in axes):
        # in --input_shape, -1 without gears is an error to some releases; the older flag takes it as "any size"
        return {"input_shape_range": ";".join(f"{name}:[{shape}]" for name, shape in shapes.items())}
    return {"input_shape": ";".join(f"{name}:{shape}" for name, shape in shapes.items())}


def _range(low: int, high: int) -> str:
    if high == VARIES:
        return "-1"
    return str(low) if low == high else f"{low}~{high}"


def exact_operators(model: onnx.ModelProto) -> list[str]:
    """Operators of the graph for which the exact kernel is asked for."""
    present = {node.op_type for node in model.graph.node}
    return sorted(engine for name, engine in _TWO_IMPLEMENTATIONS.items() if name in present)


def keep_list_text(nodes: Sequence[str]) -> str:
    """Contents of the file for ``--keep_dtype``: a node a line."""
    return "".join(f"{name}\n" for name in sorted(nodes))


def mixlist_of(model: onnx.ModelProto, kept: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Contents of the file for ``--modify_mixlist``: operators of which every node is kept go to the black list.

    Only operators that the graph engine and ONNX call alike are named; the others are kept node by node.
    """
    names = set(kept)
    alike = {name for name, engine in _TWO_IMPLEMENTATIONS.items() if name == engine}
    types = {node.op_type for node in model.graph.node if node.name in names}
    whole = sorted(
        op_type
        for op_type in types & alike
        if all(node.name in names for node in model.graph.node if node.op_type == op_type)
    )
    return {"black-list": {"to-add": whole}} if whole else {}
