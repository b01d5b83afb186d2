from __future__ import annotations

import numpy as np
import pytest
from om_backend.acl.shapes import check_arrays, check_ranges, no_such_gear, wrong_static_shape
from om_backend.device.description import GraphDescription, TensorInfo
from om_backend.device.faults import Action, DeviceFault

GEARED = GraphDescription(
    "dims_gears",
    (TensorInfo("x", "FP32", (1, -1)), TensorInfo("mask", "FP32", (1, -1)), TensorInfo("scale", "FP32", (1,))),
    (TensorInfo("y", "FP32", (1, -1)),),
    gears=tuple({"x": (1, n), "mask": (1, n), "scale": (1,)} for n in (64, 128)),
)
RANGED = GraphDescription(
    "range",
    (TensorInfo("x", "FP32", (-1, 80, -1), ((1, 8), (80, 80), (1, -1))),),
    (TensorInfo("y", "FP32", (-1,)),),
)
STATIC = GraphDescription("static", (TensorInfo("x", "FP32", (1, 4)),), (TensorInfo("y", "FP32", (1, 4)),))


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_a_wrong_number_of_inputs_is_told_with_what_the_model_takes():
    with pytest.raises(DeviceFault, match=r"takes 3 inputs \(x FP32 \[1, -1\].*, 1 were given") as met:
        check_arrays(GEARED, [zeros(1, 64)])
    assert met.value.action is Action.REQUEST


@pytest.mark.parametrize(
    ("dtype", "name"), [(np.float16, "FP16"), (np.float64, "FP64"), (np.int32, "INT32"), (np.dtype(">f4"), ">f4")]
)
def test_a_wrong_dtype_is_told_even_where_its_size_is_right(dtype, name):
    with pytest.raises(DeviceFault, match=f"input x is FP32 in this model and the array is {name}") as met:
        check_arrays(STATIC, [np.zeros((1, 4), dtype)])
    assert met.value.action is Action.REQUEST


def test_a_shape_that_is_no_gear_names_the_gears_by_the_inputs_that_vary():
    fault = no_such_gear(GEARED, [zeros(1, 100), zeros(1, 100), zeros(1)])
    assert fault.action is Action.REQUEST
    assert "no gear for x [1, 100] mask [1, 100]" in fault.advice
    assert "x [1, 64] mask [1, 64]; x [1, 128] mask [1, 128]" in fault.advice
    assert "scale" not in fault.advice


def test_a_wrong_fixed_input_of_a_geared_model_is_shown():
    assert "scale [2]" in no_such_gear(GEARED, [zeros(1, 64), zeros(1, 64), zeros(2)]).advice


def test_a_wrong_rank_in_a_geared_model_is_told_and_no_crash():
    assert "x [64]" in no_such_gear(GEARED, [zeros(64), zeros(1, 64), zeros(1)]).advice


def test_a_wrong_static_shape_names_the_one_that_exists():
    fault = wrong_static_shape(STATIC, [zeros(1, 5)])
    assert "[1, 5]" in fault.advice
    assert "[1, 4]" in fault.advice


@pytest.mark.parametrize("shape", [(1, 80, 1), (8, 80, 100_000)])
def test_shapes_within_ranges_pass(shape):
    check_ranges(RANGED, [zeros(*shape)])


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((9, 80, 1), "axis 0 must be 1 to 8"),
        ((0, 80, 1), "axis 0 must be 1 to 8"),
        ((1, 81, 1), "axis 1 must be 80"),
        ((1, 80, 0), "axis 2 must be 1 or more"),
        ((80, 1), "takes 3 dims"),
    ],
)
def test_shapes_outside_ranges_are_told_with_the_range(shape, says):
    with pytest.raises(DeviceFault) as met:
        check_ranges(RANGED, [zeros(*shape)])
    assert says in met.value.advice
    assert met.value.action is Action.REQUEST


def test_without_known_ranges_only_fixed_dims_are_checked():
    bare = GraphDescription("range", (TensorInfo("x", "FP32", (-1, 80)),), RANGED.outputs)
    check_ranges(bare, [zeros(1000, 80)])
    with pytest.raises(DeviceFault, match="axis 1 must be 80"):
        check_ranges(bare, [zeros(1, 79)])
