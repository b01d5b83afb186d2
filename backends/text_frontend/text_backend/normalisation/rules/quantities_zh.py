"""Chinese sums and counts written short: 满200-20, 500w粉丝, 911事件, 98年出生."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_zh
from text_backend.normalisation.rules import amounts
from text_backend.normalisation.rules.base import Rule, pattern

_OFF = pattern(rf"(?<=满)[ ]?({amounts.AMOUNT})[ ]?(?:元|块)?[-\u2013\u2014]({amounts.AMOUNT})(?![\d%:-])")
_WAN = pattern(
    rf"(?<![\w.])({amounts.AMOUNT})[ ]?"
    r"(?:w(?![A-Za-z0-9])|W(?=[ ]?(?:像素|人|粉|用户|播放|块|元|阅读|点赞|销量|\+|多[人元块粉])))"
)
_EVENT = pattern(r"(?<![\d.])(\d{3})(?=事件|恐怖袭击|恐袭|大地震|大案|公交)(?<!0)")
_PRICE = pattern(r"(?<![\w.,-])(\d{1,4})\.(\d)(\d?)(?=包邮|秒杀|抢购|特价|封顶|到手价?|起拍)")
_BORN_IN = pattern(r"(?<![\d.、和与及])(\d[05])(?=后(?![面来续天年方排期半段]))")
_SHORT_YEAR = pattern(
    r"(?<![\d.,年])([0-9]\d)(?=年(?:出生|生人|生的|毕业|入学|入职|参军|入伍|世界杯|奥运|金融危机|洪水|抗洪|春晚|[春夏秋冬](?!天?[以之])|[初底末]|"
    r"(?:1[0-2]|[1-9])月(?!内|后|前)))"
)


def _off(match: re.Match[str], language: str) -> str:
    """满200-20: what the seller takes off, not a range."""
    del language
    full, less = (numbers_zh.decimal(amounts.plain(amount)) for amount in match.groups())
    return f"{full}减{less}"


def _wan(match: re.Match[str], language: str) -> str | None:
    if language != "zh":
        return None
    number = amounts.plain(match.group(1))
    return ("两" if number == "2" else numbers_zh.decimal(number)) + "万"


def _price(match: re.Match[str], language: str) -> str | None:
    """9.9包邮 costs 九块九, 9.99包邮 九块九毛九."""
    if language != "zh":
        return None
    whole, tenths, hundredths = match.groups()
    spoken = numbers_zh.counted(whole) + "块" + numbers_zh.digits(tenths)
    return spoken + ("毛" + numbers_zh.digits(hundredths) if hundredths.strip("0") else "")


def _digits(match: re.Match[str], language: str) -> str | None:
    return numbers_zh.digits(match.group(1)) if language == "zh" else None


RULES = (
    Rule("discount", _OFF, _off),
    Rule("ten thousands", _WAN, _wan),
    Rule("price", _PRICE, _price),
    Rule("memorial day", _EVENT, _digits),
    Rule("decade", _BORN_IN, _digits),
    Rule("year", _SHORT_YEAR, _digits),
)
