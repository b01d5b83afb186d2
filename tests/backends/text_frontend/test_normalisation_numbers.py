"""Chinese numbers in their context: which are read here, which by wetext, and how many of those."""

from __future__ import annotations

import pytest
from text_backend.mapped import MappedText
from text_backend.normalisation import quantities, wetext_step

pytest.importorskip("wetext")


@pytest.mark.parametrize("number", ["2", "2.5", "2024年5月2", "5日2点30", "3分20秒5", "20多万", "98年", "12月3"])
def test_numbers_dates_and_times_are_read_here(number):
    assert quantities.NUMBER.match(number)
    assert quantities.is_plain(number.rstrip("年"))


@pytest.mark.parametrize("number", ["5号3年2", "1.5年2", "5分3点2"])
def test_units_in_no_order_are_left_to_wetext(number):
    assert not quantities.is_plain(number)


@pytest.mark.parametrize("number", ["7", "12", "205", "1024", "20000", "200000", "100000000", "3.14", "0.05"])
@pytest.mark.parametrize("after", ["个", "的", "米长", "小时", ""])
def test_reads_as_wetext_does(number, after):
    assert quantities.read("", number, after) == wetext_step._say.__wrapped__("", number, after)


def test_wetext_is_asked_about_the_first_numbers_of_a_text_only():
    written = "，".join(f"{n}号3年2" for n in range(1, 2 * wetext_step.ASKED_PER_TEXT + 1))
    after = wetext_step.read_beyond_allowance(MappedText.of(written)).text
    parts = after.split("，")
    assert parts[: wetext_step.ASKED_PER_TEXT] == written.split("，")[: wetext_step.ASKED_PER_TEXT]
    assert parts[wetext_step.ASKED_PER_TEXT] == "三十三号三年二"
    assert not any(c.isdigit() for part in parts[wetext_step.ASKED_PER_TEXT :] for c in part)
