"""Which words in capitals are said by the names of their letters, though they could be read as words."""

from __future__ import annotations

import re


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


ALWAYS = _words(
    "AI AR EV ID OS IP EU UK PC IO TV UI UX IDE ROI NYSE COO HDMI OLED UCLA ECMA IRA AKA ACLU AMI ISA NVMe PCIe IoT"
)
"""In any text."""

UNLESS_SHOUTED = _words("US IT PM UN AM OR AD CA PA MA WA LA MI NE EST LED SE ER OT UPS SAT DOC")
"""In a text with small letters; "GIVE IT TO US" has the words."""

_MAX_LETTERS = 5
_ONSETS = (
    "bl br ch cl cr dr dw fl fr gh gl gn gr kl kn kr ph pl pr ps qu rh sc sch scr sh shr sk sl sm sn sp sph spl spr "
    "squ sr st str sw th thr tr ts tw wh wr"
)
_CODAS = (
    "ck ch sh tch th ng nk nt nd nc ct pt ft lt ld lk lf lp lm rt rd rk rm rn rp rl rf rb rg rc mp mb st sk sp xt ph "
    "gh ll ss ff zz tt nn rr tz nx"
)
_LETTERS = "bcdfghjklmnpqrstvwxz"
_PRONOUNCEABLE = re.compile(
    f"(?:[{_LETTERS}y]|{'|'.join(_ONSETS.split())})?[aeiouy]"
    f"(?:.*[aeiouy])?(?:[{_LETTERS}]|{'|'.join(_CODAS.split())}|[{_LETTERS}]s)?"
)


def looks_spelled(written: str) -> bool:
    """Whether ``written``, in no dictionary, is a short word in capitals that no English word begins or ends like."""
    if len(written) > _MAX_LETTERS or not written.isupper():
        return False
    return _PRONOUNCEABLE.fullmatch(written.lower()) is None
