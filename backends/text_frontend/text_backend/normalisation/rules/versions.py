"""Version numbers (v2.3.1), Internet addresses (192.168.1.1), and models (GPT-4, iPhone15, RTX4090)."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import Rule, pattern

_DOTTED = pattern(r"(?<![\w.])([vV]\.?)?(\d{1,5}(?:\.\d{1,5}){2,5})(?![\w]|\.\d)")
_SHORT = pattern(r"(?<![\w.])([vV])(\d{1,4}(?:\.\d{1,4})?)(?![\w]|\.\d)")
_NAMED = pattern(
    r"((?:version|ver\.|release|Python|Java|iOS|Android|Node|CUDA|PyTorch|Ubuntu|Debian|CentOS|Windows|Linux|Unity|"
    r"版本号?|内核)[ \t]{0,2})(\d{1,4}\.\d{1,4})(?![\w]|\.\d)",
    re.IGNORECASE,
)
_EITHER = pattern(
    r"((?:USB|HDMI|PCIe|SATA|DDR|DP|Wi-?Fi|[Bb]luetooth|蓝牙)[ -]?\d{1,2}(?:\.\d)?|[A-Za-z][ ]?\d{1,2}\.\d)"
    r"((?:/\d{1,2}\.\d|(?<!\.\d)/\d{1,2}){1,3})(?![\w/]|\.\d)"
)
_MODEL = pattern(r"(?<![A-Za-z0-9])([A-Za-z]{1,12})-(\d{1,4})(?![\d.,:-]*\d|[A-Za-z%])")
_GLUED = pattern(r"(?<=[A-Za-z])(\d{3,8})(?![\d.,:]*\d)")
_SUFFIX = pattern(r"(?<![^\s(\u4e00-\u9fff])\.(?=[A-Za-z]{2,6}(?![\w.]))")


def _dotted(match: re.Match[str], language: str) -> str:
    parts = match.group(2).split(".")
    zh = language == "zh"
    address = len(parts) == 4 and all(int(part) < 256 for part in parts) and not match.group(1)
    if address:
        spoken = [numbers_zh.digits(part, yao=True) if zh else numbers_en.digits(part) for part in parts]
    else:
        spoken = [_component(part, language) for part in parts]
    joined = "点".join(spoken) if zh else (" dot " if address else " point ").join(spoken)
    if not match.group(1):
        return joined
    return f"V{joined}" if zh else f"version {joined}"


def _component(part: str, language: str) -> str:
    if language == "zh":
        return numbers_zh.digits(part) if part[0] == "0" or len(part) > 2 else numbers_zh.cardinal(part)
    return numbers_en.digits(part) if part[0] == "0" and len(part) > 1 else numbers_en.cardinal(part)


def _short(match: re.Match[str], language: str) -> str:
    parts = match.group(2).split(".")
    spoken = [_component(part, language) for part in parts]
    return "V" + "点".join(spoken) if language == "zh" else f"version {' point '.join(spoken)}"


def _named(match: re.Match[str], language: str) -> str:
    spoken = [_component(part, language) for part in match.group(2).split(".")]
    if match.group(1)[:2] == "版本" or match.group(1)[:2] == "内核":
        language = "zh"
        spoken = [_component(part, language) for part in match.group(2).split(".")]
    return match.group(1) + ("点" if language == "zh" else " point ").join(spoken)


def _either(match: re.Match[str], language: str) -> str:
    """USB 3.0/2.0 is one or the other, no fraction."""
    return match.group(1) + match.group(2).replace("/", "\u3001" if language == "zh" else ", ")


def _model(match: re.Match[str], language: str) -> str | None:
    letters, number = match.groups()
    if language == "zh":
        spoken = numbers_zh.cardinal(number) if len(number) < 3 else numbers_zh.digits(number, yao=True)
        return f"{letters} {spoken}"
    if len(number) == 3 and number[0] != "0":
        return f"{letters} {numbers_en.room(number)}"
    return f"{letters} {numbers_en.cardinal(number) if len(number) < 3 else numbers_en.digits(number)}"


def _glued(match: re.Match[str], language: str) -> str | None:
    if language == "zh":
        return numbers_zh.digits(match.group(1), yao=True)
    number = match.group(1)
    if len(number) in (3, 4) and number[0] != "0" and not number.endswith("000"):
        return numbers_en.room(number)
    return numbers_en.digits(number)


RULES = (
    Rule("versions", _EITHER, _either),
    Rule("version", _DOTTED, _dotted),
    Rule("version", _SHORT, _short),
    Rule("version", _NAMED, _named),
)
MODELS = (Rule("model", _MODEL, _model), Rule("model", _GLUED, _glued))
SUFFIXES = (Rule("suffix", _SUFFIX, lambda match, language: "点" if language == "zh" else "dot "),)
