"""The next state of a rollout, from what is known now. Pure: nothing is remembered between calls but the state.

A controller that died between a decision and its execution decides the same again. One call makes one change of its
own at most, after the operator's commands; call it again with the new state for the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from voxrepo.rollout.decision import Command, Decision, Event, moved, stays
from voxrepo.rollout.gates import GateVerdict, Judgement
from voxrepo.rollout.operator import obey, take_back
from voxrepo.rollout.plan import ReplicaStatus
from voxrepo.rollout.replicas import Replicas
from voxrepo.rollout.route import STABLE_ARM
from voxrepo.rollout.spec import AbPolicy, CanaryPolicy, ShadowPolicy, arms_of
from voxrepo.rollout.state import Rollout

PROBE_S = 2.0
"""Time for which arms must stay ready on all servers before users meet them: a process that dies at its first work
does so within it. (Each server has let its arms speak before it calls them ready.)"""
SERVER_LIMIT_S = 1800.0
"""Time for living servers to do what a phase asks of them; loads of the largest models are within it. One that cannot
(its engine does not start, for one) must not keep the voice from its next rollout for ever."""


def decide(
    rollout: Rollout,
    statuses: Iterable[ReplicaStatus],
    judgement: Judgement | None,
    commands: Sequence[Command],
    now: float,
    generation: int = 0,
) -> Decision:
    """Decide.

    Args:
        rollout: as the store holds it.
        statuses: of all servers, living or not.
        judgement: of observations since :func:`voxrepo.rollout.state.judged_since`; None if there is none. An older
            one is not used.
        commands: not consumed yet, in order.
        now: seconds since the epoch.
        generation: of the plan that first said what the state asks for (see :class:`Replicas`).
    """
    replicas = Replicas.at(statuses, now, generation)
    events: list[Event] = []
    versions = None
    before = rollout.state
    for command in commands:
        decision = obey(rollout, command, replicas, now)
        events += decision.events
        versions = decision.voice_versions if decision.voice_versions is not None else versions
        rollout = rollout.with_state(decision.state)
    consumed = tuple(command.id for command in commands)
    if rollout.state != before:  # what the servers say belongs to the state before
        return Decision(rollout.state, tuple(events), versions, consumed=consumed)
    decision = _next(rollout, replicas, judgement, now)
    return replace(decision, events=(*events, *decision.events), consumed=consumed)


def _next(rollout: Rollout, replicas: Replicas, judgement: Judgement | None, now: float) -> Decision:
    state = rollout.state
    phase = state.working_phase
    if state.is_final:
        return stays(rollout, "")
    if (late_s := max(state.since, state.step_started_at) - now) > 0:
        return _begin_anew(rollout, late_s, now)
    if phase == "pending":
        return _begin(rollout, now)
    if phase in {"loading", "probing"}:
        return _load(rollout, replicas, now)
    if phase == "running":
        return _run(rollout, replicas, judgement, now)
    if phase == "promoting":
        return _move_stable(rollout, replicas, now)
    if phase == "keeping_previous":
        left = state.since + rollout.spec.keep_previous_s - now
        if left > 0:
            return stays(rollout, f"the previous versions are kept for another {left:.0f} s")
        return moved(rollout, "done", f"{state.promoted} is stable; the previous versions are unloaded", now)
    return _take_back_further(rollout, replicas, now)


def _begin_anew(rollout: Rollout, late_s: float, now: float) -> Decision:
    """The clock was set back: what is measured from a moment that is yet to come would be put off until then."""
    state = rollout.state
    begun = {"since": min(state.since, now), "step_started_at": min(state.step_started_at, now)}
    reason = f"the clock was set back to {late_s:.0f} s before this began; times are measured from now on"
    event = Event("controller", state.phase, state.phase, reason)
    return Decision(state=state.model_copy(update=begun), events=(event,))


def _overdue(rollout: Rollout, replicas: Replicas, waiting: str, now: float) -> str | None:
    """Why living servers are not waited for any more; None as long as they are."""
    if replicas.living and now - rollout.state.since >= SERVER_LIMIT_S:
        return f"{waiting}; not waited for after {SERVER_LIMIT_S / 60:g} min"
    return None


def _begin(rollout: Rollout, now: float) -> Decision:
    if rollout.spec.resource_preserving:
        (arm,) = arms_of(rollout.spec.policy)
        reason = f"{arm}: the old versions are unloaded first, requests wait meanwhile (resource_preserving)"
        return moved(rollout, "promoting", reason, now, promoted=arm, stable_moved=True)
    arms = ", ".join(arms_of(rollout.spec.policy))
    return moved(rollout, "loading", f"arms to load: {arms}", now)


def _load(rollout: Rollout, replicas: Replicas, now: float) -> Decision:
    state = rollout.state
    phase = state.working_phase
    if why := replicas.failed_arm(rollout, were_ready=phase == "probing"):
        return moved(rollout, "refused", why, now)
    waiting = replicas.not_ready(rollout)
    if state.phase == "paused":
        return stays(rollout, "paused")
    if waiting:
        why = _overdue(rollout, replicas, waiting, now)
        return moved(rollout, "refused", why, now) if why else stays(rollout, waiting)
    if phase == "loading":
        names = ", ".join(status.name for status in replicas.living)
        return moved(rollout, "probing", f"all arms are loaded and have spoken on {names}", now)
    if now - state.since < PROBE_S:
        return stays(rollout, f"arms must stay ready for {PROBE_S:g} s")
    reason = f"arms stayed ready for {PROBE_S:g} s; {_share_in_words(rollout, 0)}"
    return moved(rollout, "running", reason, now, step=0, step_started_at=now, weights=None)


def _share_in_words(rollout: Rollout, step: int) -> str:
    policy = rollout.spec.policy
    if isinstance(policy, CanaryPolicy):
        return (
            f"step {step + 1} of {len(policy.steps)}: {policy.steps[step].weight:g} % of the requests to {policy.arm}"
        )
    if isinstance(policy, AbPolicy):
        return ", ".join(f"{weight:g} % to {arm}" for arm, weight in policy.weights.items())
    if isinstance(policy, ShadowPolicy):
        return f"{policy.percent:g} % of the requests are copied to {policy.arm}"
    return f"{policy.kind} by {policy.arm}"


def _numbers(judgement: Judgement | None) -> dict[str, Any]:
    if judgement is None:
        return {}
    verdicts = [each.model_dump(mode="json", exclude={"reason", "limit"}) for each in judgement.verdicts]
    return {"requests": judgement.requests, "pairs": judgement.pairs, "verdicts": verdicts}


def _run(rollout: Rollout, replicas: Replicas, judgement: Judgement | None, now: float) -> Decision:
    state = rollout.state
    if judgement is not None and judgement.since < state.step_started_at:
        judgement = None
    if why := replicas.failed_arm(rollout, were_ready=True):
        return take_back(rollout, why, now, _numbers(judgement))
    if judgement is not None and (failed := judgement.failed()):
        return take_back(rollout, "; ".join(each.reason for each in failed), now, _numbers(judgement))
    if state.phase == "paused":
        return stays(rollout, "paused")
    if waiting := replicas.not_ready(rollout):
        return stays(rollout, waiting)
    policy = rollout.spec.policy
    if judgement is None:
        return stays(rollout, "no observations yet")
    if isinstance(policy, CanaryPolicy):
        return _step(rollout, policy, judgement, now)
    if isinstance(policy, AbPolicy):
        return _compare(rollout, policy, judgement, now)
    if isinstance(policy, ShadowPolicy):
        return _shadow(rollout, policy, judgement, now)
    return stays(rollout, f"{policy.kind} stays until it is promoted or aborted")


def _lacking(judgement: Judgement, arms: Iterable[str], minimum: int) -> str | None:
    for arm in arms:
        count = judgement.requests.get(arm, 0)
        if count < minimum:
            return f"{count} of {minimum} requests of {arm}"
    return None


def _open(verdicts: Sequence[GateVerdict]) -> str | None:
    return verdicts[0].reason if verdicts else None


def _promote(rollout: Rollout, arm: str, reason: str, now: float, judgement: Judgement) -> Decision:
    return moved(rollout, "promoting", reason, now, numbers=_numbers(judgement), promoted=arm, stable_moved=True)


def _passed(judgement: Judgement) -> str:
    passed = sum(each.verdict == "pass" and not each.dry_run for each in judgement.verdicts)
    return f"{passed} gates passed"


def _step(rollout: Rollout, policy: CanaryPolicy, judgement: Judgement, now: float) -> Decision:
    state = rollout.state
    number = min(state.step, len(policy.steps) - 1)
    step = policy.steps[number]
    left = state.step_started_at + step.hold_s - now
    waiting = f"step {number + 1} is held for another {left:.0f} s" if left > 0 else None
    waiting = waiting or _lacking(judgement, [policy.arm], step.min_requests) or _open(judgement.open())
    if waiting:
        return stays(rollout, waiting)
    served = judgement.requests.get(policy.arm, 0)
    done = f"step {number + 1} of {len(policy.steps)} passed: {served} requests of {policy.arm}, {_passed(judgement)}"
    if number + 1 < len(policy.steps):
        reason = f"{done}; {_share_in_words(rollout, number + 1)}"
        changed = state.model_copy(
            update={"step": number + 1, "step_started_at": now, "weights": None, "reason": reason}
        )
        event = Event("step", state.phase, state.phase, reason, _numbers(judgement))
        return Decision(state=changed, events=(event,))
    if policy.then == "wait":
        return stays(rollout, f"{done}; waiting for the command to promote")
    return _promote(rollout, policy.arm, done, now, judgement)


def _compare(rollout: Rollout, policy: AbPolicy, judgement: Judgement, now: float) -> Decision:
    left = rollout.state.step_started_at + policy.duration_s - now
    waiting = f"compared for another {left:.0f} s" if left > 0 else None
    arms = [STABLE_ARM, *arms_of(policy)]
    waiting = waiting or _lacking(judgement, arms, policy.min_requests) or _open(judgement.open())
    if waiting:
        return stays(rollout, waiting)
    if policy.winner == "manual":
        return stays(rollout, f"{_passed(judgement)}; waiting for the command to promote an arm or to abort")
    if judgement.winner in arms and judgement.winner != STABLE_ARM:
        return _promote(rollout, judgement.winner, judgement.winner_reason, now, judgement)
    return moved(rollout, "done", judgement.winner_reason or "no arm won", now, numbers=_numbers(judgement))


def _shadow(rollout: Rollout, policy: ShadowPolicy, judgement: Judgement, now: float) -> Decision:
    pairs = judgement.pairs.get(policy.arm, 0)
    waiting = f"{pairs} of {policy.min_pairs} pairs" if pairs < policy.min_pairs else _open(judgement.open())
    if waiting:
        return stays(rollout, waiting)
    done = f"{pairs} pairs compared, {_passed(judgement)}"
    if policy.then == "promote":
        return _promote(rollout, policy.arm, done, now, judgement)
    return moved(rollout, "done", f"{done}; {policy.arm} is unloaded", now, numbers=_numbers(judgement))


def _move_stable(rollout: Rollout, replicas: Replicas, now: float) -> Decision:
    arm = rollout.state.promoted
    assert arm is not None
    versions = rollout.promoted_versions
    why = replicas.failed_stable(rollout, versions)
    if why is None and not rollout.spec.resource_preserving:
        why = replicas.lost_candidate(rollout, arm, versions)
    if why:
        return take_back(rollout, why, now)
    waiting = replicas.not_moved(rollout, versions) if replicas.living else "no server is alive"
    if waiting:
        why = _overdue(rollout, replicas, waiting, now)
        return take_back(rollout, why, now) if why else stays(rollout, waiting)
    names = ", ".join(status.name for status in replicas.living)
    if rollout.spec.resource_preserving or rollout.spec.keep_previous_s <= 0:
        return moved(rollout, "done", f"{arm} is stable on {names}", now, voice_versions=dict(versions))
    reason = f"{arm} is stable on {names}; the previous versions are kept for {rollout.spec.keep_previous_s:g} s"
    return moved(rollout, "keeping_previous", reason, now, voice_versions=dict(versions))


def _take_back_further(rollout: Rollout, replicas: Replicas, now: float) -> Decision:
    reason = rollout.state.reason
    if waiting := replicas.not_moved(rollout, rollout.stable, absent_is_moved=True):
        why = _overdue(rollout, replicas, waiting, now)
        if why is None:
            return stays(rollout, waiting)
        reason = f"{reason} ({why})"  # once it can, it goes by voice.yaml
    versions = dict(rollout.stable) if rollout.state.stable_moved else None
    return moved(rollout, "rolled_back", reason, now, voice_versions=versions)
