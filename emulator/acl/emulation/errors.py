"""Failures that a program sees as a return code and a text."""

from __future__ import annotations


class CodedError(Exception):
    """A call or a piece of work failed.

    Attributes:
        code: what the call, or the wait for the work, returns.
        text: for ``get_recent_err_msg``.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
