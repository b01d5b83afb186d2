from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.acl.gears import batch_gears, joined_dims, split_gears
from om_backend.device.faults import Action, DeviceFault


def test_batch_gears_put_the_size_into_the_first_place_of_each_varying_input():
    gears = batch_gears({"x": (-1, 80), "scale": (1,)}, [1, 4])
    assert gears == ({"x": (1, 80), "scale": (1,)}, {"x": (4, 80), "scale": (1,)})


def test_batch_gears_with_another_varying_dim_are_refused():
    with pytest.raises(DeviceFault, match="only the first may vary") as met:
        batch_gears({"x": (-1, -1)}, [1, 2])
    assert met.value.action is Action.REFUSE


def test_joined_dims_are_split_in_the_order_of_the_input_shape_option():
    inputs = {"x": (1, -1), "mask": (1, 3, -1)}
    gears, order = split_gears(inputs, [[1, 3, 64, 1, 32]], ("mask", "x"))
    assert gears == ({"x": (1, 32), "mask": (1, 3, 64)},)
    assert list(gears[0]) == ["x", "mask"], "in the graph's own order"
    assert joined_dims(gears[0], order) == [1, 3, 64, 1, 32]


def test_an_unknown_order_is_found_from_the_fixed_dims():
    gears, order = split_gears({"x": (2, -1), "mask": (3, -1)}, [[3, 64, 2, 32], [3, 9, 2, 8]], ())
    assert gears[0] == {"x": (2, 32), "mask": (3, 64)}
    assert order == ("mask", "x")


def test_an_order_that_makes_no_difference_need_not_be_known():
    gears, _ = split_gears({"x": (1, -1), "mask": (1, -1)}, [[1, 64, 1, 64]], ())
    assert gears == ({"x": (1, 64), "mask": (1, 64)},)


def test_an_order_that_makes_a_difference_and_is_unknown_is_refused():
    with pytest.raises(DeviceFault, match="more than one fits") as met:
        split_gears({"x": (1, -1), "mask": (1, -1)}, [[1, 64, 1, 32]], ())
    assert met.value.action is Action.REFUSE


@pytest.mark.parametrize("joined", [[1, 64], [1, 64, 1, 64, 1], [2, 64, 1, 64], [1, -1, 1, 64]])
def test_dims_that_do_not_fit_are_refused(joined):
    with pytest.raises(DeviceFault, match="do not fit"):
        split_gears({"x": (1, -1), "mask": (1, -1)}, [joined], ("x", "mask"))


def test_an_order_that_names_other_inputs_is_refused():
    with pytest.raises(DeviceFault, match="orders the inputs"):
        split_gears({"x": (1, -1)}, [[1, 2]], ("y",))


@given(st.data())
def test_splitting_undoes_joining_in_any_order(data):
    names = data.draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True))
    order = data.draw(st.permutations(names))
    dims = st.lists(st.sampled_from([-1, 1, 2, 80]), max_size=3)
    inputs = {name: tuple(data.draw(dims)) for name in names}
    size = st.integers(1, 500)
    gears = [
        {name: tuple(data.draw(size) if dim == -1 else dim for dim in inputs[name]) for name in names} for _ in range(3)
    ]
    found, _ = split_gears(inputs, [joined_dims(gear, order) for gear in gears], order)
    assert list(found) == gears
