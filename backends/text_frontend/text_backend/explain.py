"""Every step from a text to its ids, for people who ask why something was read as it was."""

from __future__ import annotations

from dataclasses import dataclass

from text_backend import dropping
from text_backend.frontend import FrontEnd, Utterance


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        name: ``input``, ``unicode``, ``layout``, the name of a rule, ``wetext``, ``signs``, ``sentence``, ``pinyin``
            or ``phonemes``, ``substituted``, ``dropped``, ``ids``.
        text: what came out of it.
    """

    name: str
    text: str


def explain(front_end: FrontEnd, text: str, *, normalise: bool = True) -> tuple[list[Step], Utterance]:
    """Run ``text`` and tell the steps that changed it.

    Args:
        front_end: of the voice, see :func:`text_backend.build.build_front_end`.
        text: what to say.
        normalise: as for :meth:`text_backend.frontend.FrontEnd.run`.

    Raises:
        InvalidArgument: as :meth:`text_backend.frontend.FrontEnd.run`.
    """
    steps = [Step("input", text)]
    utterance = front_end.run(
        text, 1.0, "", normalise=normalise, observe=lambda name, after: steps.append(Step(name, after))
    )
    for symbol, instead in utterance.substituted.items():
        steps.insert(-1, Step("substituted", f"{symbol} -> {instead}"))
    for drop in utterance.drops:
        steps.insert(-1, Step("dropped", f"{drop.reason}: {text[drop.start : drop.end]!r} at {drop.start}"))
    if utterance.drops:
        steps.insert(-1, Step("dropped", dropping.describe(utterance.dropped)))
    return steps, utterance
