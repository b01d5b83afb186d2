"""Web and mail addresses, in the words one would use on the telephone. The scheme (``https://``) is not
said, and counted as markup.
"""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import HAN, Rule, pattern

_TOP = (
    "com|cn|org|net|edu|gov|io|ai|app|dev|me|cc|tv|info|biz|uk|us|de|fr|jp|kr|hk|tw|eu|ru|in|au|ca|ch|nl|se|xyz|top|"
    "tech|shop|site|online|cloud|wiki|blog|asia|mil|int"
)
_STOP = f"\\s{HAN}\u3000-\u303f\uff00-\uff0f\u2018-\u201d<>\"'`|\\\\^{{}}\\[\\]()"
_URL = pattern(
    rf"(?:https?|ftp|ws|wss)://[^{_STOP}]{{1,2048}}|(?<![\w@.-])www\.[^{_STOP}]{{1,2048}}"
    rf"|(?<![\w@.-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]{{0,61}})\.){{1,5}}(?:{_TOP})(?![\w-])(?:[:/][^{_STOP}]{{0,2048}})?",
    re.IGNORECASE,
)
_EMAIL = pattern(
    r"(?:mailto:)?(?<![\w.+-])([A-Za-z0-9][\w.+-]{0,63})@((?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24})(?![\w-])",
    re.ASCII,
)
_EXTENSION = pattern(
    r"(?<=[A-Za-z0-9_-])\.(txt|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|mp[34]|wav|zip|rar|gz|exe|apk|py|js|ts|java|cpp|csv|"
    r"json|yaml|yml|xml|html?|md|sh|onnx)(?![A-Za-z0-9])"
)
_TRAILING = ".,;:!?\u2026*_~-"
_PART = pattern(r"[A-Za-z]+|\d+|.")
_VOWEL = pattern("[aeiouy]", re.IGNORECASE)
_NAMES = {
    ".": ("点", "dot"),
    "/": ("斜杠", "slash"),
    "-": ("杠", "dash"),
    "_": ("下划线", "underscore"),
    "@": ("艾特", "at"),
    "?": ("问号", "question mark"),
    "=": ("等于", "equals"),
    "&": ("和", "and"),
    ":": ("冒号", "colon"),
    "#": ("井号", "hash"),
    "%": ("百分号", "percent"),
    "+": ("加", "plus"),
    "~": ("波浪号", "tilde"),
    ",": ("逗号", "comma"),
    ";": ("分号", "semicolon"),
    "!": ("叹号", "exclamation mark"),
    "*": ("星号", "asterisk"),
    "$": ("美元", "dollar"),
}


def spell_address(address: str, language: str) -> str:
    """Words and signs of an address; digits one by one, letters that make no word by their names."""
    zh = language == "zh"
    spoken: list[str] = []
    for part in _PART.findall(address):
        if part.isdigit():
            spoken.append(numbers_zh.digits(part) if zh else numbers_en.digits(part))
        elif part.isalpha() and part.isascii():
            is_word = _VOWEL.search(part) and len(part) > 1
            spoken.append(part if is_word else " ".join(part.upper()))
        elif part in _NAMES:
            spoken.append(_NAMES[part][0 if zh else 1])
        else:
            spoken.append(part)
    return " ".join(spoken)


def _scheme_chars(match: re.Match[str]) -> int:
    return match.group().find("://", 0, 8) + len("://") if "://" in match.group()[:8] else 0


def _url(match: re.Match[str], language: str) -> str:
    whole = match.group()
    url = whole.rstrip(_TRAILING)
    if not url:
        return whole
    rest = whole[len(url) :]
    _, _, bare = url.rpartition("://") if "://" in url[:8] else ("", "", url)
    return spell_address(bare.rstrip("/") or bare, language) + rest


def _email(match: re.Match[str], language: str) -> str:
    return spell_address(f"{match.group(1)}@{match.group(2)}", language)


def _extension(match: re.Match[str], language: str) -> str:
    name = match.group(1)
    return f"点{name}" if language == "zh" else f" dot {name}"


RULES = (
    Rule("email", _EMAIL, _email),
    Rule("url", _URL, _url, unsaid=_scheme_chars),
    Rule("file name", _EXTENSION, _extension),
)
