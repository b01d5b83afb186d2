"""Places in the engine and the lines in front of them."""

from __future__ import annotations

import asyncio

import pytest

from voxrepo.edge.gates import OTHER_MODELS, CallGate, Gates
from voxrepo_contract.errors import Unavailable


async def test_callers_beyond_the_limit_wait_and_enter_in_order() -> None:
    gate = CallGate("voice", limit=1)
    assert await gate.enter(None)
    entered: list[int] = []

    async def caller(number: int) -> None:
        assert await gate.enter(None)
        entered.append(number)
        gate.leave()

    callers = [asyncio.create_task(caller(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert gate.waiting == 5
    assert entered == []
    gate.leave()
    await asyncio.gather(*callers)
    assert entered == [0, 1, 2, 3, 4]
    assert (gate.running, gate.waiting) == (0, 0)


async def test_a_full_line_refuses_at_once() -> None:
    gate = CallGate("voice", limit=1, max_waiting=1)
    await gate.enter(None)
    waiting = asyncio.create_task(gate.enter(None))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="1 requests wait for voice"):
        await gate.enter(None)
    gate.leave()
    assert await waiting


async def test_a_caller_that_times_out_leaves_the_line() -> None:
    gate = CallGate("voice", limit=1)
    await gate.enter(None)
    assert not await gate.enter(0.01)
    assert gate.waiting == 0
    gate.leave()
    assert gate.running == 0


async def test_a_place_handed_to_a_caller_cancelled_in_the_same_moment_is_not_lost() -> None:
    gate = CallGate("voice", limit=1)
    await gate.enter(None)
    first, second = asyncio.create_task(gate.enter(None)), asyncio.create_task(gate.enter(None))
    await asyncio.sleep(0)
    gate.leave()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await asyncio.wait_for(second, 1)
    gate.leave()
    assert (gate.running, gate.waiting) == (0, 0)


async def test_a_raised_limit_lets_waiting_callers_in() -> None:
    limits = {"voice": 1}
    gates = Gates(limits.get, other_limit=1)
    assert await gates.of("voice").enter(None)
    waiting = asyncio.create_task(gates.of("voice").enter(None))
    await asyncio.sleep(0)
    assert not waiting.done()
    limits["voice"] = 2
    assert gates.of("voice").limit == 2
    assert await asyncio.wait_for(waiting, 1)


async def test_unknown_models_share_one_line_and_do_not_hold_up_known_ones() -> None:
    gates = Gates({"voice": 1}.get, other_limit=1)
    assert gates.of("made-up-1") is gates.of("made-up-2")
    assert await gates.of("made-up-1").enter(None)
    assert not await gates.of("made-up-2").enter(0.01)
    assert await gates.of("voice").enter(0.01)
    assert gates.total(lambda gate: gate.running) == 2
    assert gates.of(OTHER_MODELS).running == 1
