"""Numbers of which a part is hidden: 138****8000, 6222 **** **** 1234. Before layout, whose marks look the same."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import Rule, pattern

_MASKED = pattern(
    r"(?<![\w.*])(\d{2,8})((?:[ -]?\*{3,12}){1,3})[ -]?(\d{1,6})(?![\w*])"
    r"|(?<![\w.*])(\d{3,8})(\*\*)(\d{3,6})(?![\w*])"
)
_SAID_STARS = 4


def _masked(match: re.Match[str], language: str) -> str:
    """Digit by digit; each star is said, of more than four only one."""
    left, stars, right = (group for group in match.groups() if group is not None)
    count = stars.count("*")
    count = count if count <= _SAID_STARS else 1
    if language == "zh":
        return numbers_zh.digits(left, yao=True) + "星号" * count + numbers_zh.digits(right, yao=True)
    return f"{numbers_en.digits(left)} {'asterisk ' * count}{numbers_en.digits(right)}"


RULES = (Rule("masked number", _MASKED, _masked),)
