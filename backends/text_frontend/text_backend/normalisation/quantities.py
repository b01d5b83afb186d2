"""Chinese numbers read by what follows them: 2个, 2种, 98年, 2024年5月2日, 下午2点30分, 10086, 13-digit sums.

A number alone or in a date or time of day is read here, at some microseconds each, for texts that are all numbers.
What is left (units in an order that no date has) goes to wetext (:mod:`wetext_step`), which takes 0.4 ms for each
context that it has not met. It differs from wetext 0.1.8 on purpose: 2次, 2种, 2公斤 and 2年 have 两, 3月2日 has 二,
05月 is 五月, 02个 is 零二个, 111 counts, 2 before 千 is 两 in every group, and from 13 digits on nothing mixes words
with digits.
"""

from __future__ import annotations

import re
from functools import lru_cache

from text_backend.normalisation import numbers_zh

CONTEXT_BEFORE, CONTEXT_AFTER = 2, 3
"""Characters next to a number that decide how it is read."""

_ONE = r"\d{1,24}(?:\.\d{1,12})?"
NUMBER = re.compile(rf"{_ONE}(?:[年月日号时点分秒]\d{{1,4}}(?:\.\d{{1,4}})?){{0,5}}[多几]?[百千万亿]{{0,2}}", re.ASCII)
"""A number, with the numbers that the units of a date or a time of day join to it."""

_PARTS = re.compile(r"(\d+)(?:\.(\d+))?([年月日号时点分秒]?)", re.ASCII)
_IN_ORDER = re.compile(
    r"(?:\d+年)?(?:\d+月)?(?:\d+[日号])?(?:\d+[时点])?(?:\d+分)?(?:\d+秒)?(?:\d+(?:\.\d+)?)?[多几]?[百千万亿]{0,2}",
    re.ASCII,
)
# What counts, as one character: 2 before it is 两.
_MEASURES = frozenset(
    "万丈丘丝个丸亿人代令件伏位余元兆克具冬几刀分刻勺匹千升单卮厘双叠口只合名吨周啖回场块坡堂堆墙壳壶夏多夜天头套季字客家"
    "寸对寻封尺尾层山岁岭帧常幢度座张忽户扎把担挑捆撮支斗斛斤旬时春曲本条杯板枝架根档桶棵段毫江泡溪炮煲片瓶百盆盏盒盘石砣"
    "碗碟秋秒票程窠笼管箩箱篇篮簋米粒纪罐网罗群脚腔艘袋袭课贯贴趟跳身辆辈里道针钟钧钱钵铢铺锅锱阙队阵集面页顶颗首"
    "次种倍项样遍批部台所款份笔枚副顿番句圈步间门幅滴朵股轮"
)
_MEASURE_WORDS = re.compile(
    "平[方米]|立方|公[里斤分顷升尺克吨亩]|英[里尺寸镑亩]|海里|[微纳]米|小时|星期|礼拜|[美欧日港韩加澳][元币金分]|卢布|法郎|泰铢|比特|字节"
)
_NO_MEASURE = re.compile(r"次[元方]|对\d|[点时]\d", re.ASCII)
_DAYS = re.compile("日[游内后前之间来票]")
_DAYS_BEFORE = frozenset("近前后这那整每过约")
_LEADING_ZERO_DROPPED = frozenset("月日时点")
_CALLED = re.compile(
    r"11[0249]|12[02]|10010|10086|12110|12306|12315|12320|12328|12333|12345|12366"
    r"|95(?:110|120|188|500|511|533|555|566|588|598|599)",
    re.ASCII,
)
"""Numbers to call: of emergency, of offices and carriers, of banks."""
_MOBILE_DIGITS = 11
_CARDINAL_DIGITS = 16
_GENERATION = re.compile(r"\d[05]后(?![面来续天年方排期半段])", re.ASCII)
_CALENDAR_YEAR = re.compile(r"(?:19|20)\d\d", re.ASCII)
_MONTH_DAY = re.compile(r"(0[1-9])\.(0?[1-9]|[12]\d|3[01])", re.ASCII)


def is_plain(number: str) -> bool:
    """Whether this module reads a match of :data:`NUMBER`: no units, or those of a date and time in their order."""
    return _IN_ORDER.fullmatch(number) is not None


@lru_cache(maxsize=4096)
def read(before: str, number: str, after: str) -> str:
    """Words of a number; each part is read by the unit after it.

    Args:
        before: the characters before it, up to :data:`CONTEXT_BEFORE`.
        number: a match of :data:`NUMBER`.
        after: the characters after it, up to :data:`CONTEXT_AFTER`.
    """
    said: list[str] = []
    at, last = 0, ""
    for match in _PARTS.finditer(number):
        whole, fraction, unit = match.groups()
        said.append(number[at : match.start()])
        following = number[match.end(2 if fraction else 1) :] + after
        preceding = (before + number[: match.start()])[-CONTEXT_BEFORE:]
        said.append(_part(preceding, whole, fraction, following, last) + unit)
        at, last = match.end(), unit
    return "".join(said) + number[at:]


def _part(before: str, whole: str, fraction: str | None, after: str, last: str) -> str:
    """Words of one number, ``after`` the unit ``last`` of the part before it."""
    measured = is_measured(after)
    if fraction is not None:
        date = None if measured else _MONTH_DAY.fullmatch(f"{whole}.{fraction}")
        if date is not None:
            return f"{numbers_zh.cardinal(date.group(1))}月{numbers_zh.cardinal(date.group(2))}日"
        return f"{numbers_zh.cardinal(whole)}点{numbers_zh.digits(fraction)}"
    unit = after[:1]
    if unit == "年" or (unit == "后" and _CALENDAR_YEAR.fullmatch(whole)):
        return _year(before, whole, after)
    if len(whole) == 2 and _GENERATION.match(whole + after):
        return numbers_zh.digits(whole)
    if whole[0] == "0" and len(whole) > 1:
        clock = len(whole) == 2 and (unit in _LEADING_ZERO_DROPPED or (unit == "号" and last == "月"))
        return numbers_zh.cardinal(whole) if unit and clock else numbers_zh.digits(whole)
    if whole == "2":
        return "两" if _is_two_of(before, after, last, measured) else "二"
    counts = measured or before[-1:] == "约"
    if _CALLED.fullmatch(whole) and not counts and unit not in ("号", "月"):
        return numbers_zh.digits(whole, yao=True)
    if len(whole) > _CARDINAL_DIGITS or (len(whole) == _MOBILE_DIGITS and not counts):
        return numbers_zh.digits(whole, yao=True)
    return numbers_zh.cardinal(whole)


def _year(before: str, whole: str, after: str) -> str:
    if len(whole) == 4 or whole[0] == "0":
        return numbers_zh.year(whole)
    if whole != "2":
        return numbers_zh.cardinal(whole)
    # the second year of school, of a reign, or of a date; else two years
    second = after[1:2] == "级" or before == "民国" or re.match(r"年\d{1,2}月", after) is not None
    return "二" if second else "两"


def _is_two_of(before: str, after: str, last: str, measured: bool) -> bool:
    unit = after[:1]
    if unit == "日":  # the second of a month, but two days in 2日游
        return last != "月" and (_DAYS.match(after) is not None or before[-1:] in _DAYS_BEFORE)
    if unit in ("点", "时"):
        minutes = re.match(r".(?:[0-5]\d|\d(?=分))", after)
        return unit == "时" or minutes is not None
    return measured


def is_measured(after: str) -> bool:
    """Whether what follows a number counts or measures."""
    if _NO_MEASURE.match(after):
        return False
    return after[:1] in _MEASURES or _MEASURE_WORDS.match(after) is not None
