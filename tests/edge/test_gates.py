"""Places in the engine and the lines in front of them."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.edge.gates import CONTINUATION_ROOM, MAX_GATES, NOW, OTHER_MODELS, CallGate, Gates
from voxrepo.edge.lines import LEAD_S, MAX_AHEAD_S, PATIENCE_S, Need, Place
from voxrepo.edge.playback import Playback
from voxrepo.edge.voice_calls import JOINED_PACE
from voxrepo_contract.errors import Unavailable

from .lining import heard, taken, whole
from .virtual_time import now_s, run


async def order_of(gate: CallGate, needed: list[tuple[str, float | None]]) -> list[str]:
    """Names in the order in which they get the one place, all of them waiting before it is free."""
    held = await taken(gate)
    entered: list[str] = []

    async def caller(name: str, needed_by_s: float | None) -> None:
        place = await taken(gate, heard(needed_by_s))
        entered.append(name)
        gate.leave(place)

    callers = []
    for name, needed_by_s in needed:
        callers.append(asyncio.create_task(caller(name, needed_by_s)))
        await asyncio.sleep(0)
    assert gate.waiting == len(needed)
    gate.leave(held)
    await asyncio.gather(*callers)
    assert (gate.running, gate.waiting) == (0, 0)
    return entered


async def test_callers_beyond_the_limit_wait_and_enter_in_order() -> None:
    gate = CallGate("voice", limit=1)
    assert await order_of(gate, [(str(number), None) for number in range(5)]) == list("01234")


async def test_first_pieces_go_ahead_of_continuations_with_audio_in_hand() -> None:
    later_s = time.monotonic() + 5
    gate = CallGate("voice", limit=1)
    order = await order_of(gate, [("continuation", later_s), ("first", None), ("other first", None)])
    assert order == ["first", "other first", "continuation"]


async def test_a_continuation_that_runs_dry_goes_ahead_of_those_who_came_before_it() -> None:
    dry_s = time.monotonic() - 0.5
    gate = CallGate("voice", limit=1)
    assert await order_of(gate, [("first", None), ("dry", dry_s), ("later", None)]) == ["dry", "first", "later"]


async def test_those_needed_at_the_same_moment_enter_as_they_came() -> None:
    same_s = time.monotonic() + 3
    gate = CallGate("voice", limit=1)
    names = list("abcdef")
    assert await order_of(gate, [(name, same_s) for name in names]) == names


def test_a_stream_far_behind_does_not_keep_others_out() -> None:
    async def scenario() -> None:
        gate = CallGate("voice", limit=1, clock=now_s)
        ends_s = 30.0

        async def late_stream() -> None:
            while now_s() < ends_s:
                place = await taken(gate, heard(now_s() - 60))
                await asyncio.sleep(0.1)
                gate.leave(place)

        streams = [asyncio.create_task(late_stream()) for _ in range(8)]
        await asyncio.sleep(5)
        asked_s = now_s()
        place = await taken(gate, heard(None))
        # a second of lateness is the most that counts, and the eight may have one call each in that time's line
        assert now_s() - asked_s < 2.0
        gate.leave(place)
        await asyncio.gather(*streams)

    run(scenario())


def test_a_call_needed_far_ahead_is_overtaken_for_a_bounded_time() -> None:
    async def scenario() -> None:
        gate = CallGate("voice", limit=1, clock=now_s)

        async def short_requests(count: int) -> None:
            tasks = []
            for _ in range(count):
                tasks.append(asyncio.create_task(short()))
                await asyncio.sleep(0.1)
            await asyncio.gather(*tasks)

        async def short() -> None:
            place = await taken(gate)
            await asyncio.sleep(0.1)
            gate.leave(place)

        flood = asyncio.create_task(short_requests(300))
        await asyncio.sleep(0.05)
        place = await taken(gate, heard(now_s() + 3600))
        assert now_s() < MAX_AHEAD_S + 1
        gate.leave(place)
        await flood
        assert gate.waiting == 0

    run(scenario())


@pytest.mark.parametrize("others", [1, 3, 6])
def test_a_long_text_gets_its_turn_beside_busy_clients_however_late_it_is(others: int) -> None:
    """40 calls of 0.4 s, for 3 s of audio each, beside clients that ask anew as soon as they are answered."""

    async def scenario(pace: float) -> float:
        gate = CallGate("voice", limit=1, clock=now_s)
        busy = True

        async def call(needed_by_s: float | None) -> None:
            place = await taken(gate, whole(needed_by_s))
            await asyncio.sleep(0.4)
            gate.leave(place)

        async def client() -> None:
            while busy:
                await call(None)

        clients = [asyncio.create_task(client()) for _ in range(others)]
        await asyncio.sleep(5)
        asked_s = now_s()
        playback = Playback(asked_s, begins_s=asked_s, pace=pace, clock=now_s)
        for _ in range(40):
            await call(playback.needed_by_s())
            playback.add(3.0)
        took_s = now_s() - asked_s
        busy = False
        await asyncio.gather(*clients)
        return took_s

    # as often as each of the others, or as fast as it claims
    assert run(scenario(JOINED_PACE)) <= max(40 * 0.4 * (others + 1), 40 * 3 / JOINED_PACE) + 2
    # with three others a listener's claim would give it less than its turn
    assert others != 3 or run(scenario(JOINED_PACE)) < 0.7 * run(scenario(1.0))


async def test_a_full_line_refuses_newcomers_at_once_and_has_room_for_what_goes_on() -> None:
    gate = CallGate("voice", limit=1, max_waiting=2)
    held = await taken(gate)
    newcomers = [asyncio.create_task(gate.enter(None)) for _ in range(2)]
    await asyncio.sleep(0)
    assert gate.is_full
    with pytest.raises(Unavailable, match="2 requests wait for voice") as caught:
        await gate.enter(None)
    assert caught.value.reason == "queue"
    soon_s = time.monotonic()
    rest = [asyncio.create_task(gate.enter(None, whole(soon_s))) for _ in range(2 * CONTINUATION_ROOM - 2)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await gate.enter(None, whole(soon_s))
    gate.leave(held)
    for task in (*newcomers, *rest):
        place = await task
        assert place is not None
        gate.leave(place)
    assert (gate.running, gate.waiting) == (0, 0)


async def test_a_caller_that_times_out_leaves_the_line() -> None:
    gate = CallGate("voice", limit=1)
    held = await taken(gate)
    assert await gate.enter(0.01) is None
    assert gate.waiting == 0
    gate.leave(held)
    assert gate.running == 0


async def test_a_place_handed_to_a_caller_cancelled_in_the_same_moment_is_not_lost() -> None:
    gate = CallGate("voice", limit=1)
    held = await taken(gate)
    first, second = asyncio.create_task(gate.enter(None)), asyncio.create_task(gate.enter(None))
    await asyncio.sleep(0)
    gate.leave(held)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    place = await asyncio.wait_for(second, 1)
    assert place is not None
    gate.leave(place)
    assert (gate.running, gate.waiting) == (0, 0)


async def test_callers_that_leave_take_no_memory_and_no_time() -> None:
    gate = CallGate("voice", limit=1, max_waiting=10_000)
    await taken(gate)
    for _ in range(20):
        callers = [asyncio.create_task(gate.enter(None)) for _ in range(200)]
        await asyncio.sleep(0)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    assert gate.waiting == 0
    assert gate.line.kept <= 16


async def test_a_raised_limit_lets_waiting_callers_in() -> None:
    limits = {"voice": 1}
    gates = Gates(limits.get, other_limit=1)
    await taken(gates.of("voice"))
    waiting = asyncio.create_task(gates.of("voice").enter(None))
    await asyncio.sleep(0)
    assert not waiting.done()
    limits["voice"] = 2
    assert gates.of("voice").limit == 2
    assert await asyncio.wait_for(waiting, 1)


async def test_changed_limits_hold_at_once_for_those_who_wait() -> None:
    limits = {"voice": 1}
    gates = Gates(limits.get, other_limit=1)
    for name in ("voice", "made-up"):
        await taken(gates.of(name))
    waiting = [asyncio.create_task(gates.of(name).enter(None)) for name in ("voice", "made-up")]
    await asyncio.sleep(0)
    limits["voice"] = gates.other_limit = 2
    gates.refresh()
    assert all(await asyncio.wait_for(asyncio.gather(*waiting), 1))


async def test_unknown_models_share_one_line_and_do_not_hold_up_known_ones() -> None:
    gates = Gates({"voice": 1}.get, other_limit=1)
    assert gates.of("made-up-1") is gates.of("made-up-2")
    assert await gates.of("made-up-1").enter(None)
    assert not await gates.of("made-up-2").enter(0.01)
    assert await gates.of("voice").enter(0.01)
    assert gates.total(lambda gate: gate.running) == 2
    assert gates.of(OTHER_MODELS).running == 1


def test_the_own_times_of_all_calls_add_up_to_the_time_in_which_the_gate_was_busy() -> None:
    async def scenario() -> None:
        gate = CallGate("voice", limit=3, clock=now_s)
        own: list[float] = []

        async def call(starts_s: float, seconds: float) -> None:
            await asyncio.sleep(starts_s)
            place = await taken(gate)
            await asyncio.sleep(seconds)
            shared_s, own_s = gate.used_s(place)
            assert shared_s == pytest.approx(seconds)
            own.append(own_s)
            gate.leave(place)

        # busy from 0 to 3 and from 10 to 12; two at a time from 1 to 2
        await asyncio.gather(call(0, 2), call(1, 2), call(10, 2))
        assert own == pytest.approx([1.5, 1.5, 2.0])

    run(scenario())


def test_a_newcomers_wait_is_what_is_inside_and_goes_ahead() -> None:
    async def scenario() -> None:
        gate = CallGate("voice", limit=2, clock=now_s)

        def costs(line: str) -> tuple[float, float]:
            return {"voice": (0.1, 0.01)}[line]  # seconds: a call, and each of its units

        assert gate.wait_s(costs) == 0
        first = await taken(gate, units=90)
        assert gate.wait_s(costs) == 0, "there is a free place"
        second = await taken(gate, units=90)
        assert gate.wait_s(costs) == pytest.approx(2.0)
        ahead = asyncio.create_task(gate.enter(None, units=40))
        later = asyncio.create_task(gate.enter(None, whole(now_s() + 8), 40))
        await asyncio.sleep(0.5)
        # both inside had half of that time each; what is needed later than now does not count
        assert gate.wait_s(costs) == pytest.approx(1.5 + 0.5)
        for place in (first, second):
            gate.leave(place)
        assert await ahead
        assert await later

    run(scenario())


Step = tuple[str, int, float]


@settings(max_examples=150, deadline=None)
@given(
    limit=st.integers(1, 3),
    steps=st.lists(
        st.tuples(st.sampled_from(("arrive", "continue", "cancel", "end")), st.integers(0, 30), st.floats(-3, 20)),
        max_size=60,
    ),
)
def test_whatever_happens_places_are_kept_to_and_the_most_urgent_enters_first(limit: int, steps: list[Step]) -> None:
    async def scenario() -> None:
        gate = CallGate("voice", limit=limit, max_waiting=8, clock=now_s)
        waiting: dict[asyncio.Task[Place | None], float] = {}
        inside: list[Place] = []
        origin_s = now_s()

        async def settle() -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            for task in [task for task in waiting if task.done()]:
                urgency_s = waiting.pop(task)
                if task.cancelled() or isinstance(task.exception(), Unavailable):
                    continue
                place = task.result()
                assert place is not None
                inside.append(place)
                assert all(urgency_s <= other for key, other in waiting.items() if not key.done())
            assert gate.running == len(inside) <= limit
            assert gate.waiting == len(waiting)
            assert not waiting or gate.running == limit, "a free place while somebody waits"

        for kind, number, offset_s in steps:
            if kind in ("arrive", "continue"):
                needed_by_s = origin_s + offset_s if kind == "continue" else None
                urgency_s = origin_s if needed_by_s is None else max(min(origin_s + offset_s, origin_s + 10), -1.0)
                waiting[asyncio.create_task(gate.enter(None, heard(needed_by_s)))] = urgency_s
            elif kind == "cancel" and waiting:
                list(waiting)[number % len(waiting)].cancel()
            elif kind == "end" and inside:
                gate.leave(inside.pop(number % len(inside)))
            await settle()
        while inside:
            gate.leave(inside.pop())
            await settle()
        assert (gate.running, gate.waiting) == (0, 0)

    run(scenario())


async def test_each_version_of_a_stage_has_its_own_line_and_other_models_share_one_for_all_versions() -> None:
    limits = {"voice.vocoder": 1, "voice": 1}
    gates = Gates(limits.get, other_limit=1)
    slow, stable = gates.of("voice.vocoder", 2), gates.of("voice.vocoder", "1")
    await taken(slow)
    await asyncio.wait_for(taken(stable), 1)
    assert (stable.model, stable.version) == ("voice.vocoder", "1")
    with pytest.raises(Unavailable, match=r"wait for voice\.vocoder version 2"):
        await _refused(slow)
    assert gates.of("voice", "1") is gates.of("voice")
    assert gates.of("any.vocoder", "1") is gates.of("other", "7")
    limits["voice.vocoder"] = 2
    gates.refresh()
    assert (slow.limit, stable.limit) == (2, 2)


async def _refused(gate: CallGate) -> None:
    tasks = [asyncio.create_task(gate.enter(None)) for _ in range(256)]
    await asyncio.sleep(0)
    try:
        await gate.enter(None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_made_up_versions_take_no_memory() -> None:
    gates = Gates({"voice.vocoder": 1}.get, other_limit=1)
    used = gates.of("voice.vocoder", 1)
    await taken(used)
    for version in range(2, 3 * MAX_GATES):
        gates.of("voice.vocoder", version)
    assert len(gates._gates) <= MAX_GATES
    assert gates.of("voice.vocoder", 1) is used


async def test_what_is_heard_goes_ahead_of_whole_answers_and_these_ahead_of_what_is_made_in_advance() -> None:
    gate = CallGate("voice", limit=1)
    held = await taken(gate)
    now = time.monotonic()
    needs = {
        "ahead": heard(now + LEAD_S + 3),
        "whole": NOW,
        "rest of a long text": whole(now - 0.5),
        "first piece": heard(None),
        "running dry": heard(now + LEAD_S / 2),
    }
    entered: list[str] = []

    async def caller(name: str, need: Need) -> None:
        place = await taken(gate, need)
        entered.append(name)
        gate.leave(place)

    callers = [asyncio.create_task(caller(name, need)) for name, need in needs.items()]
    await asyncio.sleep(0)
    gate.leave(held)
    await asyncio.gather(*callers)
    assert entered == ["first piece", "running dry", "rest of a long text", "whole", "ahead"]


@pytest.mark.parametrize("need", [NOW, heard(3600.0)], ids=["whole", "ahead"])
def test_nobody_waits_for_ever_behind_first_pieces(need: Need) -> None:
    async def scenario() -> None:
        gate = CallGate("voice", limit=1, clock=now_s)

        async def first_piece() -> None:
            place = await taken(gate, heard(None))
            await asyncio.sleep(0.105)  # a little more than the engine can do
            gate.leave(place)

        async def flood() -> None:
            pieces = []
            for _ in range(400):
                pieces.append(asyncio.create_task(first_piece()))
                await asyncio.sleep(0.1)
            await asyncio.gather(*pieces)

        flooding = asyncio.create_task(flood())
        await asyncio.sleep(0.05)
        asked_s = now_s()
        place = await taken(gate, need)
        assert 5.0 < now_s() - asked_s < 1.1 * PATIENCE_S
        gate.leave(place)
        await flooding

    run(scenario())
