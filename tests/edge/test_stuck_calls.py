"""Calls that hung and then answered say nothing of what calls cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from voxrepo.edge.costs import Costs
from voxrepo.edge.engine_client import CallReport
from voxrepo.edge.gates import CallGate, Gates
from voxrepo.edge.lines import Place
from voxrepo.edge.pools import STUCK_S
from voxrepo.edge.stream_load import StreamLoad
from voxrepo.metrics.accounting import RequestRecord

from .fake_stages import VOICE, request_for, rig
from .lining import taken
from .virtual_time import now_s, run

UNITS = 100


class Learning:
    """A vocoder beside other calls of its voice, and what is learned of it."""

    def __init__(self) -> None:
        gates = Gates({"v": 6, "v.vocoder": 2}.get, 32, now_s, lambda model: ("v", 3))
        self.vocoder, self.others = gates.of("v.vocoder", 1), gates.of("v")
        self.costs, self.load = Costs(), StreamLoad()

    @property
    def cost_s(self) -> float:
        return self.costs.predict(self.vocoder.name, UNITS)

    @property
    def need(self) -> float:
        return self.load.of_one_stream(shares_places=True)

    def end(self, place: Place) -> None:
        used = self.vocoder.used_s(place)
        self.costs.observe(self.vocoder.name, UNITS, *used)
        self.load.observe("vocoder", 1.0, *used)
        self.vocoder.leave(place)

    async def calls(self, count: int, seconds: float, at_a_time: int = 2) -> None:
        async def one_after_the_other() -> None:
            for _ in range(count // at_a_time):
                place = await taken(self.vocoder)
                await asyncio.sleep(seconds)
                self.end(place)

        await asyncio.gather(*(one_after_the_other() for _ in range(at_a_time)))


async def keep_busy(gate: CallGate, is_over: Callable[[], bool]) -> None:
    while not is_over():
        place = await taken(gate)
        await asyncio.sleep(0.2)
        gate.leave(place)


@pytest.mark.parametrize("hung", [1, 2])
@pytest.mark.parametrize("hung_s", [STUCK_S - 1, 60.0, 300.0])
def test_a_call_that_hung_beside_others_hardly_changes_anything_however_long(hung: int, hung_s: float) -> None:
    async def scenario() -> None:
        learning = Learning()
        await learning.calls(60, 0.2)
        assert (learning.cost_s, learning.need) == pytest.approx((0.1, 0.1))
        is_over = False
        others = [asyncio.create_task(keep_busy(learning.others, lambda: is_over)) for _ in range(2)]
        places = [await taken(learning.vocoder) for _ in range(hung)]
        await asyncio.sleep(hung_s)
        for place in places:
            learning.end(place)
        assert learning.cost_s < 0.1 * 1.3**hung
        assert learning.need < 0.1 * 1.3**hung
        is_over = True
        await asyncio.gather(*others)

    run(scenario())


@pytest.mark.parametrize(("at_a_time", "cost_s"), [(1, 2.0), (2, 1.0)])
def test_calls_that_take_longer_than_those_that_hang_are_learned_where_there_are_no_others(
    at_a_time: int, cost_s: float
) -> None:
    async def scenario() -> None:
        learning = Learning()
        await learning.calls(60, 2 * STUCK_S, at_a_time)
        assert learning.cost_s == pytest.approx(cost_s * STUCK_S)
        assert learning.need == pytest.approx(cost_s * STUCK_S)

    run(scenario())


def test_what_a_stream_needs_follows_a_lasting_change() -> None:
    async def scenario() -> None:
        learning = Learning()
        await learning.calls(60, 0.2)
        await learning.calls(60, 2.0)
        assert learning.need == pytest.approx(1.0, rel=0.3)

    run(scenario())


async def test_the_time_in_the_engine_is_reported_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrepo.edge.pools.STUCK_S", 0.1)
    reports: list[CallReport] = []
    async with rig(tmp_path) as place:
        place.engine.observers.append(reports.append)

        async def ask(seconds: float) -> None:
            place.stages.delays_s["ensemble"] = seconds
            began = place.stages.count("ensemble")
            task = asyncio.create_task(place.plane.infer(request_for("hi", model=VOICE), RequestRecord(VOICE, "test")))
            await place.until(lambda: place.stages.count("ensemble") > began)
            tasks.append(task)

        tasks: list[asyncio.Task[object]] = []
        await ask(1.0)
        for _ in range(9):  # some that do not hang go on beside it
            await ask(0.09)
            await tasks[-1]
        await asyncio.gather(*tasks)
    hung = max(reports, key=lambda report: report.inside_s)
    assert hung.inside_s >= 1.0
    assert hung.shared_s < 0.6
    assert hung.own_s < hung.shared_s
