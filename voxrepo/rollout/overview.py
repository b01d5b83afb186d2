"""What is known of rollouts now, put together for those who look: the database, and what servers say of themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable

from pydantic import Field

from voxrepo.rollout.gates import Judgement
from voxrepo.rollout.plan import ReplicaStatus, RolloutFolder, Versions, read_json
from voxrepo.rollout.route import STABLE_ARM, PolicyName
from voxrepo.rollout.spec import CanaryPolicy
from voxrepo.rollout.state import Phase, Rollout, current_weights
from voxrepo.rollout.store import LoggedEvent, Store
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.yamlfile import StrictModel

LAST_EVENTS = 8
NO_CONTROLLER = "no controller runs; `voxrepo serve` starts one, and so does `voxrepo controller`"


class ReplicaView(StrictModel):
    """One server, as it concerns a rollout.

    Attributes:
        name: of the server.
        age_s: seconds since it last said anything.
        lives: whether that is recent enough for the controller to count with it.
        generation: newest plan that it has carried out.
        stable: versions that the voice itself has there; empty if the server says nothing of it.
        arms: state of each arm there, with the reason after a colon where there is one.
        reason: why a change of the stable versions failed there.
    """

    name: str
    age_s: float
    lives: bool
    generation: int
    stable: Versions = Field(default_factory=dict)
    arms: dict[str, str] = Field(default_factory=dict)
    reason: str = ""


class EventView(StrictModel):
    """An event; ``at`` in seconds since the epoch."""

    id: int
    at: float
    rollout: str
    kind: str
    from_phase: str
    to_phase: str
    reason: str
    numbers: dict[str, object] = Field(default_factory=dict)

    @classmethod
    def of(cls, logged: LoggedEvent) -> EventView:
        """From the store's."""
        event = logged.event
        return cls(
            id=logged.id,
            at=logged.at,
            rollout=logged.rollout,
            kind=event.kind,
            from_phase=event.from_phase,
            to_phase=event.to_phase,
            reason=event.reason,
            numbers=event.numbers,
        )


class RolloutOverview(StrictModel):
    """A rollout at a moment.

    Attributes:
        id: of the rollout.
        voice: that it concerns.
        policy: kind of its policy.
        phase: where it stands.
        resume_to: where it goes on after a pause.
        since: when the phase began; all times in seconds since the epoch.
        reason: why it is in this phase.
        waiting: what the next change waits for.
        looked_at: when the controller last had something new to say.
        created_at: when it was asked for.
        step: of a canary that runs, from 1; None otherwise.
        steps: how many a canary has.
        step_started_at: when it began; observations before do not count.
        weights: percent of the requests by arm, the stable one included; empty while none are assigned.
        stable: versions before the rollout.
        arms: versions of each arm.
        promoted: the arm that becomes, or became, the stable one.
        judgement: verdicts at the controller's last look.
        replicas: servers of the root.
        events: the last ones.
        commands: that wait for the controller.
    """

    id: str
    voice: str
    policy: PolicyName
    phase: Phase
    resume_to: Phase | None
    since: float
    reason: str
    waiting: str
    looked_at: float
    created_at: float
    step: int | None
    steps: int | None
    step_started_at: float
    weights: dict[str, float]
    stable: Versions
    arms: dict[str, Versions]
    promoted: str | None
    judgement: Judgement | None
    replicas: list[ReplicaView]
    events: list[EventView]
    commands: list[str]

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self.phase in {"done", "rolled_back", "refused"}


def read_statuses(folder: RolloutFolder) -> list[ReplicaStatus]:
    """What all servers of a root said last; those whose file cannot be understood are left out."""
    statuses = []
    for file in sorted(folder.replicas.glob("*/status.json")):
        try:
            status = read_json(file, ReplicaStatus)
        except ConfigError:
            continue  # of another version of this program; a server that lives renews it
        if status is not None:
            statuses.append(status)
    return statuses


def with_stable(weights: dict[str, float]) -> dict[str, float]:
    """Weights with the stable arm's rest in front; empty if there are none."""
    return {STABLE_ARM: round(100 - sum(weights.values()), 6), **weights} if weights else {}


def overview_of(
    store: Store,
    rollout: Rollout,
    statuses: Iterable[ReplicaStatus] = (),
    *,
    now: float | None = None,
    events: int = LAST_EVENTS,
) -> RolloutOverview:
    """Put together what is known of a rollout.

    Raises:
        ConfigError: the database cannot be read.
    """
    now = time.time() if now is None else now
    progress = store.progress(rollout.id)
    state, policy = rollout.state, rollout.spec.policy
    is_canary = isinstance(policy, CanaryPolicy) and not rollout.spec.resource_preserving
    steps = len(policy.steps) if isinstance(policy, CanaryPolicy) and is_canary else None
    runs = state.working_phase == "running"
    # statuses of servers that are long gone say nothing about a rollout that has ended
    shown = [] if state.is_final else list(statuses)
    return RolloutOverview(
        id=rollout.id,
        voice=rollout.spec.voice,
        policy=policy.kind,
        phase=state.phase,
        resume_to=state.resume_to,
        since=state.since,
        reason=state.reason,
        waiting=progress.waiting,
        looked_at=progress.updated_at,
        created_at=rollout.created_at,
        step=min(state.step, steps - 1) + 1 if steps and runs else None,
        steps=steps,
        step_started_at=state.step_started_at,
        weights=with_stable(current_weights(rollout)),
        stable=rollout.stable,
        arms=rollout.arms,
        promoted=state.promoted,
        judgement=progress.judgement,
        replicas=[_replica(status, rollout, now) for status in shown],
        events=[EventView.of(each) for each in store.events(rollout.id)[-events:]] if events else [],
        commands=[command.said for command in store.commands(rollout.id)],
    )


def _replica(status: ReplicaStatus, rollout: Rollout, now: float) -> ReplicaView:
    voice = status.voices.get(rollout.spec.voice)
    return ReplicaView(
        name=status.name,
        age_s=round(max(0.0, now - status.updated_at), 3),
        lives=status.lives_at(now),
        generation=status.generation,
        stable={} if voice is None else voice.stable,
        arms={}
        if voice is None
        else {arm: f"{each.state}: {each.reason}" if each.reason else each.state for arm, each in voice.arms.items()},
        reason="" if voice is None else voice.reason,
    )
