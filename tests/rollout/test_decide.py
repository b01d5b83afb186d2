from __future__ import annotations

import pytest

from voxrepo.rollout.decide import PROBE_S, decide
from voxrepo.rollout.decision import Command
from voxrepo.rollout.gates import GateVerdict, Judgement
from voxrepo.rollout.plan import STATUS_LIMIT_S, ArmStatus, Plan, ReplicaStatus, ReplicaVoice
from voxrepo.rollout.route import Route
from voxrepo.rollout.spec import parse_spec
from voxrepo.rollout.state import Rollout, RolloutState, judged_since, next_plan, planned_voice

OLD = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
NEW = {**OLD, "vocoder": 2}
STEPS = "steps: [{weight: 5, hold_s: 10, min_requests: 20}, {weight: 50, hold_s: 10, min_requests: 20}]"
CANARY = f"voice: en-joe\narms: {{int8: {{vocoder: 2}}}}\npolicy: {{kind: canary, arm: int8, {STEPS}}}\n"
AB = (
    "voice: en-joe\narms: {a: {vocoder: 2}, b: {vocoder: 3}}\n"
    "policy: {kind: ab, weights: {stable: 40, a: 30, b: 30}, min_requests: 50, duration_s: 60, winner: WINNER}\n"
)
SHADOW = (
    "voice: en-joe\narms: {int8: {vocoder: 2}}\n"
    "policy: {kind: shadow, arm: int8, percent: 20, min_pairs: 30, then: THEN}\n"
)


def at(phase, text=CANARY, **state):
    spec = parse_spec(text)
    return Rollout("r1", spec, OLD, RolloutState(phase=phase, **{"since": 100.0, "step_started_at": 100.0, **state}))


def server(name="one", stable=OLD, at_=200.0, generation=7, reason="", **arms):
    """A server's status; arms as ``name=(state, versions)`` or ``name=state`` for the new versions."""
    found = {}
    for arm, given in arms.items():
        state, versions = given if isinstance(given, tuple) else (given, NEW)
        found[arm] = ArmStatus(state=state, versions=versions, reason="it broke" if state == "failed" else "")
    voice = ReplicaVoice(stable=stable, arms=found, reason=reason)
    return ReplicaStatus(name=name, pid=1, updated_at=at_, generation=generation, voices={"en-joe": voice})


def judged(requests=100, verdict="pass", since=100.0, dry_run=False, pairs=100, **more):
    verdicts = [
        GateVerdict(
            arm="int8",
            metric="error_ratio",
            verdict=verdict,
            value=0.5,
            dry_run=dry_run,
            reason=f"error_ratio {verdict}",
        )
    ]
    arms = {"stable": requests, "int8": requests, "a": requests, "b": requests}
    return Judgement(since=since, verdicts=verdicts, requests=arms, pairs={"int8": pairs}, **more)


def look(rollout, *statuses, judgement=None, commands=(), now=200.0, generation=7):
    return decide(rollout, statuses, judgement, commands, now, generation)


READY = server(int8="ready")


def test_a_good_candidate_goes_all_the_way():
    rollout, now, phases = at("pending"), 200.0, []
    statuses = [READY]
    for _ in range(12):
        now += 11
        fresh = [status.model_copy(update={"updated_at": now}) for status in statuses]
        decision = look(rollout, *fresh, judgement=judged(since=now - 11), now=now)
        for event in decision.events:
            phases.append((event.kind, event.to_phase))
            assert event.reason
        rollout = rollout.with_state(decision.state)
        if rollout.state.phase == "promoting":
            statuses = [server(stable=NEW, int8="ready")]
        if decision.voice_versions is not None:
            assert decision.voice_versions == NEW and rollout.state.phase == "keeping_previous"
            now += 600
    assert phases == [
        ("state", "loading"),
        ("state", "probing"),
        ("state", "running"),
        ("step", "running"),
        ("state", "promoting"),
        ("state", "keeping_previous"),
        ("state", "done"),
    ]


def test_an_arm_that_fails_to_load_is_refused_with_its_reason():
    decision = look(at("loading"), READY, server("two", int8="failed"))
    assert decision.state.phase == "refused"
    assert decision.state.reason == "int8 on two: it broke"


def test_a_failure_from_before_the_plan_is_not_believed_until_it_stays():
    old = server(generation=6, int8="failed")
    assert look(at("loading", since=199.0), old).state.phase == "loading"
    assert look(at("loading", since=200.0 - STATUS_LIMIT_S), old).state.phase == "refused"
    other = server(int8=("failed", {**OLD, "vocoder": 9}))
    assert look(at("loading"), other).state.phase == "loading"


def test_loading_waits_for_a_living_server_and_only_for_those():
    assert look(at("loading")).waiting == "no server is alive"
    assert "int8 on one: loading" in look(at("loading"), server(int8="loading")).waiting
    gone = server("gone", at_=200.0 - STATUS_LIMIT_S - 1, int8="loading")
    assert look(at("loading"), READY, gone).state.phase == "probing"
    assert look(at("loading"), READY, server("new")).waiting == "int8 on new: not begun"
    assert "generation 8" in look(at("loading"), READY, generation=8).waiting


def test_arms_must_stay_ready_before_users_meet_them():
    assert look(at("probing", since=200.0 - PROBE_S / 2), READY).state.phase == "probing"
    assert look(at("probing", since=200.0 - PROBE_S), READY).state.phase == "running"
    assert look(at("probing", since=150.0), server(int8="failed")).state.phase == "refused"


def test_an_arm_that_is_lost_while_running_is_taken_back():
    for phase in ("running", "paused"):
        rollout = at(phase, resume_to="running" if phase == "paused" else None)
        decision = look(rollout, server(int8="failed"), judgement=judged())
        assert decision.state.phase == "aborting"
        assert "it broke" in decision.state.reason
        assert decision.voice_versions is None  # nothing was ever moved


def test_a_failed_gate_takes_back_at_once_even_when_paused_or_held():
    for phase in ("running", "paused"):
        rollout = at(phase, step_started_at=199.0, resume_to="running" if phase == "paused" else None)
        decision = look(rollout, READY, judgement=judged(requests=4, verdict="fail", since=199.0))
        assert decision.state.phase == "aborting"
        assert decision.state.reason == "error_ratio fail"
        assert decision.events[0].numbers["verdicts"][0]["value"] == 0.5


def test_a_failed_dry_run_changes_nothing():
    decision = look(at("running"), READY, judgement=judged(verdict="fail", dry_run=True))
    assert decision.state.step == 1


@pytest.mark.parametrize(
    ("judgement", "now", "waiting"),
    [
        (None, 200.0, "no observations"),
        (judged(since=99.0), 200.0, "no observations"),  # of the step before
        (judged(), 109.0, "held for another 1 s"),
        (judged(requests=19), 200.0, "19 of 20 requests of int8"),
        (judged(verdict="inconclusive"), 200.0, "error_ratio inconclusive"),
    ],
)
def test_a_step_needs_time_and_requests_and_passed_gates(judgement, now, waiting):
    decision = look(at("running"), server(at_=now, int8="ready"), judgement=judgement, now=now)
    assert decision.state == at("running").state
    assert waiting in decision.waiting
    assert not decision.events


def test_a_new_server_must_be_ready_before_the_next_step():
    decision = look(at("running"), READY, server("new", int8="loading"), judgement=judged())
    assert decision.waiting == "int8 on new: loading"
    assert look(at("running"), READY, server("new", int8="ready"), judgement=judged()).state.step == 1


def test_a_paused_rollout_keeps_its_weights_and_its_step():
    paused = look(at("running", step=1), READY, commands=[Command(id=4, kind="pause", by="anna")])
    assert paused.state.phase == "paused" and paused.consumed == (4,)
    rollout = at("running").with_state(paused.state)
    planned = planned_voice(rollout)
    assert planned is not None and planned.route is not None and planned.route.weights == {"int8": 50.0}
    assert look(rollout, READY, judgement=judged()).waiting == "paused"
    resumed = look(rollout, READY, commands=[Command(id=5, kind="resume")])
    assert (resumed.state.phase, resumed.state.step) == ("running", 1)


def test_a_command_to_promote_need_not_wait_for_servers_to_take_up_the_weights():
    command = Command(id=1, kind="promote")
    behind = server(int8="ready", generation=6)
    assert look(at("running"), behind, commands=[command]).state.phase == "promoting"
    loading = server(int8="loading", generation=6)
    assert look(at("running"), loading, commands=[command]).events[0].kind == "command_refused"


def test_the_last_step_promotes_or_waits_for_the_command():
    assert look(at("running", step=1), READY, judgement=judged()).state.phase == "promoting"
    waiting = at("running", CANARY.replace(STEPS, STEPS + ", then: wait"), step=1)
    decision = look(waiting, READY, judgement=judged())
    assert decision.state.phase == "running" and "waiting for the command" in decision.waiting
    decision = look(waiting, READY, commands=[Command(id=1, kind="promote", reason="sounds good")])
    assert decision.state.phase == "promoting" and "sounds good" in decision.state.reason


def test_promotion_waits_for_every_living_server():
    rollout = at("promoting", promoted="int8", stable_moved=True)
    moved, not_yet = server(stable=NEW, int8="ready"), server("two", int8="ready")
    assert "two: still serves" in look(rollout, moved, not_yet).waiting
    assert "no server" in look(rollout).waiting
    gone = server("two", at_=100.0, int8="ready")
    decision = look(rollout, moved, gone)
    assert decision.state.phase == "keeping_previous" and decision.voice_versions == NEW
    at_once = at("promoting", CANARY + "keep_previous_s: 0\n", promoted="int8", stable_moved=True)
    assert look(at_once, moved).state.phase == "done"


@pytest.mark.parametrize(
    "broken", [server("two", reason="no audio", int8="ready"), server("two", int8="failed")], ids=["stable", "arm"]
)
def test_a_failed_promotion_goes_back_to_the_old_versions(broken):
    rollout = at("promoting", promoted="int8", stable_moved=True)
    decision = look(rollout, server(stable=NEW, int8="ready"), broken)
    assert decision.state.phase == "aborting" and decision.voice_versions == OLD
    rollout = rollout.with_state(decision.state)
    planned = planned_voice(rollout)
    assert planned is not None
    assert planned.stable == OLD and planned.arms == {"previous": OLD} and planned.route is None
    assert "still serves" in look(rollout, server(stable=NEW), server("two")).waiting
    decision = look(rollout, server(), server("two"))
    assert decision.state.phase == "rolled_back" and decision.voice_versions == OLD


def test_a_promotion_can_be_taken_back_while_the_previous_versions_are_kept():
    rollout = at("keeping_previous", promoted="int8", stable_moved=True)
    planned = planned_voice(rollout)
    assert planned is not None and planned.stable == NEW and planned.arms == {"previous": OLD}
    assert planned.route is not None and planned.route.labels == {"previous": "previous"}
    decision = look(rollout, server(stable=NEW), commands=[Command(id=1, kind="abort")])
    assert decision.state.phase == "aborting" and decision.voice_versions == OLD
    assert look(rollout, server(stable=NEW), now=699.0).state.phase == "keeping_previous"
    assert look(rollout, server(stable=NEW), now=700.0).state.phase == "done"


def test_without_memory_for_both_nothing_is_loaded_beside():
    rollout = at("pending", CANARY + "resource_preserving: true\n")
    decision = look(rollout)
    assert decision.state.phase == "promoting"
    rollout = rollout.with_state(decision.state)
    planned = planned_voice(rollout)
    assert planned is not None and planned.resource_preserving
    assert (planned.stable, planned.arms, planned.route) == (NEW, {}, None)
    assert look(rollout, server(stable=NEW)).state.phase == "done"
    back = look(rollout, server(reason="out of memory"))
    assert back.state.phase == "aborting"
    planned = planned_voice(rollout.with_state(back.state))
    assert planned is not None and planned.resource_preserving and planned.stable == OLD


def test_weights_are_edited_live_until_the_next_step():
    def edit(**weights):
        return look(at("running"), READY, commands=[Command(id=1, kind="set_weights", weights=weights)])

    decision = edit(int8=33.0)
    assert decision.events[0].kind == "weights"
    rollout = at("running").with_state(decision.state)
    planned = planned_voice(rollout)
    assert planned is not None and planned.route is not None and planned.route.weights == {"int8": 33.0}
    assert look(rollout, READY, judgement=judged()).state.weights is None
    for bad in ({"int8": 101.0}, {"int8": -1.0}, {"other": 3.0}, {"int8": 3.0, "stable": 3.0}):
        decision = edit(**bad)
        assert decision.events[0].kind == "command_refused"
        assert decision.state == at("running").state


@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        ("done", "abort"),
        ("loading", "promote"),
        ("loading", "set_weights"),
        ("running", "resume"),
        ("promoting", "pause"),
        ("aborting", "abort"),
        ("aborting", "promote"),
    ],
)
def test_a_command_that_makes_no_sense_is_answered_in_the_log(phase, kind):
    rollout = at(phase, promoted="int8" if phase == "promoting" else None)
    decision = look(rollout, server(int8="loading"), commands=[Command(id=3, kind=kind)], generation=8)
    assert decision.state.phase == phase and decision.consumed == (3,)
    assert decision.events[0].kind == "command_refused"


def test_abort_ends_every_phase():
    for phase in ("pending", "loading", "probing", "running", "promoting", "keeping_previous"):
        promoted = "int8" if phase in {"promoting", "keeping_previous"} else None
        rollout = at(phase, promoted=promoted, stable_moved=promoted is not None)
        for _ in range(3):
            decision = look(rollout, server(), commands=[Command(id=1, kind="abort", by="anna")])
            rollout = rollout.with_state(decision.state)
        while not rollout.state.is_final:
            rollout = rollout.with_state(look(rollout, server()).state)
        assert rollout.state.phase == "rolled_back"
        assert "by anna" in rollout.state.reason


def ab_ready(at_=200.0):
    return server(at_=at_, a="ready", b=("ready", {**OLD, "vocoder": 3}))


def test_an_ab_test_promotes_the_arm_that_won():
    rollout = at("running", AB.replace("WINNER", "latency_p50_ms"))
    planned = planned_voice(rollout)
    assert planned is not None and planned.route is not None and planned.route.weights == {"a": 30.0, "b": 30.0}
    assert "compared for" in look(rollout, ab_ready(150.0), judgement=judged(winner="b"), now=150.0).waiting
    assert "of 50 requests" in look(rollout, ab_ready(), judgement=judged(requests=49, winner="b")).waiting
    decision = look(rollout, ab_ready(), judgement=judged(winner="b", winner_reason="faster"))
    assert (decision.state.phase, decision.state.promoted) == ("promoting", "b")
    planned = planned_voice(rollout.with_state(decision.state))
    assert planned is not None and planned.route is not None
    assert planned.arms == {"b": {**OLD, "vocoder": 3}, "previous": OLD}
    assert planned.route.weights == {"b": 30.0}


def test_an_ab_test_without_a_winner_changes_nothing():
    rollout = at("running", AB.replace("WINNER", "latency_p50_ms"))
    decision = look(rollout, ab_ready(), judgement=judged(winner="stable", winner_reason="no arm is better"))
    assert (decision.state.phase, decision.state.promoted, decision.voice_versions) == ("done", None, None)


def test_an_ab_test_by_hand_needs_the_arm():
    rollout = at("running", AB.replace("WINNER", "manual"))
    assert "waiting for the command" in look(rollout, ab_ready(), judgement=judged()).waiting
    assert look(rollout, ab_ready(), commands=[Command(kind="promote")]).events[0].kind == "command_refused"
    assert look(rollout, ab_ready(), commands=[Command(kind="promote", arm="a")]).state.promoted == "a"


def test_a_shadow_ends_with_enough_pairs():
    rollout = at("running", SHADOW.replace("THEN", "finish"))
    planned = planned_voice(rollout)
    assert planned is not None and planned.route is not None
    assert (planned.route.weights, planned.route.shadow_arm, planned.route.shadow_percent) == ({}, "int8", 20.0)
    assert "29 of 30 pairs" in look(rollout, READY, judgement=judged(pairs=29)).waiting
    assert look(rollout, READY, judgement=judged(verdict="inconclusive")).state.phase == "running"
    assert look(rollout, READY, judgement=judged()).state.phase == "done"
    promoting = at("running", SHADOW.replace("THEN", "promote"))
    assert look(promoting, READY, judgement=judged()).state.phase == "promoting"


def test_overflow_stays_and_is_judged_by_the_last_quarter_of_an_hour():
    policy = "policy: {kind: overflow, arm: int8, above_wait_s: 2, below_wait_s: 1}\n"
    text = "voice: en-joe\narms: {int8: {vocoder: 2}}\n" + policy
    rollout = at("running", text)
    planned = planned_voice(rollout)
    assert planned is not None and planned.route is not None and planned.route.overflow is not None
    assert judged_since(rollout, 5000.0) == 4100.0 and judged_since(rollout, 200.0) == 100.0
    assert "stays until" in look(rollout, READY, judgement=judged()).waiting
    assert look(rollout, READY, judgement=judged(verdict="fail")).state.phase == "aborting"


def test_the_same_question_has_the_same_answer():
    rollout = at("running")
    assert look(rollout, READY, judgement=judged()) == look(rollout, READY, judgement=judged())


def test_the_plan_changes_its_generation_only_if_it_changes():
    running = at("running")
    plan = next_plan(Plan(generation=3), [running])
    assert plan.generation == 4 and set(plan.voices) == {"en-joe"}
    assert next_plan(plan, [running]) is plan
    assert next_plan(plan, [at("done")]).voices == {}


def test_a_route_leads_to_loaded_arms_only():
    for phase in ("loading", "probing", "running", "promoting", "keeping_previous", "aborting"):
        moved = phase in {"promoting", "keeping_previous"}
        planned = planned_voice(at(phase, promoted="int8" if moved else None, stable_moved=moved))
        assert planned is not None
        route = planned.route or Route(rollout="r1", policy="canary")
        assert set(route.weights) | set(route.labels.values()) <= set(planned.arms)
