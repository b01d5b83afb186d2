from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tests.convert.atc.helpers import request, vocoder_request
from tests.convert.graphs import adder
from voxrepo.convert.atc.command import AtcInputs, AtcOptions, atc_command, keep_list_text, mixlist_of, shape_flags
from voxrepo.convert.atc.flags import FLAGS, parse_extra
from voxrepo.convert.atc.precision import precision_mode
from voxrepo.convert.onnx_graph import graph_inputs
from voxrepo.convert.plan import ShapeFlags, plan_shapes
from voxrepo.convert.refusal import AtcRefusal
from voxrepo.convert.soc import parse_soc

FILES = AtcInputs(PurePosixPath("decoder.onnx"), PurePosixPath("decoder"))


def flags_of(made, *, files=FILES, options=None):
    command = atc_command(made.model, made.plan, made.soc, made.precision, files, options or AtcOptions())
    return dict(command.flags)


def test_a_graph_with_gears_has_every_flag_it_needs():
    flags = flags_of(request())
    assert flags == {
        "model": "decoder.onnx",
        "framework": "5",
        "output": "decoder",
        "soc_version": "Ascend310P3",
        "input_format": "ND",
        "input_shape": "latent:-1,4,-1;mask:-1,1,-1",
        "dynamic_dims": "1,8,1,8;2,16,2,16",
        "precision_mode_v2": "fp16",
        "buffer_optimize": "l2_optimize",
        "output_type": "FP32",
        "log": "error",
    }
    assert set(flags) <= FLAGS


def test_gears_of_batches_use_dynamic_batch_size():
    flags = flags_of(request(gears=[{"batch": 1, "frames": 8}, {"batch": 4, "frames": 8}]))
    assert "dynamic_batch_size" not in flags, "frames are an axis name, so they vary"
    plan = plan_shapes(graph_inputs(adder(["batch", 4])), ShapeFlags(input_shape="x:-1,4", dynamic_batch="1,2,4"))
    assert shape_flags(plan) == {"input_shape": "x:-1,4", "dynamic_batch_size": "1,2,4"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x:1~8,4", {"input_shape": "x:1~8,4"}),
        ("x:2,4", {"input_shape": "x:2,4"}),
    ],
)
def test_ranges_and_fixed_sizes_are_written_as_atc_reads_them(given: str, expected: dict[str, str]):
    assert shape_flags(plan_shapes(graph_inputs(adder(["n", 4])), ShapeFlags(input_shape=given))) == expected


def test_a_size_without_an_upper_bound_uses_the_older_flag():
    plan = plan_shapes(graph_inputs(adder(["n", 4])), ShapeFlags(input_shape_range="x:[-1,4]"))
    assert shape_flags(plan) == {"input_shape_range": "x:[-1,4]"}


@pytest.mark.parametrize(
    ("precision", "soc", "mode"),
    [
        ("fp32", "Ascend910B3", "origin"),
        ("fp32", "Ascend910_9392", "origin"),
        ("fp32", "Ascend310P3", "cube_fp16in_fp32out"),
        ("fp32", "Ascend910B", "cube_fp16in_fp32out"),
        ("origin", "Ascend310P3", "origin"),
        ("fp16", "Ascend310P3", "fp16"),
        ("mixed", "Ascend310B4", "mixed_float16"),
        ("mixed_bfloat16", "Ascend910B3", "mixed_bfloat16"),
        ("int8", "Ascend310P3", "fp16"),
    ],
)
def test_a_tier_is_a_mode_of_the_chip(precision: str, soc: str, mode: str):
    found = precision_mode(precision, parse_soc(soc))
    assert found.mode == mode
    assert found.why


@pytest.mark.parametrize(("precision", "said"), [("fp8", "fp32, fp16, mixed, int8"), ("mixed_bfloat16", "no bfloat16")])
def test_a_precision_that_the_chip_does_not_have_is_refused(precision: str, said: str):
    with pytest.raises(AtcRefusal, match=said):
        precision_mode(precision, parse_soc("Ascend310P3"))


def test_lowered_graphs_ask_for_exact_kernels_where_there_are_two():
    assert flags_of(vocoder_request())["optypelist_for_implmode"] == "Tanh"
    assert flags_of(vocoder_request())["op_select_implmode"] == "high_precision"
    assert "op_select_implmode" not in flags_of(vocoder_request(precision="fp32"))
    own = AtcOptions(extra=("op_precision_mode=ops.ini",))
    assert "op_select_implmode" not in flags_of(vocoder_request(), options=own)


def test_kept_nodes_go_into_a_list_and_whole_operators_to_the_black_list():
    model = vocoder_request().model
    tanh = next(node.name for node in model.graph.node if node.op_type == "Tanh")
    conv = next(node.name for node in model.graph.node if node.op_type == "Conv")
    assert keep_list_text([tanh, conv]) == "".join(f"{name}\n" for name in sorted([conv, tanh]))
    assert mixlist_of(model, [tanh, conv]) == {"black-list": {"to-add": ["Tanh"]}}
    assert mixlist_of(model, [conv]) == {}
    files = AtcInputs(FILES.model, FILES.output, "keep.cfg", "mix.json")
    assert flags_of(vocoder_request(precision="mixed"), files=files)["modify_mixlist"] == "mix.json"
    assert "modify_mixlist" not in flags_of(vocoder_request(precision="fp16"), files=files)
    assert flags_of(vocoder_request(precision="fp16"), files=files)["keep_dtype"] == "keep.cfg"


def test_the_host_weights_cache_and_extra_flags_are_passed_on():
    options = AtcOptions(
        "aarch64", True, "info", "/var/cache/atc", ("--deterministic=1", "buffer_optimize=off_optimize")
    )
    flags = flags_of(request(), options=options)
    assert (flags["host_env_os"], flags["host_env_cpu"], flags["external_weight"]) == ("linux", "aarch64", "1")
    assert (flags["op_compiler_cache_mode"], flags["op_compiler_cache_dir"]) == ("enable", "/var/cache/atc")
    assert (flags["deterministic"], flags["buffer_optimize"], flags["log"]) == ("1", "off_optimize", "info")


def test_an_output_of_integers_keeps_its_type():
    made = request(
        adder(["n", 4], kind=6, op="Abs"),
        plan=plan_shapes(graph_inputs(adder(["n", 4], kind=6)), ShapeFlags(input_shape="x:2,4")),
    )
    assert "output_type" not in flags_of(made)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("deterministic", "is not flag=value"),
        ("deterministc=1", "did you mean deterministic"),
        ("soc_version=Ascend910A", "use the flags of `voxrepo convert`"),
        ("dynamic_dims=1;2", "use the flags of `voxrepo convert`"),
        ("precision_mode=force_fp16", "use --precision"),
    ],
)
def test_extra_flags_that_do_not_fit_are_refused(given: str, said: str):
    with pytest.raises(AtcRefusal, match=said):
        parse_extra([given])


def test_an_extra_flag_given_twice_is_refused():
    with pytest.raises(AtcRefusal, match="stands twice"):
        parse_extra(["deterministic=1", "--deterministic=0"])


def test_an_input_whose_name_separates_shapes_is_refused():
    model = adder(["n", 4])
    model.graph.input[0].name = model.graph.node[0].input[0] = "x;y"
    plan = plan_shapes(graph_inputs(adder(["n", 4])), ShapeFlags(input_shape="x:2,4"))
    object.__setattr__(plan, "input_order", ("x;y",))
    with pytest.raises(AtcRefusal, match="separates shapes"):
        shape_flags(plan)
