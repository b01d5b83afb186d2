"""What a look at a rollout leads to: a new state with the events that explain it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from voxrepo.rollout.finite import FiniteModel
from voxrepo.rollout.plan import Versions
from voxrepo.rollout.state import Phase, Rollout, RolloutState

CommandKind = Literal["promote", "pause", "resume", "abort", "set_weights", "unreadable"]
"""``unreadable``: left by another version of this program; there is no more to do than to say so in the log."""
EventKind = Literal["created", "state", "step", "weights", "command_refused", "controller"]


class Command(FiniteModel):
    """What an operator asks of a rollout.

    Attributes:
        id: in the store; 0 before it is there.
        kind: of the command.
        arm: to promote; empty for the only one.
        weights: for ``set_weights``: percent by arm other than stable.
        reason: in the operator's words, for the log.
        by: who asked.
    """

    id: int = 0
    kind: CommandKind
    arm: str = ""
    weights: dict[str, float] = Field(default_factory=dict)
    reason: str = ""
    by: str = ""

    @property
    def said(self) -> str:
        """The command in words."""
        who = f" by {self.by}" if self.by else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.kind.replace('_', ' ')}{who}{why}"


@dataclass(frozen=True)
class Event:
    """A line of the log. Events are never changed.

    Attributes:
        kind: of the event.
        from_phase: before.
        to_phase: after; equal for events that do not change the phase.
        reason: a sentence.
        numbers: that support it.
    """

    kind: EventKind
    from_phase: Phase
    to_phase: Phase
    reason: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """Attributes:
    state: new state; the plan follows from it (:func:`voxrepo.rollout.state.planned_voice`).
    events: to be saved together with the state; empty if nothing changes.
    voice_versions: what ``voice.yaml`` must pin before the state is saved; None if it is not to be touched. Written
        twice after a crash in between, which does no harm.
    waiting: what the next change waits for, in words; empty if the state changed or is final.
    consumed: ids of the commands that have been dealt with.
    """

    state: RolloutState
    events: tuple[Event, ...] = ()
    voice_versions: Versions | None = None
    waiting: str = ""
    consumed: tuple[int, ...] = ()


def moved(
    rollout: Rollout,
    phase: Phase,
    reason: str,
    now: float,
    *,
    numbers: dict[str, Any] | None = None,
    voice_versions: Versions | None = None,
    **changes: Any,
) -> Decision:
    """The decision to go to another phase."""
    before = rollout.state
    state = before.model_copy(
        update={"phase": phase, "since": now, "reason": reason, "resume_to": None, **changes},
    )
    event = Event("state", before.phase, phase, reason, numbers or {})
    return Decision(state=state, events=(event,), voice_versions=voice_versions)


def stays(rollout: Rollout, waiting: str) -> Decision:
    """The decision to wait."""
    return Decision(state=rollout.state, waiting=waiting)
