"""Faces drawn with signs, passed over as pictures are: ^_^, (^o^), >_<, =_=, T_T, :-). Before layout and arithmetic."""

from __future__ import annotations

import re

from text_backend import dropping
from text_backend.mapped import MappedText

_FACE = (
    r"\^[_.\-]{1,3}\^|(?<![A-Za-z0-9)])\^[oO]\^(?![A-Za-z0-9(])|>[_.]{1,3}<|(?<![\w=])=[_.]=(?![\w=])|"
    r"(?<![A-Za-z0-9_])(?:T_{1,3}T|[oO]_{1,2}[oO]|-_{1,2}-|;_;|@_@|\*_\*|\+_\+|x_x|X_X|Q_Q|0_0)(?![A-Za-z0-9_])|"
    r"(?<![A-Za-z0-9])[:;]-[DPpOo()|](?![A-Za-z0-9])"
)
_EMOTICON = re.compile(rf"\([ ]?(?:{_FACE})[ ]?\)[/]?|{_FACE}", re.ASCII)
_SIGNS = frozenset("_^-")


def strip_emoticons(text: MappedText) -> MappedText:
    """Take the faces away, counted as ``emoji``."""
    if _SIGNS.isdisjoint(text.text) and ">.<" not in text.text and "=.=" not in text.text:
        return text
    return text.delete(_EMOTICON, dropping.EMOJI)
