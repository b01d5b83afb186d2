"""AscendCL's codes in the error texts of libraries that hide them."""

from __future__ import annotations

import re

from om_backend.acl.codes import CODES

_TOLD = re.compile(
    r"(?:error code(?: is)?|errcode|ret(?:urn)?(?: code)?|result)\W{0,3}([1-5]\d{5})(?!\d)", re.IGNORECASE
)


def acl_code(text: str) -> int:
    """The first known code that the text calls one, 0 if there is none; other numbers of six digits are sizes."""
    return next((int(digits) for digits in _TOLD.findall(text) if int(digits) in CODES), 0)
