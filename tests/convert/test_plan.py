from __future__ import annotations

import pytest

from voxrepo.convert.plan import GraphInput, ShapeFlags, gear_plan, plan_shapes
from voxrepo.convert.refusal import AtcRefusal

X = GraphInput("x", "FP32", (None, 80, None))
M = GraphInput("m", "FP32", (None, None))
FIXED = GraphInput("f", "INT64", (1, 4))


def refusal(inputs, **flags) -> AtcRefusal:
    with pytest.raises(AtcRefusal) as refused:
        plan_shapes(inputs, ShapeFlags(**flags))
    return refused.value


def test_a_graph_of_fixed_shape_needs_no_flags():
    plan = plan_shapes([FIXED], ShapeFlags())
    assert (plan.kind, plan.dims, plan.probes()) == ("static", {"f": (1, 4)}, [{"f": (1, 4)}])


def test_a_shape_fixes_a_graph():
    plan = plan_shapes([X, FIXED], ShapeFlags(input_shape="x:1,80,64"))
    assert plan.kind == "static"
    assert plan.dims == {"x": (1, 80, 64), "f": (1, 4)}
    assert plan.input_order == ("x", "f")


def test_batch_gears_fill_the_first_axis_of_every_input():
    plan = plan_shapes([X, M], ShapeFlags(input_shape="m:-1,7;x:-1,80,5", dynamic_batch="1,4"))
    assert plan.kind == "batch_gears"
    assert plan.dims == {"x": (-1, 80, 5), "m": (-1, 7)}
    assert plan.gears == ({"m": (1, 7), "x": (1, 80, 5)}, {"m": (4, 7), "x": (4, 80, 5)})
    assert plan.input_order == ("m", "x")


def test_batch_gears_alone_suffice_where_only_the_batch_varies():
    plan = plan_shapes([GraphInput("x", "FP32", (None, 3))], ShapeFlags(dynamic_batch="1,2"))
    assert plan.gears == ({"x": (1, 3)}, {"x": (2, 3)})


def test_dims_gears_fill_the_placeholders_in_the_order_of_the_flag():
    plan = plan_shapes([X, M], ShapeFlags(input_shape="m:1,-1;x:-1,80,-1", dynamic_dims="5,1,6;7,2,8"))
    assert plan.kind == "dims_gears"
    assert plan.gears == ({"m": (1, 5), "x": (1, 80, 6)}, {"m": (1, 7), "x": (2, 80, 8)})


def test_ranges_are_probed_at_their_ends():
    plan = plan_shapes([X], ShapeFlags(input_shape="x:1~8,80,16"))
    assert plan.kind == "range"
    assert plan.dims == {"x": (-1, 80, 16)}
    assert plan.ranges == {"x": ((1, 8), (80, 80), (16, 16))}
    assert plan.probes() == [{"x": (1, 80, 16)}, {"x": (8, 80, 16)}]


def test_beside_a_range_minus_one_has_no_bound():
    plan = plan_shapes([X], ShapeFlags(input_shape="x:1~8,80,-1"))
    assert plan.ranges == {"x": ((1, 8), (80, 80), (1, -1))}
    unbounded = plan_shapes([M], ShapeFlags(input_shape_range="m:[-1,-1]"))
    assert (unbounded.kind, unbounded.ranges) == ("range", {"m": ((1, -1), (1, -1))})


@pytest.mark.parametrize(
    ("inputs", "flags", "code", "words"),
    [
        ([X], {"input_shape": "y:1,80,4"}, "E10016", "no input 'y'; its inputs are 'x'"),
        ([X], {"input_shape": "x:1,80"}, "E10049", "3 axes in the graph ([?, 80, ?]) and 2"),
        ([X], {"input_shape": "x:1,81,4"}, "E10001", "fixed size 80 at axis 1"),
        ([X], {"input_shape": "x:-1,80,4"}, "E10011", "no gears are given"),
        ([X], {}, "E10011", "--input-shape does not name it"),
        ([X, M], {"input_shape": "x:1,80,4"}, "E10011", "'m'"),
        ([X], {"input_shape": "x:-1,80,-1", "dynamic_batch": "1,2"}, "E10018", "use --dynamic-dims"),
        ([X], {"input_shape": "x:1,80,4", "dynamic_batch": "1,2"}, "E10040", "no -1"),
        ([X], {"input_shape": "x:1,80,-1", "dynamic_dims": "1,2;3,4"}, "E10046", "2 sizes per gear"),
        ([X], {"input_shape": "x:-1,80,-1", "dynamic_dims": "1;2"}, "E10045", "1 sizes per gear"),
        ([X], {"input_shape": "x:1,80,-1", "dynamic_dims": "4"}, "E10035", "at least 2"),
        ([X], {"input_shape": "x:-1,80,4", "dynamic_batch": "1,2", "dynamic_dims": "1;2"}, "E10009", "exclude"),
        ([X], {"dynamic_dims": "1;2"}, "E10047", "needs --input-shape"),
        ([X], {"input_shape": "x:-1,80,1~4", "dynamic_batch": "1,2"}, "E10040", "ranges (~)"),
        ([X], {"input_shape": "x:1,80,4", "input_shape_range": "x:[1,80,4]"}, "E10047", "exclude"),
        ([X], {"input_shape_range": "x:[-1,80,4]", "dynamic_batch": "1,2"}, "E10009", "exclude"),
        ([X], {"input_shape": "x:1,80,-1", "dynamic_dims": "1;2", "input_format": "NCHW"}, "E10047", "use ND"),
        ([X], {"input_shape": "x:1,80,4", "input_format": "NHWC"}, "E10001", "use ND"),
        ([X], {"input_shape": "x:1,80,4;x:1,80,4"}, "E10002", "twice"),
        ([X], {"input_shape": "x:1000000,80,1000"}, "E10001", "smaller sizes"),
        ([X], {"input_shape": "x:1~1000000,80,1000"}, "E10001", "smaller sizes"),
    ],
)  # fmt: skip
def test_what_atc_refuses_is_refused_with_its_code(inputs, flags, code, words):
    found = refusal(inputs, **flags)
    assert found.code == code
    assert words in found.message
    assert found.message.startswith(f"{code}: ")


def test_a_stage_has_gears_over_named_axes():
    dims: dict[str, list[int | str]] = {"x": ["batch", 4, "frames"], "m": ["batch", 1, "frames"]}
    plan = gear_plan(dims, [{"batch": 1, "frames": 8}, {"batch": 2, "frames": 16}])
    assert plan.kind == "dims_gears"
    assert plan.dims == {"x": (-1, 4, -1), "m": (-1, 1, -1)}
    assert plan.gears[1] == {"x": (2, 4, 16), "m": (2, 1, 16)}
    only_batch = gear_plan({"x": ["batch", 4]}, [{"batch": 1}, {"batch": 2}])
    assert only_batch.kind == "batch_gears"
    single = gear_plan(dims, [{"batch": 1, "frames": 8}])
    assert (single.kind, single.dims) == ("static", {"x": (1, 4, 8), "m": (1, 1, 8)})
