"""No sequence of events, observations, commands and crashes leaves a voice without versions that serve."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from voxrepo.rollout.decide import decide
from voxrepo.rollout.decision import Command
from voxrepo.rollout.gates import GateVerdict, Judgement
from voxrepo.rollout.plan import ArmStatus, Plan, ReplicaStatus, ReplicaVoice
from voxrepo.rollout.spec import AbPolicy, CanaryPolicy, ShadowPolicy, parse_spec
from voxrepo.rollout.state import RolloutState, judged_since, next_plan
from voxrepo.rollout.store import Store

OLD = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
STEPS = "steps: [{weight: 5, hold_s: 10, min_requests: 20}, {weight: 100, hold_s: 20, min_requests: 20}]"
ONE = "voice: v\narms: {a: {vocoder: 2}}\n"
TWO = "voice: v\narms: {a: {vocoder: 2}, b: {vocoder: 3, acoustic: 2}}\n"
SPECS = [
    ONE + f"policy: {{kind: canary, arm: a, {STEPS}}}\nkeep_previous_s: 30\n",
    ONE + f"policy: {{kind: canary, arm: a, {STEPS}, then: wait}}\nkeep_previous_s: 0\n",
    ONE + f"policy: {{kind: canary, arm: a, {STEPS}}}\nresource_preserving: true\n",
    TWO + "policy: {kind: ab, weights: {a: 30, b: 30}, min_requests: 20, duration_s: 20, winner: error_ratio}\n",
    TWO + "policy: {kind: ab, weights: {a: 50, b: 20, stable: 30}, min_requests: 20, duration_s: 20}\n",
    ONE + "policy: {kind: shadow, arm: a, min_pairs: 20, then: promote}\nkeep_previous_s: 30\n",
    ONE + "policy: {kind: overflow, arm: a, above_wait_s: 2, below_wait_s: 1}\n",
]


@dataclass
class Server:
    """A server as far as the plan concerns it: one change a turn, which may fail."""

    name: str
    stable: dict[str, int]
    alive: bool = True
    seen_at: float = 0.0
    generation: int = 0
    reason: str = ""
    arms: dict[str, ArmStatus] = field(default_factory=dict)
    served_once: list[dict[str, int]] = field(default_factory=list)

    def turn(self, plan: Plan, pinned: dict[str, int], works: bool) -> None:
        """The next change, as a supervisor makes it."""
        wanted = plan.voices.get("v")
        if wanted is None:
            self.arms, self.reason = {}, ""
            # no rollout concerns it: what voice.yaml pins must be what is served, or nothing would lead there
            assert self.stable == pinned
            self.generation = plan.generation
            return
        for arm in list(self.arms):
            if self.arms[arm].versions != wanted.arms.get(arm):
                del self.arms[arm]
                return
        for arm, versions in wanted.arms.items():
            if arm not in self.arms:
                self.arms[arm] = ArmStatus(
                    state="ready" if works else "failed", versions=versions, reason="" if works else "does not load"
                )
                return
        if wanted.stable != self.stable:
            if self.reason != f"cannot move to {wanted.stable}":
                if works:
                    self.stable, self.reason = dict(wanted.stable), ""
                    return
                self.reason = f"cannot move to {wanted.stable}"
        else:
            self.reason = ""
        self.generation = plan.generation

    def status(self) -> ReplicaStatus:
        voice = ReplicaVoice(stable=self.stable, arms=dict(self.arms), reason=self.reason)
        return ReplicaStatus(
            name=self.name, pid=1, updated_at=self.seen_at, generation=self.generation, voices={"v": voice}
        )


class Crash(Exception):
    """kill -9 of the controller."""


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.now = 1000.0
        self.pinned = dict(OLD)
        self.plan = Plan()
        self.since_generation = 0
        self.final: RolloutState | None = None
        self.judgement: Judgement | None = None
        self.servers: dict[str, Server] = {}
        self.numbers = itertools.count()
        self.store = self.open()

    def open(self) -> Store:
        store = Store(self.folder / "r.db", lambda: self.now)
        store.database.connection.execute("PRAGMA synchronous = OFF")  # processes die here, not the machine
        return store

    def teardown(self) -> None:
        if hasattr(self, "id"):
            self.comes_to_an_end()
        self.store.close()
        shutil.rmtree(self.folder)

    @initialize(text=st.sampled_from(SPECS), servers=st.sampled_from([2, 1, 3, 0]), looks=st.integers(0, 8))
    def begin(self, text, servers, looks):
        self.spec = parse_spec(text)
        self.id = self.store.create(self.spec, OLD).id
        self.known = [OLD, *self.store.rollout(self.id).arms.values()]
        for _ in range(servers):
            self.start_server()
        for _ in range(looks):  # so that late phases are met as often as early ones
            self.look_in_peace(True)

    # the world

    @rule()
    def start_server(self):
        if len(self.servers) < 4:
            name = f"s{next(self.numbers)}"
            self.servers[name] = Server(name, dict(self.pinned), seen_at=self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 12.0, 40.0]))
    def time_passes(self, seconds):
        self.now += seconds
        for server in self.servers.values():
            if server.alive:
                server.seen_at = self.now

    @rule(turns=st.integers(1, 8), works=st.sampled_from([True, True, True, True, False]))
    def servers_follow(self, turns, works):
        for server in self.servers.values():
            if server.alive:
                for turn in range(turns):
                    server.turn(self.plan, self.pinned, works or turn > 0)

    @rule(data=st.data(), what=st.sampled_from(["dies", "restarts", "loses an arm"]))
    def a_server_has_trouble(self, data, what):
        if not self.servers:
            return
        server = data.draw(st.sampled_from(list(self.servers.values())))
        if what == "dies":
            server.alive = False
        elif what == "restarts":
            self.servers[server.name] = Server(server.name, dict(self.pinned), seen_at=self.now)
        elif ready := [arm for arm, each in server.arms.items() if each.state == "ready"]:
            arm = data.draw(st.sampled_from(ready))
            server.arms[arm] = server.arms[arm].model_copy(update={"state": "failed", "reason": "signal 11"})

    @rule(
        verdict=st.sampled_from(["pass", "pass", "pass", "fail", "inconclusive"]),
        dry_run=st.sampled_from([False, False, True]),
        requests=st.sampled_from([0, 5, 100]),
        winner=st.sampled_from(["stable", "a", "b"]),
        stale=st.sampled_from([False, False, False, True]),
    )
    def users_speak(self, verdict, dry_run, requests, winner, stale):
        verdicts = [GateVerdict(arm="a", metric="error_ratio", verdict=verdict, dry_run=dry_run, reason=verdict)]
        arms = {"stable": requests, "a": requests, "b": requests}
        rollout = self.store.rollout(self.id)
        self.judgement = Judgement(
            since=judged_since(rollout, self.now) - stale,
            verdicts=verdicts,
            requests=arms,
            pairs={"a": requests},
            winner=winner,
            winner_reason=winner,
        )

    @rule(
        kind=st.sampled_from(["promote", "pause", "resume", "set_weights", "abort"]),
        arm=st.sampled_from(["", "a", "b"]),
        weights=st.dictionaries(st.sampled_from(["a", "b", "stable", "x"]), st.floats(-10, 150), max_size=3),
    )
    def operator_speaks(self, kind, arm, weights):
        if self.final is None:
            self.store.order(self.id, Command(kind=kind, arm=arm, weights=weights, by="anna"))

    @rule(crash_at=st.sampled_from([0, 0, 0, 0, 1, 2, 3]), looks=st.integers(1, 3))
    def controller_looks(self, crash_at, looks):
        for _ in range(looks):
            try:
                self.look(crash_at)
            except Crash:
                self.store.close()
                self.store = self.open()
                self.since_generation = self.plan.generation

    @precondition(lambda self: self.final is None)
    @rule(speak=st.sampled_from([True, True, False]))
    def a_look_without_trouble(self, speak):
        """Else a promotion would be a rare thing. Unless users speak, what is known is from before the last change."""
        self.look_in_peace(speak)

    def look_in_peace(self, speak: bool) -> None:
        if not any(server.alive for server in self.servers.values()):
            self.start_server()
        self.servers_follow(6, True)
        self.time_passes(21.0)
        if speak:
            self.users_speak("pass", False, 100, "a", False)
        self.look(0)

    @precondition(lambda self: self.final is None)
    @rule(
        data=st.data(), starts=st.booleans(), speak=st.booleans(), turns=st.lists(st.booleans(), min_size=1, max_size=4)
    )
    def a_look_at_a_server_that_fails(self, data, starts, speak, turns):
        """A new server that has not done anything yet, or some of what one has to do for the plan it cannot."""
        if speak:
            self.time_passes(12.0)
            self.users_speak("pass", False, 100, "a", False)
        if starts:
            self.start_server()
        elif self.servers:
            server = data.draw(st.sampled_from(list(self.servers.values())))
            for works in turns:
                if server.alive:
                    server.turn(self.plan, self.pinned, works)
        self.time_passes(1.0)
        self.look(0)

    def look(self, crash_at: int) -> None:
        """What the controller does, in its order: decide, voice.yaml, state, plan."""
        holder = f"c{next(self.numbers)}" if crash_at else "c"
        self.store.release_lease(self.store.lease_holder() or "")
        assert self.store.take_lease(holder, 1000.0)
        rollout = self.store.rollout(self.id)
        statuses = [server.status() for server in self.servers.values()]
        commands = self.store.commands(self.id)
        judgement = self.judgement
        generation = self.since_generation
        decision = decide(rollout, statuses, judgement, commands, self.now, generation)
        assert decision == decide(rollout, statuses, judgement, commands, self.now, generation)
        self.check(rollout, decision, judgement)
        if crash_at == 1:
            raise Crash
        if decision.voice_versions is not None:
            self.pinned = dict(decision.voice_versions)
        if crash_at == 2:
            raise Crash
        after = self.store.save(rollout, decision, holder=holder)
        if crash_at == 3:
            raise Crash
        self.take_up(after)

    def take_up(self, rollout) -> None:
        plan = next_plan(self.plan, [rollout])
        if plan is not self.plan:
            self.plan, self.since_generation = plan, plan.generation

    # what must hold

    def check(self, rollout, decision, judgement) -> None:
        before, after = rollout.state, decision.state
        by_hand = any(event.reason.find("by anna") >= 0 for event in decision.events)
        if before.is_final:
            assert after == before
        ahead = after.phase == "promoting" and before.phase != "promoting"
        if (ahead or any(event.kind == "step" for event in decision.events)) and not self.spec.resource_preserving:
            # every living server serves every arm, whoever wants it
            for server in self.servers.values():
                if server.alive:
                    for arm, versions in rollout.arms.items():
                        assert server.arms[arm].state == "ready" and server.arms[arm].versions == versions
            if not by_hand:
                assert before.phase == "running"
                assert judgement is not None and not judgement.open() and judgement.since >= before.step_started_at
                policy = self.spec.policy
                assert isinstance(policy, CanaryPolicy | AbPolicy | ShadowPolicy)
                if isinstance(policy, CanaryPolicy):
                    step = policy.steps[before.step]
                    assert self.now - before.step_started_at >= step.hold_s
                    assert judgement.requests["a"] >= step.min_requests
                    if ahead:
                        assert before.step == len(policy.steps) - 1 and policy.then == "promote"
        runs = before.working_phase == "running" and judgement is not None
        if runs and judgement.failed() and judgement.since >= before.step_started_at:
            assert after.phase == "aborting" or decision.events
        if after.phase == "keeping_previous" and before.phase == "promoting":
            assert all(s.stable == rollout.promoted_versions for s in self.servers.values() if s.alive)

    @precondition(lambda self: hasattr(self, "id"))
    @invariant()
    def the_plan_serves(self):
        rollout = self.store.rollout(self.id)
        for plan in (self.plan, next_plan(self.plan, [rollout])):
            wanted = plan.voices.get("v")
            if wanted is None:
                continue
            assert wanted.stable in self.known and set(wanted.stable) == set(OLD)
            assert wanted.stable == OLD or rollout.state.stable_moved
            assert all(versions in self.known for versions in wanted.arms.values())
            if wanted.route is not None:
                assert sum(wanted.route.weights.values()) <= 100 + 1e-9
                assert set(wanted.route.weights) | set(wanted.route.labels.values()) <= set(wanted.arms)
            if wanted.resource_preserving:
                assert not wanted.arms and wanted.route is None
        assert self.pinned in self.known

    @precondition(lambda self: hasattr(self, "id"))
    @invariant()
    def an_end_is_an_end_and_the_log_explains_it(self):
        state = self.store.rollout(self.id).state
        if self.final is not None:
            assert state == self.final
        if state.is_final:
            self.final = state
            expected = OLD
            if state.phase == "done" and state.promoted is not None:
                expected = self.store.rollout(self.id).promoted_versions
            assert self.pinned == expected
        events = [logged.event for logged in self.store.events(self.id)]
        assert events[-1].to_phase == state.phase
        for first, second in itertools.pairwise(events):
            assert second.from_phase == first.to_phase and second.reason

    def comes_to_an_end(self) -> None:
        """Whatever happened: once servers and controller work, an abort ends in a served voice."""
        self.servers_follow(1, True)
        self.store.order(self.id, Command(kind="abort"))
        for name in list(self.servers):
            if self.servers[name].alive:
                self.servers[name] = Server(name, dict(self.pinned), seen_at=self.now)
        for _ in range(12):
            self.judgement = None
            self.look(0)
            self.time_passes(20.0)
            self.servers_follow(6, True)
        rollout = self.store.rollout(self.id)
        assert rollout.state.is_final, rollout.state
        for server in self.servers.values():
            if server.alive:
                assert server.stable == self.pinned


SETTINGS = settings(
    max_examples=6,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


class AnyLongOrder(AnyOrder):
    """The same with more and longer examples."""


AnyOrder.TestCase.settings = SETTINGS
AnyLongOrder.TestCase.settings = settings(SETTINGS, max_examples=60, stateful_step_count=40)
test_any_order = pytest.mark.timeout(300)(AnyOrder.TestCase)
test_any_long_order = pytest.mark.soak(pytest.mark.timeout(600)(AnyLongOrder.TestCase))
