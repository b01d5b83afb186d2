from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrepo.convert.input_shape import parse_batches, parse_dims_gears, parse_input_shape
from voxrepo.convert.refusal import AtcRefusal


def test_shapes_are_read_in_the_order_of_the_text():
    shapes = parse_input_shape("m:1 ;x:-1,80,1~512;s:")
    assert shapes == {"m": (1,), "x": (-1, 80, (1, 512)), "s": ()}
    assert list(shapes) == ["m", "x", "s"]


def test_a_name_may_hold_a_colon():
    assert parse_input_shape("scope/x:0:1,2") == {"scope/x:0": (1, 2)}


def test_the_old_range_notation_is_read():
    assert parse_input_shape("x:[1~8,-1]", "--input-shape-range") == {"x": ((1, 8), -1)}


@pytest.mark.parametrize("text", ["", "x", ":1", "x:1,a", "x:1;", "x:0", "x:1.5", "x:-2", "x:5~2", "x:0~2", "x:1~",
                                  "x:1;x:2", "x:99999999999", "x:1~-1", "x:1,,2"])  # fmt: skip
def test_wrong_syntax_is_refused_as_atc_does(text):
    with pytest.raises(AtcRefusal) as refused:
        parse_input_shape(text)
    assert refused.value.code == "E10002"
    assert refused.value.message.startswith("E10002: --input-shape")


@given(st.text(max_size=30))
def test_any_text_is_a_shape_or_refused(text):
    try:
        assert parse_input_shape(text)
    except AtcRefusal as refusal:
        assert refusal.code == "E10002"


def test_gears_are_read():
    assert parse_batches("1, 2,8") == (1, 2, 8)
    assert parse_dims_gears("64,1;128,2") == ((64, 1), (128, 2))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("4", "E10035"),
        (",".join(map(str, range(1, 102))), "E10036"),
        ("1,x", "E10001"),
        ("1,", "E10001"),
        ("0,1", "E10038"),
        ("-1,1", "E10038"),
        ("2,2", "E10039"),
    ],
)
def test_wrong_batch_gears_are_refused_as_atc_does(text, code):
    with pytest.raises(AtcRefusal) as refused:
        parse_batches(text)
    assert refused.value.code == code
    assert "--dynamic-batch" in refused.value.message


@pytest.mark.parametrize(
    ("text", "code"),
    [("64,64", "E10035"), ("1,2;3", "E10037"), ("1;1", "E10039"), ("1;two", "E10001"),
     (";".join(map(str, range(1, 102))), "E10036"), ("1;0", "E10038")],
)  # fmt: skip
def test_wrong_dims_gears_are_refused_as_atc_does(text, code):
    with pytest.raises(AtcRefusal) as refused:
        parse_dims_gears(text)
    assert refused.value.code == code


def test_a_hundred_gears_are_allowed():
    assert len(parse_batches(",".join(map(str, range(1, 101))))) == 100
