"""The place of a pool that arms leave to the stable versions."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass, field

import pytest

from voxrepo.edge.admission import DEFAULT_LIMITS, queue_refusal
from voxrepo.edge.gates import CallGate, Gates
from voxrepo.edge.pools import STUCK_S

from .lining import heard, taken
from .virtual_time import now_s, run

STABLE, ARM = "voice", "voice.new"
LIMITS = {STABLE: 6, ARM: 6, "voice.vocoder": 2}
TICK_S = 0.01


def pooled(places: int, *, leaves_one: bool = True) -> Gates:
    """The gates of a voice whose arm has a vocoder of its own, version 2."""

    def is_of_arm(model: str, version: str) -> bool:
        return leaves_one and (model == ARM or version == "2")

    return Gates(LIMITS.get, 32, now_s, lambda model: (STABLE, places), is_of_arm)


@dataclass
class Machine:
    """Cores that the calls inside take from each other, and the lines in front of them; each call runs on one core."""

    gates: Gates
    cores: int = 2
    seconds: dict[str, float] = field(default_factory=dict)
    waits_s: dict[str, list[float]] = field(default_factory=lambda: {STABLE: [], ARM: []})
    predicted_s: list[float] = field(default_factory=list)

    def cost(self, line: str) -> tuple[float, float]:
        # the own time of calls adds up to the time in which any runs
        return self.seconds[line] / self.cores, 0.0

    async def call(self, model: str) -> None:
        gate = self.gates.of(model)
        asked_s = now_s()
        if model == STABLE:
            self.predicted_s.append(gate.wait_s(self.cost))
        place = await taken(gate)
        self.waits_s[model].append(now_s() - asked_s)
        left_s = self.seconds[model]
        while left_s > 0:
            await asyncio.sleep(TICK_S)
            left_s -= TICK_S * min(1.0, self.cores / len(gate.pool.inside))
        gate.leave(place)

    async def arrive(self, model: str, every_s: float, ends_s: float) -> None:
        """A call every so often, however many wait."""
        calls = []
        while now_s() < ends_s:
            calls.append(asyncio.create_task(self.call(model)))
            await asyncio.sleep(every_s)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


def beside_a_slow_arm(*, leaves_one: bool) -> Machine:
    """A stable call of 0.3 s each second, 15 % of two cores, and as many of an arm that takes ten times as long."""

    async def scenario() -> Machine:
        machine = Machine(pooled(3, leaves_one=leaves_one), seconds={STABLE: 0.3, ARM: 3.0})
        await asyncio.gather(machine.arrive(STABLE, 1.0, 180.0), machine.arrive(ARM, 1.0, 180.0))
        return machine

    return run(scenario())


def test_users_of_the_stable_versions_do_not_stand_behind_the_line_of_an_arm_ten_times_slower() -> None:
    machine = beside_a_slow_arm(leaves_one=True)
    assert len(machine.waits_s[STABLE]) == len(machine.predicted_s) >= 180
    assert max(machine.waits_s[STABLE]) < 0.5
    assert max(machine.predicted_s) < 1.0
    assert machine.waits_s[ARM][-1] > 20, "its own users do"
    one_order = beside_a_slow_arm(leaves_one=False)
    assert one_order.waits_s[STABLE][-1] > 20


@pytest.mark.parametrize("arms_part", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("cores", [1, 2, 4])
def test_an_arm_as_fast_as_the_stable_versions_costs_no_throughput_whatever_its_weight(
    arms_part: float, cores: int
) -> None:
    def served(*, leaves_one: bool) -> int:
        async def scenario() -> int:
            gates = pooled(cores + 1, leaves_one=leaves_one)
            machine = Machine(gates, cores, {STABLE: 0.3, ARM: 0.3})
            arms = round(arms_part * 20)
            done = 0

            async def client(model: str) -> None:
                nonlocal done
                while now_s() < 60:
                    await machine.call(model)
                    done += 1

            await asyncio.gather(*(client(ARM if number < arms else STABLE) for number in range(20)))
            return done

        return run(scenario())

    assert served(leaves_one=True) >= 0.98 * served(leaves_one=False)


def test_all_gates_of_arms_together_leave_the_place() -> None:
    async def scenario() -> None:
        gates = pooled(3)
        stable, ensemble, vocoder = gates.of(STABLE), gates.of(ARM), gates.of("voice.vocoder", 2)
        await taken(ensemble)
        place = await taken(vocoder, heard(None))
        waiting = [asyncio.create_task(taken(gate, heard(None))) for gate in (ensemble, vocoder)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in waiting)
        assert await stable.enter(0.0) is not None
        vocoder.leave(place)
        await asyncio.sleep(0)
        assert await waiting[0]
        waiting[1].cancel()
        await asyncio.gather(waiting[1], return_exceptions=True)

    run(scenario())


def test_calls_of_an_arm_that_hang_give_its_places_to_its_other_calls() -> None:
    async def scenario() -> None:
        gates = pooled(3)
        stable, arm = gates.of(STABLE), gates.of(ARM)
        waiting = [asyncio.create_task(taken(arm)) for _ in range(4)]
        await asyncio.sleep(STUCK_S - 1)
        assert sum(task.done() for task in waiting) == 2
        await asyncio.sleep(2)
        assert all(task.done() for task in waiting)
        assert await stable.enter(0.0) is not None

    run(scenario())


def test_a_pool_of_one_place_has_none_to_leave() -> None:
    async def scenario() -> None:
        gates = pooled(1)
        assert await gates.of(ARM).enter(0.0) is not None
        assert await gates.of(STABLE).enter(0.0) is None

    run(scenario())


def test_what_becomes_stable_leaves_no_place_any_more_and_who_waits_for_it_goes_in_at_once() -> None:
    async def scenario() -> None:
        arms = {ARM}
        gates = Gates(LIMITS.get, 32, now_s, lambda model: (STABLE, 3), lambda model, version: model in arms)
        waiting = [asyncio.create_task(taken(gates.of(ARM))) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sum(task.done() for task in waiting) == 2
        arms.clear()
        gates.refresh()
        assert await asyncio.wait_for(waiting[-1], 0.1)

    run(scenario())


async def _in_line(gate: CallGate, callers: int) -> list[asyncio.Task[object]]:
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(taken(gate)) for _ in range(callers)]
    await asyncio.sleep(0.01)
    return tasks


@pytest.mark.parametrize("places", [2, 3, 5])
def test_the_line_of_an_arm_makes_the_predicted_wait_at_most_so_many_times_longer_as_there_are_places(
    places: int,
) -> None:
    async def scenario() -> None:
        gates = pooled(places)
        stable, arm = gates.of(STABLE), gates.of(ARM)
        prices = {STABLE: (0.3, 0.0), ARM: (30.0, 0.0)}
        inside = [await taken(stable) for _ in range(places)]
        alone_s = stable.wait_s(prices.__getitem__)
        assert alone_s == pytest.approx(places * 0.3)
        tasks = await _in_line(arm, 100)
        predicted_s = stable.wait_s(prices.__getitem__)
        assert predicted_s == pytest.approx(places * alone_s, rel=0.05)
        assert queue_refusal(predicted_s, 0.3, None, DEFAULT_LIMITS, STABLE) is None
        # also once the arm's calls are inside: what they still take is bounded, too
        for place in inside[1:]:
            stable.leave(place)
        tasks += await _in_line(stable, 1)
        assert stable.wait_s(prices.__getitem__) <= places * 2 * 0.3
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(scenario())


def test_the_place_costs_an_arm_nothing_of_its_turn_where_others_do_not_need_it() -> None:
    async def scenario() -> list[float]:
        machine = Machine(pooled(3), seconds={STABLE: 0.3, ARM: 0.3})
        await asyncio.gather(machine.arrive(STABLE, 10.0, 60.0), machine.arrive(ARM, 0.2, 60.0))
        return machine.waits_s[ARM]

    assert statistics.mean(run(scenario())) < 0.1
