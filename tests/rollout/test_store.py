from __future__ import annotations

import math
import multiprocessing
import queue
import sqlite3
import threading
import time
from itertools import pairwise

import pytest

from voxrepo.rollout.database import Database
from voxrepo.rollout.decision import Command, Decision, Event
from voxrepo.rollout.gates import judge
from voxrepo.rollout.observed import Observed, PairRecord
from voxrepo.rollout.plan import PairSeen, RequestSeen
from voxrepo.rollout.spec import parse_spec
from voxrepo.rollout.store import LeaseLost, StateChanged, Store
from voxrepo_contract.errors import AlreadyExists, ConfigError, NotFound, Unavailable

SPEC = parse_spec("voice: en-joe\narms: {int8: {vocoder: 2}}\npolicy: {kind: canary, arm: int8}\n")
SHADOW = parse_spec("voice: en-joe\narms: {int8: {vocoder: 2}}\npolicy: {kind: shadow, arm: int8}\n")
STABLE = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "rollouts.db") as opened:
        assert opened.take_lease("me", 60)
        yield opened


def to(rollout, phase, **changes):
    state = rollout.state.model_copy(update={"phase": phase, "since": 5.0, **changes})
    return Decision(state, (Event("state", rollout.state.phase, phase, "because", {"requests": 3}),))


def seen(rollout, at=100.0, arm="int8", outcome="ok", **more):
    values = {"latency_s": 0.5, "audio_s": 2.0, **more}
    return RequestSeen(at=at, rollout=rollout, voice="en-joe", arm=arm, outcome=outcome, **values)


def test_a_rollout_is_read_as_it_was_written(store, tmp_path):
    made = store.create(SPEC, STABLE, by="anna")
    with Store(tmp_path / "rollouts.db") as other:
        assert other.rollout(made.id) == made
        assert other.active() == {"en-joe": made.id}
    assert made.arms == {"int8": {**STABLE, "vocoder": 2}}
    assert "by anna" in store.events(made.id)[0].event.reason


def test_a_voice_has_one_rollout_at_a_time(store):
    first = store.create(SPEC, STABLE)
    with pytest.raises(AlreadyExists, match=first.id):
        store.create(SPEC, STABLE)
    assert len(store.events()) == 1
    store.save(first, to(first, "refused"), holder="me")
    second = store.create(SPEC, STABLE)
    assert [rollout.id for rollout in store.rollouts("en-joe")] == [first.id, second.id]
    assert [rollout.id for rollout in store.rollouts(only_active=True)] == [second.id]


def test_state_events_and_commands_are_saved_together_or_not_at_all(store):
    made = store.create(SPEC, STABLE)
    command = store.order(made.id, Command(kind="pause", by="anna"))
    bad = Decision(
        to(made, "paused").state,
        (Event("state", "pending", "paused", "x", {"value": float("nan")}),),
        consumed=(command.id,),
    )
    with pytest.raises(ValueError, match="JSON"):
        store.save(made, bad, holder="me")
    assert store.rollout(made.id) == made
    assert [each.kind for each in store.commands(made.id)] == ["pause"]
    saved = store.save(
        made, Decision(to(made, "paused").state, to(made, "paused").events, consumed=(command.id,)), holder="me"
    )
    assert store.rollout(made.id) == saved
    assert store.commands(made.id) == [] and store.is_consumed(command.id)
    assert [(each.event.kind, each.event.to_phase) for each in store.events(made.id)] == [
        ("created", "pending"),
        ("state", "paused"),
    ]


def test_a_decision_from_an_old_state_is_not_saved(store):
    made = store.create(SPEC, STABLE)
    store.save(made, to(made, "loading"), holder="me")
    with pytest.raises(StateChanged):
        store.save(made, to(made, "refused"), holder="me")
    assert store.rollout(made.id).state.phase == "loading"


def test_events_can_be_neither_changed_nor_removed(store):
    store.create(SPEC, STABLE)
    for statement in ("UPDATE events SET reason = 'else'", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            store.database.connection.execute(statement)
    assert len(store.events()) == 1


def test_shares_are_recorded_as_they_change(store):
    made = store.create(SPEC, STABLE)
    running = store.save(made, to(made, "running"), holder="me")
    second = store.save(running, to(running, "running", step=1), holder="me")
    store.save(second, to(second, "running", step=1, reason="other"), holder="me")
    assert [(step.phase, step.weights) for step in store.steps(made.id)] == [
        ("running", {"int8": 5.0}),
        ("running", {"int8": 25.0}),
    ]


def test_commands_keep_their_order_and_need_a_rollout(store):
    made = store.create(SPEC, STABLE)
    store.order(made.id, Command(kind="set_weights", weights={"int8": 3.0}))
    store.order(made.id, Command(kind="abort"))
    assert [each.kind for each in store.commands(made.id)] == ["set_weights", "abort"]
    assert store.commands(made.id)[0].weights == {"int8": 3.0}
    with pytest.raises(NotFound):
        store.order("nobody", Command(kind="abort"))


def test_notes_are_shown_without_an_event(store):
    made = store.create(SPEC, STABLE)
    judgement = judge(SPEC, {}, 3.0)
    store.note(made.id, "3 of 200 requests", judgement, holder="me")
    progress = store.progress(made.id)
    assert (progress.waiting, progress.judgement) == ("3 of 200 requests", judgement)
    assert len(store.events()) == 1


def test_the_controller_can_explain_itself_in_the_log(store):
    made = store.create(SPEC, STABLE)
    store.explain(made, "taken up again by host-1", holder="me")
    assert [each.event.kind for each in store.events(made.id)] == ["created", "controller"]
    with pytest.raises(LeaseLost):
        store.explain(made, "not mine", holder="other")


# lease


def test_a_lease_is_taken_over_only_after_its_end(tmp_path):
    now = [100.0]
    with Store(tmp_path / "r.db", lambda: now[0]) as one, Store(tmp_path / "r.db", lambda: now[0]) as other:
        made = one.create(SPEC, STABLE)
        assert one.take_lease("a", 10)
        assert not other.take_lease("b", 10)
        now[0] = 109.0
        assert one.take_lease("a", 10)
        now[0] = 118.9
        assert not other.take_lease("b", 10)
        now[0] = 119.0
        assert one.lease_holder() is None
        assert other.take_lease("b", 10)
        assert not one.take_lease("a", 10)
        with pytest.raises(LeaseLost):
            one.save(made, to(made, "loading"), holder="a")
        with pytest.raises(LeaseLost):
            one.note(made.id, "", None, holder="a")
        assert one.rollout(made.id) == made
        one.release_lease("a")
        assert other.lease_holder() == "b"
        other.release_lease("b")
        assert one.take_lease("a", 10)


def _contend(file, name, barrier, results):
    with Store(file) as store:
        barrier.wait(60)
        until = time.time() + 1.5
        while time.time() < until:
            began = time.time()
            if store.take_lease(name, 0.08):
                # held for certain from after the call until 0.08 s after its beginning
                results.put((time.time(), began + 0.08, name))
                time.sleep(0.03)
                if hash((name, began)) % 3 == 0:
                    time.sleep(0.1)  # delayed, as by a stopped process: the other may take it
            else:
                time.sleep(0.005)


def test_two_processes_never_hold_the_lease_at_once(tmp_path):
    file = tmp_path / "r.db"
    Store(file).close()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    barrier = context.Barrier(2)
    processes = [context.Process(target=_contend, args=(file, name, barrier, results)) for name in "ab"]
    for process in processes:
        process.start()
    held = []
    while any(process.is_alive() for process in processes) or not results.empty():
        try:
            held.append(results.get(timeout=0.2))
        except queue.Empty:
            continue
    assert all(process.exitcode == 0 for process in processes)
    assert {name for _, _, name in held} == {"a", "b"}
    held.sort()
    for (_, end, name), (start, _, other) in pairwise(held):
        assert name == other or start >= end


def test_threads_share_a_store(store):
    made = store.create(SPEC, STABLE)
    observed = Observed(store.database)
    faults = []

    def work(number):
        try:
            for i in range(20):
                observed.add_requests([seen(made.id, at=float(i))])
                store.order(made.id, Command(kind="pause", by=str(number)))
                store.commands(made.id)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(store.commands(made.id)) == 80
    assert len(observed.requests(made.id)) == 80


# observations


def test_requests_and_their_offset_are_taken_over_once(store):
    made = store.create(SPEC, STABLE)
    observed = Observed(store.database)
    assert "w0.jsonl" not in observed.offsets()
    taken = observed.add_requests([seen(made.id), seen("unknown")], source="w0.jsonl", offset=120)
    assert (taken, observed.offsets()) == (1, {"w0.jsonl": 120})
    assert observed.add_requests([seen(made.id)], source="w0.jsonl", begin=60, offset=180) == 0  # another read on
    assert observed.add_requests([seen(made.id)], source="w0.jsonl", begin=120, offset=180) == 1
    observed.forget_sources(["w0.jsonl"])
    assert "w0.jsonl" not in observed.offsets()


def test_samples_are_of_clients_requests_since_the_step_began(store):
    made = store.create(SPEC, STABLE)
    observed = Observed(store.database)
    observed.add_requests(
        [
            seen(made.id, at=99.0),
            seen(made.id, latency_s=1.5, silence_ratio=0.25, engine_s=0.75),
            seen(made.id, outcome="failed", audio_s=None),
            seen(made.id, outcome="cancelled"),
            seen(made.id, arm="stable"),
            seen(made.id, arm="stable", copy_of="int8", latency_s=30.0),
        ]
    )
    samples = observed.samples(made, 100.0)
    assert (samples["int8"].requests, samples["int8"].failures) == (2, 1)
    assert samples["int8"].latency_s[0] == 1.5 and samples["int8"].silence_ratio[0] == 0.25
    assert samples["int8"].engine_s[0] == 0.75 and math.isnan(samples["stable"].engine_s[0])
    assert 0.75 in {request.engine_s for request in observed.requests(made.id)}
    assert samples["stable"].latency_s.tolist() == [0.5]
    totals = {(total.arm, total.is_copy, total.outcome): total.requests for total in observed.totals(made.id)}
    assert totals[("int8", False, "ok")] == 2 and totals[("stable", True, "ok")] == 1
    assert [request.copy_of != "" for request in observed.requests(made.id)].count(True) == 1


def test_samples_of_a_shadow_are_its_copies(store):
    made = store.create(SHADOW, STABLE)
    observed = Observed(store.database)
    observed.add_requests([seen(made.id, copy_of="stable"), seen(made.id, arm="stable"), seen(made.id, pinned=True)])
    samples = observed.samples(made, 0.0)
    assert (samples["int8"].requests, samples["stable"].requests) == (1, 1)


def pair(rollout, id_="q1", at=100.0):
    return PairSeen(
        id=id_,
        at=at,
        rollout=rollout,
        voice="en-joe",
        arm="int8",
        text="Hi.",
        language="en",
        seed=1,
        speed=1.0,
        speaker="joe",
    )


def test_a_pair_is_taken_over_once_and_its_measures_stay_aligned(store):
    made = store.create(SPEC, STABLE)
    observed = Observed(store.database)
    assert observed.add_pair(PairRecord(pair(made.id), {"duration_ratio": 1.1, "level_difference_db": float("nan")}))
    assert not observed.add_pair(PairRecord(pair(made.id), {"duration_ratio": 9.0}))
    assert not observed.add_pair(PairRecord(pair("unknown"), {"duration_ratio": 9.0}))
    observed.add_pair(PairRecord(pair(made.id, "q2", 101.0), {"duration_ratio": 0.9, "level_difference_db": 2.0}))
    observed.add_pair(PairRecord(pair(made.id, "q3", 102.0), {}))
    observed.keep_files(made.id, "int8", "q2", {"int8": "q2.int8.wav"})
    measures = observed.samples(made, 0.0)["int8"].pairs
    assert measures["duration_ratio"].tolist() == [1.1, 0.9]
    assert str(measures["level_difference_db"][0]) == "nan" and measures["level_difference_db"][1] == 2.0
    assert [record.files for record in observed.pairs(made.id)] == [{}, {"int8": "q2.int8.wav"}, {}]


def test_old_requests_are_thinned_and_still_counted(store):
    made = store.create(SPEC, STABLE)
    observed = Observed(store.database, max_rows=1000)
    for start in range(0, 5000, 500):
        observed.add_requests([seen(made.id, at=float(at)) for at in range(start, start + 500)])
    observed.add_requests([seen(made.id, at=float(at), arm="stable") for at in range(10)])
    kept = [request.at for request in observed.requests(made.id) if request.arm == "int8"]
    assert 500 <= len(kept) <= 1000
    assert kept[-250:] == [float(at) for at in range(4750, 5000)]  # the newest are all there
    assert min(kept) < 500  # and old times are represented
    assert sum(total.requests for total in observed.totals(made.id)) == 5010
    assert len([request for request in observed.requests(made.id) if request.arm == "stable"]) == 10


# files that cannot be used


def test_a_newer_schema_is_left_alone(tmp_path):
    file = tmp_path / "r.db"
    Store(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigError, match="newer voxrepo \\(schema 99"):
        Store(file)


def test_a_file_of_the_schema_before_is_taken_along(tmp_path):
    file = tmp_path / "r.db"
    with Store(file) as store:
        made = store.create(SPEC, STABLE)
        Observed(store.database).add_requests([seen(made.id)])
        with store.database.transaction() as connection:
            connection.execute("ALTER TABLE observations DROP COLUMN engine_s")
            connection.execute("PRAGMA user_version = 1")
    for _ in range(2):
        with Store(file) as store:
            observed = Observed(store.database)
            observed.add_requests([seen(made.id, at=101.0, engine_s=0.25)])
            assert [request.engine_s for request in observed.requests(made.id)][:2] == [None, 0.25]


def test_another_programs_file_is_left_alone(tmp_path):
    file = tmp_path / "r.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")
    connection.close()
    with pytest.raises(ConfigError, match="another program"):
        Store(file)


def test_a_damaged_file_is_named(tmp_path):
    file = tmp_path / "r.db"
    file.write_bytes(b"no database at all" * 300)
    with pytest.raises(ConfigError, match=r"r\.db: is damaged"):
        Store(file)
    file.unlink()
    with Store(file) as store:
        for number in range(60):
            store.create(SPEC.model_copy(update={"voice": f"v{number}"}), STABLE)
    content = bytearray(file.read_bytes())
    content[4096 * 3 :] = b"\xa5" * (len(content) - 4096 * 3)
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="damaged"), Store(file) as store:
        store.rollouts()


def test_a_full_disk_saves_nothing_and_says_so(store):
    made = store.create(SPEC, STABLE)
    pages = store.database.connection.execute("PRAGMA page_count").fetchone()[0]
    store.database.connection.execute(f"PRAGMA max_page_count = {pages}")
    observed = Observed(store.database)
    with pytest.raises(ConfigError, match="the disk is full"):
        for _ in range(100):
            observed.add_requests([seen(made.id)] * 200)
    count = len(observed.requests(made.id))
    assert count % 200 == 0
    store.database.connection.execute(f"PRAGMA max_page_count = {pages * 100}")
    observed.add_requests([seen(made.id)])
    assert len(observed.requests(made.id)) == count + 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="folder cannot be made"):
        Store(tmp_path / "file" / "r.db")


def test_a_lock_held_for_too_long_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("voxrepo.rollout.database.BUSY_TIMEOUT_S", 0.1)
    file = tmp_path / "r.db"
    with Store(file) as store, Database(file).transaction(), pytest.raises(Unavailable, match="locked"):
        store.take_lease("me", 1)


@pytest.mark.soak
def test_a_killed_writer_leaves_a_whole_state(tmp_path):
    file = tmp_path / "r.db"
    with Store(file) as store:
        store.take_lease("me", 60)
        made = store.create(SPEC, STABLE)
    context = multiprocessing.get_context("spawn")
    seen_before = 1
    for round_ in range(2):
        process = context.Process(target=_flip, args=(file, made.id))
        process.start()
        with Store(file) as store:
            deadline = time.monotonic() + 60
            while len(store.events(made.id)) < seen_before + 20 and time.monotonic() < deadline:
                time.sleep(0.01 + 0.003 * round_)
            process.kill()
            process.join()
            phases = [each.event.to_phase for each in store.events(made.id)]
            assert store.rollout(made.id).state.phase == phases[-1]
            assert len(phases) >= seen_before + 20
            seen_before = len(phases)


def _flip(file, id_):
    with Store(file) as store:
        while True:
            rollout = store.rollout(id_)
            store.save(rollout, to(rollout, "paused" if rollout.state.phase == "loading" else "loading"), holder="me")
