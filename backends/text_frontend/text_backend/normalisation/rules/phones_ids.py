"""Digits that name something and do not count: telephone numbers, identity cards, orders, codes, rooms."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import HAN, Rule, pattern

_ZH_PHONE = pattern(
    r"(?<![\w.])(?:\+86[- ]?|\+?0086[- ]?|86-)?(?:1[3-9]\d[- ]?\d{4}[- ]?\d{4}"
    r"|\(?0\d{2,3}\)?[- ]?\d{3,4}[- ]?\d{4}(?:-\d{1,5})?"
    r"|[48]00[- ]?\d{3}[- ]?\d{4}|[48]00[- ]?\d{4}[- ]?\d{3})(?![\d.]*\d|[万亿元])"
)
_INTERNATIONAL = pattern(r"(?<![\w.])\+\d{1,3}(?:[- ]?\(?\d{1,4}\)?){2,5}(?![\d.]*\d)")
_EN_PHONE = pattern(
    r"(?<![\w.])(?:\+?1[- .])?(?:\(\d{3}\)[ ]?|\d{3}[- .])\d{3}[- .]\d{4}(?![\d.-]*\d)"
    r"|(?<![\w.$-])\d{3}-\d{4}(?![\d.-]*\d)"
)
_ID_CARD = pattern(r"(?<![\w.])[1-9]\d{5}(?:18|19|20)\d{9}[\dXx](?!\w)")
_HYPHENATED = pattern(r"(?<![\w.-])\d{1,6}(?:-\d{1,6}){3,6}(?![\w-])|(?<![\w.-])\d{3}-\d{2}-\d{4}(?![\w-])")
_CALLED = pattern(
    r"((?:电话|热线|拨打?|致电|报警|客服|急救|火警|匪警|呼叫|号码|短号|分机|请打|打(?=[^\d]{0,6}(?:1[0-2]\d|9[56]\d{3})))[^\d，。\n,.]{0,6})"
    r"(\d{3,5}(?![\d.]*\d"
    r"|[年月日元块个人次名%米公千万亿给到过折分])"
    r"(?:[、，,/和或及][ ]?\d{3,5}(?![\d.]*\d|[年月日元块个人次名%米公千万亿])){0,5})"
)
_NUMBERED = pattern(
    r"((?:账号|帐号|账户|卡号|单号|订单|编号|尾号|验证码|校验码|密码|邮编|邮政编码|工号|学号|门牌号?|证号|代码|批号|"
    r"手机号|座机|传真|房间|房号|取件码|提取码|会议号|口令|序列号|股票|(?<![A-Za-z])(?:QQ|ID|PIN|VIP)[号码]?|区号|航班号?)"
    r"[^\d，。\n,.]{0,4})(\d{2,24}(?:-\d{2,8}){0,5})(?![\d.,:/-]*\d|[年月日元块个人次名%位份条号楼])",
    re.IGNORECASE,
)
_ROOM = pattern(r"(?<![\w.,:/-])(\d{3,4})(?=室|房间?(?![a-z])|宿舍|号房|教室|会议室|包间|病房)")
_BUS = pattern(r"(?<![\w.,:/-])(\d{3,4})(?=路(?:公交|公共|车|电车|巴士)?(?!口))")
_EXTENSION = pattern(
    r"((?:[\d零幺一二三四五六七八九]{3}|电话|分机|总机|前台|热线|请|按|接通后?)[^\d，。\n,.]{0,2}转[ ]?)(\d{3,6})"
    r"(?![\d.,:%年月日元块个人次名米公千万亿天分给到过至])"
)
"""An extension follows a telephone number or a request; 转500给他 passes on a sum."""
_FLAT = pattern(r"(?<=单元)(\d{3,4})(?![\d户套人平])")
_HOTLINE = pattern(r"(?<![\d.])([48]00)(?=电话|热线|客服)")
_TOLL_FREE = pattern(r"(?<![\w.-])1-(8\d\d|900)-([A-Z]{3,10})(?![\w-])")
_ZIP = pattern(r"(?<=[a-z],[ ][A-Z]{2}[ ])(\d{5})(?:-(\d{4}))?(?![\d,.-]*\d)")
_PLAN = pattern(r"(?<![\w.$])(401|403|457)[ ]?\(([a-z])\)")
_AIRCRAFT = pattern(r"(?<=波音|空客)[ -]?(\d{3})(?!\d)")
_LABEL = pattern(r"(?<![\d.,:/第-])(\d{1,3})(?=单元|号楼|号院|号线|号门|号口|栋|幢|车厢|年级)")
_ROOMS = pattern(r"(?<![\d.])2(?=[室厅卫](?!\d{3}))")
_EN_NUMBERED = pattern(
    r"\b((?:PIN|code|zip|order|account|card|tracking|serial|confirmation|ticket|reference|booking|password|passcode|"
    r"extension|ext\.?|ID|case|invoice|badge)(?: (?:number|no\.?|is|code|ID"
    r"|#))?(?: is)?[ :#]{1,3})(\d{3,24})(?![\d.,:/-]*\d)",
    re.IGNORECASE,
)
_EN_CALLED = pattern(
    r"\b((?:call|dial|phone|text|calling|dialing|dialed|called)(?: to)? )(\d{3})(?![\d.,:/-]*\d| [a-z]+s\b)",
    re.IGNORECASE,
)
_EN_ROOM = pattern(r"\b((?:room|suite|flight|apartment|apt\.?|route|highway|bus|gate"
    r"|locker|box|unit|area) )(\d{3,4})\b(?![.,:]\d)",
                      re.IGNORECASE)  # fmt: skip
_ZEROS_FIRST = pattern(r"(?<![\w.,:/])0\d{1,23}(?![\d.,:/]*\d)(?![年月日时点分])")
_LONG = pattern(rf"(?<![\w.,:/])\d{{12,64}}(?![\d.,:/]*\d|[{HAN}])|(?<![\w.,:/])\d{{17,64}}(?![.,:/]\d)")
_CODE = pattern(
    r"((?:取件码|提货码|取货码|提取码|编号|单号|房号|门牌号?|货架号?|柜号|序列号|批号|证号|车位号?|座位号?|口令|密码)"
    r"(?:[号是为]|[:：][ ]?|[ ]){0,2})(\d{1,4}(?:-\d{1,4}){2,3})(?![\w-]|[.,:]\d)"
)
_DOTTED_PHONE = pattern(r"(?<![\w.+-])(?:\+?1\.)?[2-9]\d\d\.[2-9]\d\d\.\d{4}(?!\w|\.\d)")
_CARD = pattern(
    r"(?<![\w.,:/-])\d{4}([ -])(?:\d{4}\1){2,4}\d{1,4}(?![\w-]|[.,:/]\d|[ ]\d)"
    r"|(?<![\w.,:/-])\d{4} \d{6} \d{5}(?![\w-]|[.,]\d)"
)
_YEARS_IN_A_ROW = pattern(r"(?:(?:19|20)\d\d[ -]?)+\Z")
_IBAN = pattern(r"(?<![A-Za-z0-9])[A-Z]{2}\d\d(?:[ ][A-Z0-9]{4}){2,7}(?:[ ][A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_ABROAD = pattern(r"(?<![\w.,+-])(?:00\d{2,3}-\d{7,11}|86-\d{2,3}-\d{7,8}|86-1\d{10})(?![\w-]|[.,]\d)")
_LAST_PLACES = pattern(
    r"([后前末尾][二两三四五六八]位(?:数字?|号码)?(?:是|为)?[:：]?[ ]?)(\d{2,8})(?![\d.,]*\d|[年月日元块个人名万亿])"
)
_TOWER = pattern(r"(?<=[A-Z]座)[ ]?(\d{3,4})(?![\d.]|[元平米人万名])")
_TOWER_ROOM = pattern(r"(?<![\w.,:/-])(\d{1,2})-(\d{3,4})(?=室|房(?!间)|号房)")
_ZIP_PLUS = pattern(r"(?<![\w.,-])(\d{5})-(\d{4})(?![\w-]|[.,]\d|[ ]?=)")
_CASE_YEAR = pattern(
    rf"(?<=[〔(\[])((?:19|20)\d\d)(?=[〕)\]][ ]?(?:第?\d{{1,5}}号|[{HAN}]{{1,6}}\d{{1,6}}|[{HAN}]{{1,8}}第\d))"
)
_SEPARATORS = pattern(r"[-() .]+")
_DIGITS = pattern(r"\d+")


def _zh_digits(text: str) -> str:
    return _DIGITS.sub(lambda m: numbers_zh.digits(m.group(), yao=True), text)


def _groups(text: str, language: str) -> str:
    plus = ("加" if language == "zh" else "plus ") if text.startswith("+") else ""
    groups = [group for group in _SEPARATORS.split(text.lstrip("+")) if group]
    if language == "zh":
        return plus + "".join(_zh_digits(group) for group in groups)
    return plus + ", ".join(_en_group(group) for group in groups)


def _en_group(group: str) -> str:
    if group in ("800", "900"):
        return numbers_en.cardinal(group)
    return numbers_en.digits(group)


def _zh_phone(match: re.Match[str], language: str) -> str | None:
    if language == "zh":
        return _groups(match.group(), language)
    return _groups(match.group(), language) if len(_SEPARATORS.split(match.group())) > 1 else None


def _en_phone(match: re.Match[str], language: str) -> str | None:
    if language == "zh" and len(match.group()) == 8 and match.group()[0] != "0":
        return None  # 100-2000 inside Chinese is a range
    return _groups(match.group(), language)


def _id_card(match: re.Match[str], language: str) -> str:
    if language == "zh":
        return _zh_digits(match.group().upper())
    digits = match.group()
    return (
        numbers_en.digits(digits[:-1])
        + " "
        + (digits[-1].upper() if digits[-1].isalpha() else numbers_en.digits(digits[-1]))
    )


def _zh_keyword(match: re.Match[str], language: str) -> str | None:
    if language == "en" and match.group(1).isascii():
        return None
    return match.group(1) + _zh_digits(match.group(2).replace("-", ""))


def _zh_only(match: re.Match[str], language: str) -> str | None:
    return numbers_zh.digits(match.group(1), yao=True) if language == "zh" else None


def _toll_free(match: re.Match[str], language: str) -> str:
    prefix, word = match.groups()
    if language == "zh":
        return _zh_digits("1" + prefix) + word
    return f"one, {_en_group(prefix)}, {word.capitalize()}"


def _zip(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return None
    return numbers_en.digits(match.group(1)) + (f", {numbers_en.digits(match.group(2))}" if match.group(2) else "")


def _plan(match: re.Match[str], language: str) -> str | None:
    number, letter = match.groups()
    return f"{numbers_en.room(number)} {letter.upper()}" if language == "en" else None


def _label(match: re.Match[str], language: str) -> str:
    """Which one, not how many: 2单元 is 二单元."""
    del language
    return numbers_zh.cardinal(match.group(1)).replace("两", "二")


def _en_keyword(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return _zh_keyword(match, language)
    return match.group(1).replace("#", "number ") + numbers_en.digits(match.group(2))


def _en_room(match: re.Match[str], language: str) -> str | None:
    return match.group(1) + numbers_en.room(match.group(2)) if language == "en" else None


def _one_by_one(match: re.Match[str], language: str) -> str:
    number = match.group()
    if language == "zh":
        return numbers_zh.digits(number, yao=len(number) > 4)
    return numbers_en.digits(number)


def _code(match: re.Match[str], language: str) -> str:
    """8-1-2034 after 取件码 names a shelf, no day."""
    del language
    parts = match.group(2).split("-")
    return match.group(1) + "杠".join(numbers_zh.digits(part, yao=len(part) > 2) for part in parts)


def _card(match: re.Match[str], language: str) -> str | None:
    """Of a card, four digits at a time."""
    if _YEARS_IN_A_ROW.match(match.group()):
        return None
    return _groups(match.group(), language)


def _iban(match: re.Match[str], language: str) -> str:
    if language == "zh":
        return _zh_digits(match.group().replace(" ", ""))
    groups = match.group().split(" ")
    return ", ".join(" ".join(numbers_en.digits(c) if c.isdigit() else c for c in group) for group in groups)


def _last_places(match: re.Match[str], language: str) -> str:
    del language
    return match.group(1) + _zh_digits(match.group(2))


def _tower_room(match: re.Match[str], language: str) -> str:
    """2-301室 is a room of the second house."""
    del language
    house, room = match.groups()
    return f"{numbers_zh.cardinal(house)}杠{numbers_zh.digits(room, yao=True)}"


CODES = (
    Rule("code", _CODE, _code),
    Rule("case", _CASE_YEAR, lambda match, language: numbers_zh.year(match.group(1)) if language == "zh" else None),
    Rule("telephone", _ABROAD, lambda match, language: _groups(match.group(), language)),
    Rule("named number", _LAST_PLACES, _last_places),
    Rule("room", _TOWER, lambda match, language: numbers_zh.digits(match.group(1), yao=True)),
    Rule("room", _TOWER_ROOM, _tower_room),
    Rule("zip code", _ZIP_PLUS, lambda match, language: _groups(match.group(), language) if language == "en" else None),
    Rule("account", _IBAN, _iban),
    Rule("card", _CARD, _card),
    Rule("telephone", _DOTTED_PHONE, lambda match, language: _groups(match.group(), language)),
)
"""Before dates and versions, which look the same."""
_ZH_KEYWORDS = (Rule("called number", _CALLED, _zh_keyword), Rule("named number", _NUMBERED, _zh_keyword))
RULES = (
    Rule("identity card", _ID_CARD, _id_card),
    Rule("telephone", _EN_PHONE, _en_phone),
    Rule("telephone", _ZH_PHONE, _zh_phone),
    Rule("telephone", _INTERNATIONAL, lambda match, language: _groups(match.group(), language)),
    *_ZH_KEYWORDS,
    Rule("room", _ROOM, _zh_only),
    Rule("bus", _BUS, _zh_only),
    Rule("extension", _EXTENSION, _zh_keyword),
    Rule("room", _FLAT, _zh_only),
    Rule("telephone", _HOTLINE, _zh_only),
    Rule("telephone", _TOLL_FREE, _toll_free),
    Rule("zip code", _ZIP, _zip),
    Rule("plan", _PLAN, _plan),
    Rule("aircraft", _AIRCRAFT, _zh_only),
    Rule("label", _LABEL, _label),
    Rule("rooms", _ROOMS, lambda match, language: "两"),
    Rule("called number", _EN_CALLED, _en_keyword),
    Rule("named number", _EN_NUMBERED, _en_keyword),
    Rule("room", _EN_ROOM, _en_room),
)
HYPHENATED = (Rule("hyphenated number", _HYPHENATED, lambda match, language: _groups(match.group(), language)),)
LONG = (Rule("digits", _ZEROS_FIRST, _one_by_one), Rule("digits", _LONG, _one_by_one))
