"""Every digit and letter of a text is heard: another one in its place gives another sound.

The strings are of all the kinds that rules read. A rule that drops a part of what it matched, or reads two different
numbers alike, fails here without anybody having written down the right reading.
"""

from __future__ import annotations

import pytest

from .voices import english_front_end, mandarin_front_end

pytest.importorskip("pypinyin")
pytest.importorskip("wetext")

from voxrepo_contract.errors import InvalidArgument

FRONT_ENDS = {"zh": mandarin_front_end(), "en": english_front_end()}
_BOTH = [
    "G7/G20",
    "T2/T3",
    "K2/K3",
    "Z4/M5",
    "C4/day",
    "G20/EU",
    "$5亿",
    "¥3089万",
    "US$3.5亿",
    "10:07:45.123",
    "08:30:15.250",
    "2024-03-15T10:30:00.123Z",
    "00:03:25.500",
    "12:30:45.5",
    "138****8000",
    "6222***1234",
    "10℃-20℃",
    "10kg-20kg",
    "2h-3h",
    "2:30pm-4pm",
    "9:30-10am",
    "3km~5km",
    "100g~200g",
    "-20~-10℃",
    "3~5k",
    "15k-20k",
    "9:00AM-5:00PM",
    "2024.1.1-2024.12.31",
    "2024.10.1-10.7",
    "$x^2+3$",
    "$E=mc^2$",
    "5mg/kg",
    "0.5mol/L",
    "5℃/min",
    "1.5t/h",
    "170cm/60kg",
    "25°C/77°F",
    "H.264",
    "alpha.2",
    "1.0.0-beta.2",
    "Vol.5",
    "log₂8",
    "x₁2",
    "415.555.2671",
    "39°54′20″",
    "3′20″",
    "1'30\"",
    "5'10\"",
    "i7-12700K",
    "LLaMA-2-7B",
    "127.0.0.1:8080",
    "$100k-$200k",
    "3%",
    "3%-5%",
    "5‰",
    "1/3",
    "3:2",
    "1e5",
    "x^12",
    "CO2",
    "Fe2O3",
    "192.168.1.1",
    "v2.3.1",
    "iPhone15",
    "GPT-4",
    "PM2.5",
    "1080p",
    "ISO9001",
    "$5.25",
    "€30",
    "£1.2m",
    "1,234,567",
    "3.14159",
    "007",
    "12345678901",
    "2024/25",
    "0.05",
    "5x3",
    "4×6",
    "2^10",
    "90210-1234",
]
_CHINESE = [
    "5元-10元",
    "3天-5天",
    "6个月-3岁",
    "1万-2万",
    "1楼-3楼",
    "5元~10元",
    "10万~20万",
    "500元—1000元",
    "第3章-第5章",
    "1w-2w",
    "取件码8-1-2034",
    "编号3-2-2024",
    "8000元/㎡",
    "15人/㎡",
    "8:30分",
    "下午5pm",
    "9.1-9.3放假",
    "国发〔2021〕23号",
    "(2023)京01民初123号",
    "二○二四年",
    "3楼-301室",
    "A座1201",
    "2-301室",
    "身份证后四位3456",
    "2024H1",
    "¥5千",
    "2分之1",
    "5kg/袋",
    "京A12345",
    "G1234次",
    "13812345678",
    "2024年3月5日",
    "12月",
    "第12页",
    "98年出生",
    "满200-20",
    "1米75",
    "3.8妇女节",
    "5:30",
    "2024-03-05",
    "12点30分",
    "公交302路",
    "1203室",
    "7-11",
]
_ENGLISH = [
    "90210-1234",
    "2-3x",
    "3-4k",
    '1-1/2"',
    "21st",
    "1990s",
    "30mph",
    "2024-03-15",
    "3/15/2024",
    "5pm",
    "12:45",
    "$3.50",
    "1984",
    "7am-9am",
    "Q3",
    "$5-$10",
    "10M",
]
TEXTS = [
    *((language, text) for text in _BOTH for language in ("zh", "en")),
    *(("zh", text) for text in _CHINESE),
    *(("en", text) for text in _ENGLISH),
    ("en", "6222 0212 3456 7890"),
    ("zh", "6222 0212 3456 7890 123"),
    ("en", "room 1205, flight BA2490"),
    ("en", "order #12345 of March 15, 2024"),
    ("en", "IBAN DE89 3704 0044 0532 0130 00"),
    ("zh", "IBAN DE89 3704 0044 0532 0130 00"),
]
_OTHER_DIGITS, _OTHER_LETTERS = "739185", "qxbKOT"


def _said(language: str, text: str) -> tuple[bytes, frozenset[int]]:
    """The sound, and the characters that are counted as not spoken."""
    try:
        utterance = FRONT_ENDS[language].run(text, 1.0, "")
    except InvalidArgument as refused:
        return str(refused).encode(), frozenset(range(len(text)))
    return utterance.phoneme_ids.tobytes(), frozenset(
        at for drop in utterance.drops for at in range(drop.start, drop.end)
    )


@pytest.mark.parametrize(("language", "text"), TEXTS)
def test_another_digit_or_letter_sounds_otherwise(language, text):
    sound, dropped = _said(language, text)
    swallowed = []
    for at, character in enumerate(text):
        if at in dropped or not (character.isascii() and character.isalnum()):
            continue
        others = _OTHER_DIGITS if character.isdigit() else _OTHER_LETTERS
        changed = (text[:at] + other + text[at + 1 :] for other in others if other != character)
        if all(_said(language, one)[0] == sound for one in changed):
            swallowed.append(f"{character!r} at {at}")
    assert swallowed == []
