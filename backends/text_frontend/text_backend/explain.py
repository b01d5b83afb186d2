"""Every step from a text to its ids, for people who ask why something was read as it was."""

from __future__ import annotations

from dataclasses import dataclass

from text_backend import dropping
from text_backend.frontend import FrontEnd, Utterance
from voxrepo_contract.errors import InvalidArgument


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        name: ``input``, ``unicode``, ``layout``, the name of a rule, ``wetext``, ``signs``, ``sentence``, ``pinyin``
            or ``phonemes``, ``substituted``, ``dropped``, ``ids``, ``refused``.
        text: what came out of it.
    """

    name: str
    text: str


class Refused(InvalidArgument):
    """The voice refuses the text.

    Attributes:
        steps: up to the refusal; the last is ``refused`` with the reason.
    """

    def __init__(self, message: str, steps: list[Step]) -> None:
        super().__init__(message)
        self.steps = [*steps, Step("refused", message)]


def explain(front_end: FrontEnd, text: str, *, normalise: bool = True) -> tuple[list[Step], Utterance]:
    """Run ``text`` and tell the steps that changed it.

    Args:
        front_end: of the voice, see :func:`text_backend.build.build_front_end`.
        text: what to say.
        normalise: as for :meth:`text_backend.frontend.FrontEnd.run`.

    Raises:
        Refused: the front end refuses the text; with the steps up to there.
        Unavailable: the phonemizer could not read it.
    """
    steps = [Step("input", text)]
    try:
        utterance = front_end.run(
            text, 1.0, "", normalise=normalise, observe=lambda name, after: steps.append(Step(name, after))
        )
    except InvalidArgument as error:
        raise Refused(error.message, steps) from error
    for symbol, instead in utterance.substituted.items():
        steps.insert(-1, Step("substituted", f"{symbol} -> {instead}"))
    for drop in utterance.drops:
        steps.insert(-1, Step("dropped", f"{drop.reason}: {text[drop.start : drop.end]!r} at {drop.start}"))
    if utterance.drops:
        steps.insert(-1, Step("dropped", dropping.describe(utterance.dropped)))
    return steps, utterance
