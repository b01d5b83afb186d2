"""A stand-in for Ascend's compiler: checks its command line and graph as the real one does, and emulates its output.

Run as a program. It knows the flags by their documentation, not by what voxrepo writes, and prints errors in the form
that public reports show. On success it writes an emulated OM.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import onnx


# name: allowed values, () where any
DOCUMENTED: dict[str, tuple[str, ...]] = {
    "mode": ("0", "1", "3", "5", "6", "30"),
    "model": (),
    "framework": ("0", "1", "3", "5"),
    "output": (),
    "soc_version": (),
    "input_format": ("NCHW", "NHWC", "ND", "NCDHW", "NDHWC"),
    "input_shape": (),
    "input_shape_range": (),
    "dynamic_batch_size": (),
    "dynamic_image_size": (),
    "dynamic_dims": (),
    "precision_mode": (
        "force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_fp32_to_fp16", "must_keep_origin_dtype",
        "allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16", "allow_fp32_to_bf16",
    ),
    "precision_mode_v2": (
        "fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16", "mixed_hif8", "cube_hif8",
    ),
    "keep_dtype": (),
    "modify_mixlist": (),
    "customize_dtypes": (),
    "op_precision_mode": (),
    "op_select_implmode": ("high_performance", "high_precision", "high_performance_for_all", "high_precision_for_all"),
    "optypelist_for_implmode": (),
    "buffer_optimize": ("l1_optimize", "l2_optimize", "off_optimize"),
    "output_type": (),
    "out_nodes": (),
    "input_fp16_nodes": (),
    "insert_op_conf": (),
    "external_weight": ("0", "1", "2"),
    "virtual_type": ("0", "1"),
    "deterministic": ("0", "1"),
    "jit_compile": ("0", "1", "2"),
    "enable_single_stream": ("true", "false"),
    "host_env_os": (),
    "host_env_cpu": (),
    "op_compiler_cache_mode": ("disable", "enable", "force"),
    "op_compiler_cache_dir": (),
    "log": ("debug", "info", "warning", "error", "null"),
    "status_check": ("0", "1"),
}  # fmt: skip
SOCS = re.compile(
    r"Ascend(310P[1357]|310B[1-4]|910(A|B|ProA|ProB|PremiumA)|910B[1-4](C|-1)?|910_93(91|92|81|82|72|62))"
)
WITHOUT_BF16 = re.compile(r"Ascend(310P|910(A|B|Pro.|PremiumA)$)")
READS = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "ArgMax",
        "AveragePool",
        "BatchNormalization",
        "Cast",
        "Ceil",
        "Clip",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "Conv",
        "ConvTranspose",
        "Cos",
        "CumSum",
        "Div",
        "Dropout",
        "Equal",
        "Erf",
        "Exp",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Gemm",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "InstanceNormalization",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "MatMul",
        "Max",
        "Min",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "OneHot",
        "Or",
        "PRelu",
        "Pad",
        "Pow",
        "Range",
        "Reciprocal",
        "ReduceMax",
        "ReduceMean",
        "ReduceSum",
        "Relu",
        "Reshape",
        "Resize",
        "ScatterND",
        "Shape",
        "Sigmoid",
        "Sin",
        "Slice",
        "Softmax",
        "Softplus",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tanh",
        "Tile",
        "TopK",
        "Transpose",
        "Unsqueeze",
        "Where",
    ]
)  # what this stand-in's "release" reads of the operators that occur in the tests
NO_KERNEL = {"Ascend310P3": {"Det"}}
COMPLEX64 = 14  # ONNX element type
WISH = "FAKE_ATC"  # environment variable: what else goes wrong


def fail(code: str, text: str, *more: str) -> NoReturn:
    print("ATC start working now, please wait for a moment.")
    print("ATC run failed, Please check the detail log, Try 'atc --help' for more information")
    print(f"{code}: [PID: {os.getpid()}] 2026-11-30-12:00:00.123.456 {text}")
    print("        Solution: see the manual of this stand-in.")
    print("        TraceBack (most recent call last):")
    for line in more:
        print(f"        {line}")
    sys.exit(255)


def parse(arguments: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not equals:
            fail("E10001", f"Value [{argument}] for parameter [{name}] is invalid. Reason: it is no option.")
        if name not in DOCUMENTED:
            print(f"atc: ERROR: unknown command line flag '{name}'")
            fail("E10001", f"Value [{value}] for parameter [--{name}] is invalid. Reason: unknown command line flag.")
        if not value:
            fail("E10004", f"Value for [--{name}] is empty.")
        if name == "log" and value not in DOCUMENTED[name]:
            fail("E10010", f"Value [{value}] for parameter [--log] is invalid.")
        if DOCUMENTED[name] and value not in DOCUMENTED[name]:
            code = "E10005" if DOCUMENTED[name] == ("true", "false") else "E10001"
            allowed = "/".join(DOCUMENTED[name])
            fail(code, f"Value [{value}] for parameter [--{name}] is invalid. Reason: it is one of {allowed}.")
        flags[name] = value
    return flags


def check_flags(flags: dict[str, str]) -> None:
    for name in ("model", "framework", "output", "soc_version"):
        if name not in flags:
            fail("E10007", f"[--{name}] is required. The value must be set.")
    if flags["framework"] != "5":
        fail("E10041", f"Failed to load the model from [{flags['model']}].")
    if not SOCS.fullmatch(flags["soc_version"]):
        soc = flags["soc_version"]
        fail("E10001", f"Value [{soc}] for parameter [--soc_version] is invalid. Reason: this chip is not known.")
    if not Path(flags["model"]).is_file():
        fail("E13000", f"Path [{flags['model']}] is empty. Reason: No such file or directory.")
    if not Path(flags["output"]).name or flags["output"].endswith("/"):
        fail("E10022", f"Path [{flags['output']}] for parameter [--output] does not include the file name.")
    dynamic = [
        n for n in ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "input_shape_range") if n in flags
    ]
    if len(dynamic) > 1:
        fail(
            "E10009",
            "[--dynamic_batch_size], [--dynamic_image_size], [--input_shape_range] and [--dynamic_dims] go alone.",
        )
    for pair in (
        ("precision_mode", "precision_mode_v2"),
        ("insert_op_conf", "dynamic_dims"),
        ("input_shape", "input_shape_range"),
    ):
        if all(name in flags for name in pair):
            fail("E10047", f"--{pair[0]} and --{pair[1]} are mutually exclusive.")
    if "dynamic_dims" in flags and flags.get("input_format") != "ND":
        given = flags.get("input_format", "NCHW")
        fail("E10001", f"Value [{given}] for parameter [--input_format] is invalid. Reason: dynamic_dims needs ND.")
    bf16 = "bf" in flags.get("precision_mode_v2", "") or "bf16" in flags.get("precision_mode", "")
    if bf16 and WITHOUT_BF16.match(flags["soc_version"]):
        mode = flags.get("precision_mode_v2", flags.get("precision_mode", ""))
        fail(
            "E10001",
            f"Value [{mode}] for parameter [--precision_mode_v2] is invalid. Reason: no bfloat16 on this chip.",
        )
    if "op_select_implmode" in flags and "op_precision_mode" in flags:
        fail(
            "E10056",
            "Cannot configure both parameters [--op_select_implmode] and [--op_precision_mode] simultaneously.",
        )
    if "optypelist_for_implmode" in flags and "op_select_implmode" not in flags:
        fail("E10001", "Value [] for parameter [--op_select_implmode] is invalid. Reason: the list needs it.")
    output_type = flags.get("output_type", "FP32")
    if not re.fullmatch(r"(FP32|FP16|UINT8|INT8)|(\S+:\d+:(FP32|FP16|UINT8|INT8))", output_type):
        fail("E10001", f"Value [{output_type}] for parameter [--output_type] is invalid. Reason: no such type.")
    for name in ("keep_dtype", "op_precision_mode", "customize_dtypes", "modify_mixlist"):
        if name in flags and not Path(flags[name]).is_file():
            fail("E10410", f"File [{flags[name]}] does not exist.")
    if "modify_mixlist" in flags:
        if not flags.get("precision_mode_v2", "").startswith("mixed"):
            fail("E10001", "Value [x] for parameter [--modify_mixlist] is invalid. Reason: only with mixed precision.")
        try:
            lists = json.loads(Path(flags["modify_mixlist"]).read_text(encoding="utf-8"))
            assert set(lists) <= {"black-list", "white-list", "gray-list"}
            assert all(set(change) <= {"to-add", "to-remove"} for change in lists.values())
        except (ValueError, AssertionError):
            fail("E10032", f"Parse json file [{flags['modify_mixlist']}] failed. Reason: [bad lists].")


def shapes_of(flags: dict[str, str], graph: onnx.GraphProto) -> dict[str, list[str]]:
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: value for value in graph.input if value.name not in constants}
    given: dict[str, list[str]] = {}
    text = flags.get("input_shape") or flags.get("input_shape_range") or ""
    for part in text.split(";") if text else []:
        name, colon, dims = part.replace("[", "").replace("]", "").rpartition(":")
        sizes = dims.split(",") if dims else []
        if not colon or not all(re.fullmatch(r"-?\d+|\d+~-?\d+", size) for size in sizes):
            fail("E10002", f"Value [{text}] for parameter [--input_shape] is invalid. Reason: [{part}].")
        if name not in inputs:
            fail("E10016", f"Opname [{name}] specified in [--input_shape] is not found in the model.")
        rank = len(inputs[name].type.tensor_type.shape.dim)
        if len(sizes) != rank:
            fail("E10049", f"Dimension count [{len(sizes)}] configured in [--input_shape] is not [{rank}] of [{name}].")
        given[name] = sizes
    for name, value in inputs.items():
        if name in given:
            continue
        own = [str(d.dim_value) if d.dim_value > 0 else "-1" for d in value.type.tensor_type.shape.dim]
        if "-1" in own:
            fail("E10011", f"Value [{name}] for parameter [--input_shape] is invalid. It has sizes that vary: {own}.")
        given[name] = own
    return given


def check_shapes(flags: dict[str, str], shapes: dict[str, list[str]]) -> None:
    places = [(name, axis) for name, dims in shapes.items() for axis, dim in enumerate(dims) if dim == "-1"]
    ranged = any("~" in dim for dims in shapes.values() for dim in dims)
    if "dynamic_batch_size" in flags or "dynamic_dims" in flags:
        if not places or ranged:
            fail("E10040", "Nodes in [--input_shape] must have -1 axes and no '~' when gears are given.")
    elif places and not ranged and "input_shape_range" not in flags:
        fail("E10011", f"Value [{flags.get('input_shape')}] for parameter [--input_shape] is invalid. It has [-1].")
    gears: list[list[str]] = []
    if "dynamic_batch_size" in flags:
        if any(axis != 0 for _, axis in places):
            fail("E10018", "Value [-1] for shape [1] is invalid. When [--dynamic_batch_size] is included only N is -1.")
        gears = [[size] for size in flags["dynamic_batch_size"].split(",")]
    if "dynamic_dims" in flags:
        gears = [gear.split(",") for gear in flags["dynamic_dims"].split(";")]
    if not gears:
        return
    if len(gears) < 2:
        fail("E10035", f"[--dynamic_batch_size] or [--dynamic_dims] has [{len(gears)}] profiles, less than [2].")
    if len(gears) > 100:
        fail("E10036", f"[--dynamic_batch_size] or [--dynamic_dims] has [{len(gears)}] profiles, more than [100].")
    for gear in gears:
        if len(gear) != len(gears[0]):
            fail("E10037", f"Profiles of [--dynamic_dims] differ: [{len(gears[0])}] and [{len(gear)}] dimensions.")
        if any(not size.isdigit() or int(size) <= 0 for size in gear):
            fail("E10038", f"Dimension size [{gear}] is invalid. The value must be greater than 0.")
    if "dynamic_dims" in flags and len(gears[0]) != len(places):
        code = "E10045" if len(places) > len(gears[0]) else "E10046"
        fail(code, f"[--input_shape] has [{len(places)}] -1 axes and a profile of [--dynamic_dims] [{len(gears[0])}].")
    if len({tuple(gear) for gear in gears}) != len(gears):
        fail("E10039", "The [--dynamic_batch_size] or [--dynamic_dims] argument has duplicate profiles.")


def check_graph(flags: dict[str, str], model: onnx.ModelProto) -> None:
    default = [entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}]
    if len(default) > 1:
        fail("E16005", f"The model has [{len(default)}] [--domain_version] fields, but only one is allowed.")
    opset = default[0]
    unread = [n for n in model.graph.node if n.op_type not in READS | {"Det"} or not 11 <= opset <= 18]
    if unread:
        lines = [f"No parser is registered for Op [{n.name}, optype [ai.onnx::{opset}::{n.op_type}]]." for n in unread]
        fail("E19010", *lines[:20])
    names = [node.name for node in model.graph.node if node.name]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        fail("E13009", f"Operator [{twice}] already exists in the graph.")
    missing = [n for n in model.graph.node if n.op_type in NO_KERNEL.get(flags["soc_version"], ())]
    if missing:
        node = missing[0]
        fail("EZ3003", f"No supported Ops kernel and engine are found for [{node.name}], optype [{node.op_type}].")
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == COMPLEX64:
            fail("EZ3002", "Optype [Data] of Ops kernel [AIcoreEngine] is unsupported. Reason: complex64.")
    if "keep_dtype" in flags:
        for line in Path(flags["keep_dtype"]).read_text(encoding="utf-8").splitlines():
            if line not in names and not line.startswith("OpType::"):
                fail("E10016", f"Opname [{line}] specified in [--keep_dtype] is not found in the model.")


def misbehave(flags: dict[str, str]) -> None:
    """Failures of the machine, asked for by the test."""
    wish = os.environ.get(WISH, "")
    output = Path(flags["output"])
    if wish == "no_opp":
        fail("E10501", "IR for Op [/enc/Conv, optype [Conv2D]], is not registered.")
    if wish == "no_decorator":
        fail("E40021", "Failed to compile Op [/dec/Slice_3_ascend_mbatch_batch_5]. (optype: [StridedSliceD])")
    if wish == "inner":
        fail("EZ9999", "Inner Error!")
    if wish == "unknown_code":
        fail("E77777", "The moon is in the wrong quarter.")
    if wish == "disk_full":
        output.with_name(output.name + ".om").write_bytes(b"half")
        fail("E13004", f"Failed to write file [{output}.om]. Reason: [No space left on device].")
    if wish == "silent_crash":
        output.with_name(output.name + ".om").write_bytes(b"half")
        os.kill(os.getpid(), 11)
    if wish == "hang":
        output.with_name(output.name + ".om").write_bytes(b"half")
        time.sleep(600)
    if wish == "no_file":
        print("ATC run success, welcome to the next use.")
        sys.exit(0)
    if wish == "damaged":
        output.with_name(output.name + ".om").write_bytes(b"IMOD" + bytes(300))
        sys.exit(0)


def main(arguments: list[str]) -> None:
    flags = parse(arguments)
    check_flags(flags)
    import onnx  # late: most refusals do not need it

    try:
        model = onnx.load(flags["model"])
    except Exception:
        fail("E10041", f"Failed to load the model from [{flags['model']}].")
    if not model.graph.node:
        fail("E16004", "ONNX model has no graph.")
    shapes = shapes_of(flags, model.graph)
    check_shapes(flags, shapes)
    check_graph(flags, model)
    misbehave(flags)
    write(flags, model)
    print("ATC start working now, please wait for a moment.")
    print("ATC run success, welcome to the next use.")


def write(flags: dict[str, str], model: onnx.ModelProto) -> None:
    from voxrepo.convert.emulator_target import EmulatorTarget
    from voxrepo.convert.onnx_graph import graph_inputs
    from voxrepo.convert.plan import ShapeFlags, plan_shapes
    from voxrepo.convert.soc import parse_soc
    from voxrepo.convert.target import BuildRequest
    from voxrepo_contract import emulated_om

    shape_flags = ShapeFlags(
        flags.get("input_shape"),
        flags.get("input_shape_range"),
        flags.get("dynamic_batch_size"),
        flags.get("dynamic_dims"),
    )
    plan = plan_shapes(graph_inputs(model), shape_flags)
    name = Path(flags["output"]).name
    soc = parse_soc(flags["soc_version"])
    command = "atc " + " ".join(f"--{key}={value}" for key, value in flags.items())
    file = Path(flags["output"] + ".om")
    if os.environ.get(WISH) == "host_bound":
        file = Path(flags["output"] + "_linux_x86_64.om")
    if os.environ.get(WISH) == "wrong_chip":
        soc = parse_soc("Ascend910B3")
    request = BuildRequest(name, model, plan, soc, "origin", command)
    EmulatorTarget().build(request, file, lambda _message, _share: None)
    made = emulated_om.read(file)
    precision = flags.get("precision_mode_v2", "fp16")
    emulated_om.write(file, replace(made.header, precision=precision), made.onnx)


if __name__ == "__main__":
    main(sys.argv[1:])
