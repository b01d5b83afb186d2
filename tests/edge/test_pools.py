"""Places that several gates share."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.edge.gates import MAX_GATES, CallGate, Gates
from voxrepo.edge.lines import Need, Place
from voxrepo.edge.pools import STUCK_S, wait_behind

from .lining import heard, taken
from .virtual_time import now_s, run


def pooled(limits: dict[str, int], places: int) -> Gates:
    return Gates(limits.get, 32, now_s, lambda model: (model.partition(".")[0], places))


def test_models_of_a_pool_share_its_places_and_its_order() -> None:
    async def scenario() -> None:
        gates = pooled({"voice": 6, "voice.vocoder": 2, "other": 2}, places=2)
        ensemble, vocoder, other = gates.of("voice"), gates.of("voice.vocoder", 1), gates.of("other")
        first, second = await taken(ensemble), await taken(ensemble)
        await asyncio.wait_for(taken(other), 1)
        later = asyncio.create_task(taken(ensemble))
        await asyncio.sleep(0)
        piece = asyncio.create_task(taken(vocoder, heard(None)))
        await asyncio.sleep(1)
        assert not later.done()
        assert not piece.done()
        ensemble.leave(first)
        await asyncio.sleep(0)
        assert (await asyncio.wait_for(piece, 1)).line == "voice.vocoder version 1"
        assert not later.done(), "who came first is not heard yet"
        ensemble.leave(second)
        assert await asyncio.wait_for(later, 1)

    run(scenario())


def test_a_full_gate_does_not_keep_the_places_of_its_pool_from_others() -> None:
    async def scenario() -> None:
        gates = pooled({"voice.acoustic": 1, "voice.vocoder": 1}, places=2)
        acoustic, vocoder = gates.of("voice.acoustic", 1), gates.of("voice.vocoder", 1)
        await taken(acoustic)
        waiting = asyncio.create_task(taken(acoustic, heard(None)))
        await asyncio.sleep(0)
        assert await asyncio.wait_for(taken(vocoder, heard(30.0)), 1)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    run(scenario())


def test_calls_that_hang_do_not_hold_the_places_of_a_pool() -> None:
    async def scenario() -> None:
        gates = pooled({"voice.vocoder": 2}, places=2)
        candidate, stable = gates.of("voice.vocoder", 2), gates.of("voice.vocoder", 1)
        for _ in range(2):
            await taken(candidate)
        asked_s = now_s()
        waiting = [asyncio.create_task(taken(stable, heard(None))) for _ in range(2)]
        assert all(await asyncio.gather(*waiting))
        assert now_s() - asked_s == pytest.approx(STUCK_S, abs=0.1)
        # its own version's places stay taken
        more = asyncio.create_task(taken(candidate))
        await asyncio.sleep(30)
        assert not more.done()
        more.cancel()
        await asyncio.gather(more, return_exceptions=True)

    run(scenario())


def test_the_wait_for_a_pool_counts_the_calls_of_all_its_models() -> None:
    async def scenario() -> None:
        gates = pooled({"voice": 2, "voice.vocoder": 2}, places=1)
        prices = {"voice": (0.2, 0.0), "voice.vocoder version 1": (0.1, 0.0)}
        ensemble, vocoder = gates.of("voice"), gates.of("voice.vocoder", 1)
        place = await taken(ensemble)
        waiting = [asyncio.create_task(taken(vocoder, heard(None))), asyncio.create_task(taken(ensemble))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ensemble.wait_s(prices.__getitem__) == pytest.approx(0.2 + 0.1 + 0.2)
        assert vocoder.wait_s(prices.__getitem__, is_heard=True) == pytest.approx(0.2 + 0.1)
        ensemble.leave(place)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(scenario())


async def test_forgotten_gates_leave_their_pool() -> None:
    gates = pooled({"voice.vocoder": 1}, places=1)
    pool = gates.of("voice.vocoder", 1).pool
    for version in range(2, 2 * MAX_GATES):
        gates.of("voice.vocoder", version)
    assert len(pool.gates) <= MAX_GATES
    gates.refresh()


async def test_a_raised_limit_of_a_pool_holds_at_once() -> None:
    places = 1
    gates = Gates({"voice": 4}.get, 32, pool_of=lambda model: ("voice", places))
    await taken(gates.of("voice"))
    waiting = asyncio.create_task(taken(gates.of("voice")))
    await asyncio.sleep(0)
    assert not waiting.done()
    places = 2
    gates.refresh()
    assert await asyncio.wait_for(waiting, 1)


async def test_a_limit_that_a_new_gate_brings_holds_at_once_for_those_who_wait() -> None:
    places = 1
    gates = Gates({"voice": 4, "voice.new": 4}.get, 32, pool_of=lambda model: ("voice", places))
    await taken(gates.of("voice"))
    waiting = asyncio.create_task(taken(gates.of("voice")))
    await asyncio.sleep(0)
    places = 2
    gates.of("voice.new")
    assert await asyncio.wait_for(waiting, 1)


async def test_gates_follow_their_model_into_a_pool_and_out_of_it_with_all_calls() -> None:
    pools: dict[str, tuple[str, int]] = {}
    gates = Gates({"voice": 3, "voice.vocoder": 3}.get, 32, pool_of=pools.get)
    ensemble, vocoder = gates.of("voice"), gates.of("voice.vocoder", 1)
    inside = [await taken(ensemble) for _ in range(3)]
    waiting = asyncio.create_task(taken(ensemble))
    await asyncio.sleep(0)
    pools |= {"voice": ("voice", 3), "voice.vocoder": ("voice", 3)}
    gates.refresh()
    assert ensemble.pool is vocoder.pool
    piece = asyncio.create_task(taken(vocoder))
    await asyncio.sleep(0)
    assert not piece.done(), "what was inside before counts"
    ensemble.leave(inside[0])
    assert await asyncio.wait_for(waiting, 1), "who waited before goes first"
    ensemble.leave(inside[1])
    assert await asyncio.wait_for(piece, 1)
    more = asyncio.create_task(taken(vocoder))
    await asyncio.sleep(0)
    assert not more.done()
    pools.clear()
    gates.refresh()
    assert await asyncio.wait_for(more, 1), "alone again, it has the places of its own limit"
    assert (ensemble.pool is vocoder.pool, ensemble.pool.limit, vocoder.pool.limit) == (False, None, None)
    assert (len(ensemble.pool.inside), len(vocoder.pool.inside)) == (2, 2)


async def test_a_pool_that_a_model_leaves_keeps_its_limit_for_the_others() -> None:
    pools = {"voice": ("voice", 1), "voice.vocoder": ("voice", 1)}
    gates = Gates({"voice": 3, "voice.vocoder": 3}.get, 32, pool_of=pools.get)
    ensemble, vocoder = gates.of("voice"), gates.of("voice.vocoder", 1)
    await taken(ensemble)
    waiting = [asyncio.create_task(taken(vocoder)) for _ in range(2)]
    await asyncio.sleep(0)
    del pools["voice"]
    gates.refresh()
    await asyncio.wait_for(waiting[0], 1)
    await asyncio.sleep(0.05)
    assert not waiting[1].done()
    waiting[1].cancel()
    await asyncio.gather(waiting[1], return_exceptions=True)


def test_calls_that_hang_take_none_of_the_time_of_their_pool_from_the_others() -> None:
    async def scenario() -> None:
        gates = pooled({"voice.vocoder": 4}, places=2)
        candidate, stable = gates.of("voice.vocoder", 2), gates.of("voice.vocoder", 1)
        hanging = await taken(candidate)
        place = await taken(stable)
        await asyncio.sleep(STUCK_S - 1)
        stable.leave(place)
        place = await taken(stable)
        await asyncio.sleep(2)
        # half of the first second, and all of the one after the other was found to hang
        assert stable.used_s(place) == pytest.approx((2.0, 1.5))
        assert candidate.used_s(hanging) == pytest.approx((STUCK_S, STUCK_S / 2))
        stable.leave(place)
        await asyncio.sleep(3)
        # alone, it may just be slow
        assert candidate.used_s(hanging) == pytest.approx((STUCK_S + 3, STUCK_S / 2 + 3))

    run(scenario())


def test_who_waits_for_a_version_that_hangs_is_not_in_the_way_of_the_others() -> None:
    async def scenario() -> None:
        gates = pooled({"voice": 6, "voice.new": 6}, places=3)
        stable, candidate = gates.of("voice"), gates.of("voice.new")
        stuck = [asyncio.create_task(taken(candidate)) for _ in range(130)]
        await asyncio.sleep(25)
        assert (candidate.running, candidate.waiting) == (6, 124)

        async def speak() -> float:
            asked_s = now_s()
            place = await taken(stable)
            waited_s = now_s() - asked_s
            await asyncio.sleep(0.5)
            stable.leave(place)
            return waited_s

        speaking = [asyncio.create_task(speak()) for _ in range(3)]
        await asyncio.sleep(0.1)
        predicted_s = stable.wait_s(lambda line: (0.5, 0.0))
        # three calls share the engine, so that each has had a third of the time
        assert predicted_s == pytest.approx(3 * 0.5 - 0.1)
        assert await speak() <= predicted_s
        for task in (*stuck, *speaking):
            task.cancel()
        await asyncio.gather(*stuck, *speaking, return_exceptions=True)

    run(scenario())


@pytest.mark.parametrize("hangs", [0, 1, 2])
def test_the_wait_counts_of_another_line_what_its_gate_lets_in_meanwhile(hangs: int) -> None:
    """However long the line of a gate with few places is, it takes only their part of the engine."""

    async def scenario() -> None:
        gates = pooled({"voice": 4, "voice.new": 2}, places=4)
        stable, candidate = gates.of("voice"), gates.of("voice.new")
        for _ in range(hangs):
            await taken(candidate)
        await asyncio.sleep(2 * STUCK_S)

        async def speak(gate: CallGate) -> float:
            asked_s = now_s()
            place = await taken(gate)
            waited_s = now_s() - asked_s
            # four at a time take four times as long
            await asyncio.sleep(2.0)
            gate.leave(place)
            return waited_s

        busy = [asyncio.create_task(speak(candidate)) for _ in range(40)]
        busy += [asyncio.create_task(speak(stable)) for _ in range(12)]
        await asyncio.sleep(0.01)
        predicted_s = stable.wait_s(lambda line: (0.5, 0.0))
        waited_s = await speak(stable)
        assert waited_s - 2.0 <= predicted_s <= waited_s + 2.0
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)

    run(scenario())


@pytest.mark.parametrize(
    ("sure_s", "others", "wait_s"),
    [
        (2.0, [], 2.0),
        (2.0, [(3.0, 1.0)], 5.0),
        (2.0, [(60.0, 0.0)], 2.0),
        (2.0, [(60.0, 0.5)], 4.0),
        (2.0, [(1.0, 0.5)], 3.0),
        (2.0, [(60.0, 0.5), (1.0, 1.0)], 6.0),
        (2.0, [(60.0, 0.25), (60.0, 0.25)], 4.0),
        (0.0, [(60.0, 0.5)], 0.0),
    ],
)
def test_a_line_is_waited_for_as_far_as_its_part_goes(
    sure_s: float, others: list[tuple[float, float]], wait_s: float
) -> None:
    assert wait_behind(sure_s, others) == pytest.approx(wait_s, abs=0.01)


class _History:
    """Callers of three models that come, go, give up and hang, while limits and pools change."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.limits = {"a": 2, "b": 3, "c": 2}
        self.pools: dict[str, tuple[str, int]] = {"a": ("p", 3), "b": ("p", 3)}
        self.leaving: set[str] = set()
        self.gates = Gates(self.limits.get, 32, now_s, self.pools.get, lambda model, version: model in self.leaving)

    async def caller(self) -> None:
        choice, random = self.random.choice, self.random.random
        await asyncio.sleep(choice([0, 1, random() * 30]))
        gate = self.gates.of(choice("abc"))
        need = Need(choice([None, now_s() + 30 * random() - 5]), random() < 0.5, random() < 0.5)
        place = await gate.enter(choice([None, 0, 1, 3]), need, 1)
        if place is not None:
            try:
                await asyncio.sleep(choice([0, 0.5, 1, random(), STUCK_S + 2]))
            finally:
                gate.leave(place)

    def disturb(self, callers: list[asyncio.Task[None]]) -> None:
        choice = self.random.choice
        what = choice(["cancel", "cancel", "limit", "pool", "new", "leaving"])
        if what == "cancel":
            choice(callers).cancel()
        elif what == "limit":
            self.limits[choice("abc")] = choice([1, 2, 3])
        elif what == "leaving":
            self.leaving ^= {choice("abc")}
        else:
            limit = choice([1, 3, 5])
            places = {"p": limit, "q": 2}
            self.pools.clear()
            self.pools.update({name: (pool, places[pool]) for name in "abc" if (pool := choice(["p", "q", ""]))})
        if what != "new":  # otherwise the next caller of each model brings the change
            self.gates.refresh()

    def check(self) -> None:
        """Nobody waits before a free place."""
        gates = [self.gates.of(name) for name in "abc"]
        for gate in gates:
            has_turn = len(gate.inside) < gate.limit and gate.line.length
            # a place becomes free when its call counts as stuck, and is given away a hundredth of a second later
            is_due = any(0 <= now_s() - place.entered_s - STUCK_S < 0.02 for place in gate.pool.inside)
            assert not (has_turn and gate.pool.has_room(now_s(), gate)) or is_due
            assert gate.inside <= gate.pool.inside
        for pool in {gate.pool for gate in gates}:
            assert pool.inside == set[Place]().union(*(gate.inside for gate in gates if gate.pool is pool))
            assert len(pool.gates) == sum(gate.pool is pool for gate in gates)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_whatever_happens_nobody_waits_before_a_free_place_and_none_is_lost(seed: int) -> None:
    async def scenario() -> None:
        history = _History(seed)
        callers = [asyncio.create_task(history.caller()) for _ in range(60)]
        for _ in range(150):
            await asyncio.sleep(history.random.choice([0, 0.3, 0.3, 0.7 * history.random.random()]))
            history.check()
            history.disturb(callers)
        await asyncio.gather(*callers, return_exceptions=True)
        assert not any(isinstance(error, AssertionError) for error in map(_error_of, callers))
        for name in "abc":
            gate = history.gates.of(name)
            assert (gate.running, gate.waiting, gate.line.newcomers, gate.pool.inside) == (0, 0, 0, set())

    run(scenario())


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
