"""What an operator's commands do to a rollout. Pure."""

from __future__ import annotations

from voxrepo.rollout.decision import Command, Decision, Event, moved
from voxrepo.rollout.replicas import Replicas
from voxrepo.rollout.route import STABLE_ARM
from voxrepo.rollout.spec import AbPolicy, CanaryPolicy, arms_of
from voxrepo.rollout.state import PAUSABLE_PHASES, Phase, Rollout


def obey(rollout: Rollout, command: Command, replicas: Replicas, now: float) -> Decision:
    """Carry out a command, or say in an event why not."""
    if rollout.state.is_final:
        return _refused(rollout, command, f"the rollout is {rollout.state.phase} already")
    if command.kind == "unreadable":
        return _refused(rollout, command, "it cannot be understood")
    if command.kind == "abort":
        return _abort(rollout, command, now)
    if command.kind == "pause":
        return _pause(rollout, command, now)
    if command.kind == "resume":
        return _resume(rollout, command, now)
    if command.kind == "promote":
        return _promote(rollout, command, replicas, now)
    return _set_weights(rollout, command, now)


def _refused(rollout: Rollout, command: Command, why: str) -> Decision:
    phase = rollout.state.phase
    return Decision(
        state=rollout.state, events=(Event("command_refused", phase, phase, f"{command.said}: not done, {why}"),)
    )


def _abort(rollout: Rollout, command: Command, now: float) -> Decision:
    if rollout.state.phase == "aborting":
        return _refused(rollout, command, "it is being taken back already")
    if rollout.state.phase == "pending":
        return moved(rollout, "rolled_back", command.said, now)
    return take_back(rollout, command.said, now)


def take_back(rollout: Rollout, reason: str, now: float, numbers: dict[str, object] | None = None) -> Decision:
    """The decision to serve the old versions only."""
    versions = dict(rollout.stable) if rollout.state.stable_moved else None
    return moved(rollout, "aborting", reason, now, numbers=numbers, voice_versions=versions)


def _pause(rollout: Rollout, command: Command, now: float) -> Decision:
    phase = rollout.state.phase
    if phase not in PAUSABLE_PHASES:
        return _refused(rollout, command, f"a rollout that is {phase} cannot be paused")
    return moved(rollout, "paused", command.said, now, resume_to=phase)


def _resume(rollout: Rollout, command: Command, now: float) -> Decision:
    if rollout.state.phase != "paused":
        return _refused(rollout, command, f"it is {rollout.state.phase}, not paused")
    phase: Phase = rollout.state.working_phase
    return moved(rollout, phase, command.said, now)


def _promote(rollout: Rollout, command: Command, replicas: Replicas, now: float) -> Decision:
    if rollout.state.working_phase != "running":
        return _refused(rollout, command, f"it is {rollout.state.phase}; only running arms are promoted")
    arms = arms_of(rollout.spec.policy)
    if not command.arm and len(arms) > 1:
        return _refused(rollout, command, f"name the arm: {', '.join(arms)}")
    arm = command.arm or arms[0]
    if arm not in arms:
        return _refused(rollout, command, f"there is no arm {arm!r}; arms: {', '.join(arms)}")
    # the moment after a step begins, servers do not divide by its weights yet; that is no reason to send him away
    if why := replicas.not_ready(rollout, weights_too=False):
        return _refused(rollout, command, f"not all arms are ready ({why})")
    return moved(rollout, "promoting", f"{arm}: {command.said}", now, promoted=arm, stable_moved=True)


def _set_weights(rollout: Rollout, command: Command, now: float) -> Decision:
    state, policy = rollout.state, rollout.spec.policy
    if not isinstance(policy, CanaryPolicy | AbPolicy):
        return _refused(rollout, command, f"the policy {policy.kind!r} has no weights")
    if state.working_phase != "running":
        return _refused(rollout, command, f"it is {state.phase}; weights are in force only while it runs")
    weights = {arm: weight for arm, weight in command.weights.items() if arm != STABLE_ARM}
    arms = arms_of(policy)
    if unknown := [arm for arm in weights if arm not in arms]:
        return _refused(rollout, command, f"there is no arm {unknown[0]!r}; arms: {', '.join(arms)}")
    weights = {arm: weights.get(arm, 0.0) for arm in arms}
    total = sum(weights.values())
    if not all(0 <= weight <= 100 for weight in weights.values()) or not total <= 100:
        return _refused(rollout, command, f"weights must be from 0 to 100 and sum to at most 100, not {total:g}")
    if STABLE_ARM in command.weights and abs(total + command.weights[STABLE_ARM] - 100) > 1e-6:
        return _refused(rollout, command, f"weights with {STABLE_ARM!r} among them must sum to 100")
    shown = ", ".join(f"{arm} {weight:g} %" for arm, weight in weights.items())
    changed = state.model_copy(update={"weights": weights})
    event = Event("weights", state.phase, state.phase, f"{shown}; {command.said}", {"weights": weights, "at": now})
    return Decision(state=changed, events=(event,))
