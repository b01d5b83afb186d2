"""Where a rollout stands, and what servers shall do in that state. Pure.

    pending -> loading -> probing -> running -> promoting -> keeping_previous -> done
                  |          |          |           |               |
                  +-> refused <         +-----------+---------------+--> aborting -> rolled_back

``paused`` stands beside loading, probing and running and returns to the one it came from. A rollout that preserves
resources goes from pending to promoting and from there to done. ``done``, ``refused`` and ``rolled_back`` are final.
In every state the plan names versions for the stable arm that are known to serve: the old ones, or those that every
server has been serving as an arm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from voxrepo.rollout.finite import FiniteModel
from voxrepo.rollout.plan import Plan, PlannedVoice, Versions
from voxrepo.rollout.route import CANARY_LABEL, PREVIOUS_ARM, STABLE_ARM, Overflow, Percent, Route
from voxrepo.rollout.spec import (
    AbPolicy,
    CanaryPolicy,
    OverflowPolicy,
    RolloutSpec,
    ShadowPolicy,
    TieredPolicy,
    arms_of,
)

Phase = Literal[
    "pending",
    "loading",
    "probing",
    "running",
    "paused",
    "promoting",
    "keeping_previous",
    "done",
    "aborting",
    "rolled_back",
    "refused",
]
FINAL_PHASES: frozenset[Phase] = frozenset({"done", "rolled_back", "refused"})
PAUSABLE_PHASES: frozenset[Phase] = frozenset({"loading", "probing", "running"})

ENDLESS_WINDOW_S = 900.0
"""Observations by which policies that stay (overflow, tiered) are judged: a fault of today must not drown in last
week's good requests."""


class RolloutState(FiniteModel):
    """Attributes:
    phase: of the rollout.
    since: when the phase began, seconds since the epoch; like all times here.
    reason: why it is in this phase.
    resume_to: the phase to which ``paused`` returns.
    step: of a canary, from 0.
    step_started_at: when the step began; observations before do not count. For other policies when ``running`` began.
    weights: percent by arm that the operator set instead of the step's or the spec's; until the next step.
    promoted: the arm that is becoming, or has become, the stable one.
    stable_moved: whether servers were ever told to change the stable versions.
    """

    phase: Phase = "pending"
    since: float = 0.0
    reason: str = ""
    resume_to: Phase | None = None
    step: int = Field(default=0, ge=0)
    step_started_at: float = 0.0
    weights: dict[str, Percent] | None = None
    promoted: str | None = None
    stable_moved: bool = False

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self.phase in FINAL_PHASES

    @property
    def working_phase(self) -> Phase:
        """The phase, or while paused the one it would be in."""
        return self.resume_to if self.phase == "paused" and self.resume_to is not None else self.phase


@dataclass(frozen=True)
class Rollout:
    """A rollout as the store holds it.

    Attributes:
        id: unique, and the salt of the assignment of users.
        spec: what is wanted.
        stable: complete versions that the voice had at the start.
        state: where it stands.
        created_at: seconds since the epoch.
    """

    id: str
    spec: RolloutSpec
    stable: Versions
    state: RolloutState
    created_at: float = 0.0

    @property
    def arms(self) -> dict[str, Versions]:
        """Complete versions by arm."""
        return self.spec.arm_versions(self.stable)

    @property
    def promoted_versions(self) -> Versions:
        """Those that the voice shall have after the promotion; the old ones where none is under way."""
        return self.stable if self.state.promoted is None else self.arms[self.state.promoted]

    def with_state(self, state: RolloutState) -> Rollout:
        """The same rollout, elsewhere."""
        return Rollout(self.id, self.spec, self.stable, state, self.created_at)


def current_weights(rollout: Rollout) -> dict[str, float]:
    """Percent by arm other than stable that the state gives; empty unless users are assigned to arms."""
    state, policy = rollout.state, rollout.spec.policy
    if state.working_phase not in {"running", "promoting"} or rollout.spec.resource_preserving:
        return {}
    if not isinstance(policy, CanaryPolicy | AbPolicy):
        return {}
    if state.weights is not None:
        weights = dict(state.weights)
    elif isinstance(policy, CanaryPolicy):
        weights = {policy.arm: policy.steps[min(state.step, len(policy.steps) - 1)].weight}
    else:
        weights = {arm: weight for arm, weight in policy.weights.items() if arm != STABLE_ARM}
    if state.phase == "promoting":  # the losers go at once; their users hear what the winner says
        weights = {arm: weight for arm, weight in weights.items() if arm == state.promoted}
    return weights


def _labels(rollout: Rollout) -> dict[str, str]:
    arms = arms_of(rollout.spec.policy)
    if rollout.state.promoted is not None:
        return {CANARY_LABEL: rollout.state.promoted}
    return {CANARY_LABEL: arms[0]} if len(arms) == 1 else {}


def _running_route(rollout: Rollout) -> Route:
    policy = rollout.spec.policy
    weights = current_weights(rollout)
    return Route(
        rollout=rollout.id,
        policy=policy.kind,
        weights=weights,
        labels=_labels(rollout),
        pair_percent=rollout.spec.pairs_percent if weights else 0.0,
        shadow_arm=policy.arm if isinstance(policy, ShadowPolicy) else None,
        shadow_percent=policy.percent if isinstance(policy, ShadowPolicy) else 0.0,
        overflow=(
            Overflow(arm=policy.arm, above_wait_s=policy.above_wait_s, below_wait_s=policy.below_wait_s)
            if isinstance(policy, OverflowPolicy)
            else None
        ),
        tiered_arm=policy.arm if isinstance(policy, TieredPolicy) else None,
    )


def planned_voice(rollout: Rollout) -> PlannedVoice | None:
    """What servers shall serve of the voice in the rollout's state; None if it does not concern them (any more).

    ``voice.yaml`` must hold the right versions before a final state is saved, see :class:`Decision`.
    """
    state, spec = rollout.state, rollout.spec
    phase = state.working_phase
    if phase == "pending" or state.is_final:
        return None
    old, new = rollout.stable, rollout.promoted_versions
    if spec.resource_preserving:
        stable = old if phase == "aborting" else new
        return PlannedVoice(rollout=rollout.id, stable=stable, resource_preserving=True)
    if phase == "aborting":
        # the old versions are an arm too, so that servers that have moved can go back without a pause
        arms = {PREVIOUS_ARM: old} if state.stable_moved else {}
        return PlannedVoice(rollout=rollout.id, stable=old, arms=arms)
    keeps = {PREVIOUS_ARM: old} if spec.keep_previous_s > 0 else {}
    if phase == "keeping_previous":
        labels = {PREVIOUS_ARM: PREVIOUS_ARM} if keeps else {}
        route = Route(rollout=rollout.id, policy=spec.policy.kind, labels=labels) if labels else None
        return PlannedVoice(rollout=rollout.id, stable=new, arms=keeps, route=route)
    if phase == "promoting":
        assert state.promoted is not None
        weights = current_weights(rollout)
        route = Route(rollout=rollout.id, policy=spec.policy.kind, weights=weights, labels=_labels(rollout))
        return PlannedVoice(rollout=rollout.id, stable=new, arms={state.promoted: new, **keeps}, route=route)
    route = None
    if phase == "probing" and _labels(rollout):
        route = Route(rollout=rollout.id, policy=spec.policy.kind, labels=_labels(rollout))
    elif phase == "running":
        route = _running_route(rollout)
    return PlannedVoice(rollout=rollout.id, stable=old, arms=rollout.arms, route=route)


def judged_since(rollout: Rollout, now: float) -> float:
    """Moment since which observations count for the gates."""
    started = rollout.state.step_started_at
    if isinstance(rollout.spec.policy, OverflowPolicy | TieredPolicy):
        return max(started, now - ENDLESS_WINDOW_S)
    return started


def next_plan(current: Plan, rollouts: Iterable[Rollout]) -> Plan:
    """The plan for all rollouts: ``current`` itself if nothing changes, else one of the next generation."""
    voices = {}
    for rollout in rollouts:
        planned = planned_voice(rollout)
        if planned is not None:
            voices[rollout.spec.voice] = planned
    return current if voices == current.voices else Plan(generation=current.generation + 1, voices=voices)
