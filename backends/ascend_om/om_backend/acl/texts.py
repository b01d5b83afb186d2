"""What AscendCL's recent-error text says beyond the return code.

Codes such as 500002 stand for anything that failed inside the graph engine; the text then starts with a code of its own
(``E13031``, ``EE1001``, ``EZ9999`` ...), which decides what must follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from om_backend.acl.codes import Phase
from om_backend.device.faults import Action

_CODE = re.compile(r"\bE(?:\d{5}|[A-Z]\d{4})\b")
_NUMBER = re.compile(r"\d+")
_SOC = re.compile(r"\bAscend\d{3}[0-9A-Za-z_-]*")

OUTPUT_TOO_SMALL = "E13031"
INPUT_SIZE = "E13025"
MAX_TEXT_CHARS = 2000
"""Longer texts are cut: they hold call stacks, and one fault must not fill a log."""


@dataclass(frozen=True)
class Refinement:
    """A better reading of a vague code."""

    action: Action
    advice: str


def text_codes(text: str) -> list[str]:
    """The codes in a text, in its order (newest first)."""
    return _CODE.findall(text)


def needed_output_bytes(text: str, given_bytes: int) -> int | None:
    """Bytes that an output needs according to an ``E13031`` text, ``None`` if it does not say.

    The text names the given and the needed size among other numbers, in an order that differs between CANN versions;
    the needed size is the smallest number above the given one in the code's own line, or else before the next code.
    """
    start = text.find(OUTPUT_TOO_SMALL)
    if start < 0:
        return None
    own = _CODE.split(text[start + len(OUTPUT_TOO_SMALL) :], maxsplit=1)[0]
    for part in (own.split("\n", maxsplit=1)[0], own):
        larger = [number for number in map(int, _NUMBER.findall(part)) if number > given_bytes]
        if larger:
            return min(larger)
    return None


def refine(code: int, text: str, phase: Phase) -> Refinement | None:  # noqa: PLR0912  one row per text code
    """Read a vague code by its text; ``None`` where the text adds nothing.

    Rules are tried from the most specific to the least, over all codes in the text.
    """
    codes = set(text_codes(text))
    loading = phase in (Phase.LOAD, Phase.OPEN)
    lower = text.lower()
    if loading:
        if "soc" in lower and codes & {"EE1001", "E10001"}:
            chips = sorted(set(_SOC.findall(text)))
            return Refinement(
                Action.REFUSE,
                f"the model was built for another chip (the text names {', '.join(chips) or 'none'}); "
                "build it again with --soc_version of this device, all characters of the name",
            )
        if "opp version" in lower or "opp_version" in lower:
            return Refinement(
                Action.REFUSE,
                "the model was built with another version of the operator package, which a model with shape ranges "
                "does not allow; run atc again with the CANN of this server",
            )
        if "virtual" in lower and "type" in lower:
            return Refinement(Action.REFUSE, "on a vNPU slice the model must be built with --virtual_type=1")
        if codes & {"E13000", "E13001"}:
            return Refinement(Action.REFUSE, "the model file is missing or unreadable; deploy it")
        if codes & {"EZ3002", "EZ3003"}:
            return Refinement(
                Action.REFUSE,
                "the model has an operator without a kernel for this chip; build it in another precision mode",
            )
        if "E10001" in codes:
            return Refinement(Action.REFUSE, "the model file is damaged or of a foreign kind; deploy it again")
        if "EL0004" in codes:
            return Refinement(Action.REFUSE, "the device has no memory left for this model; unload another one")
        if "E19999" in codes:
            return Refinement(
                Action.REFUSE, "the graph engine refused the model; its CANN may differ from this server's, see plog"
            )
        return None
    if OUTPUT_TOO_SMALL in codes:
        return Refinement(Action.REQUEST, "an output is larger than its buffer; raise max_output_bytes")
    if INPUT_SIZE in codes:
        if code == 100000:
            return Refinement(Action.REQUEST, "a shape is outside the ranges that the model was built for")
        return Refinement(Action.RELOAD, "a buffer does not have the size that the model takes; it is loaded again")
    if "EZ9999" in codes:
        return Refinement(Action.RESTART, "a kernel of the graph failed; the process is restarted")
    if "EE1002" in codes:
        return Refinement(Action.RESTART, "a stream did not drain in time; the process is restarted")
    if "EL0004" in codes:
        return Refinement(Action.RETRY, "the device has no memory left for this run; unload a model")
    if codes & {"E19999", "EE9999", "EL0003"}:
        return Refinement(Action.RESTART, "the device's software failed inside; the process is restarted, see plog")
    return None
