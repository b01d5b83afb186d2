"""Waiting for the end of what is under way."""

from __future__ import annotations

import asyncio

import pytest

from voxrepo.edge.tally import Tally


async def test_none_left_of_none_is_true_at_once() -> None:
    assert await Tally().none_left(0.0)


async def test_the_last_to_end_is_waited_for() -> None:
    tally = Tally()
    tally.add()
    tally.add()
    waiting = asyncio.create_task(tally.none_left(5.0))
    tally.remove()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    tally.remove()
    assert await waiting


async def test_the_wait_has_an_end() -> None:
    tally = Tally()
    tally.add()
    assert not await tally.none_left(0.01)
    assert not await tally.none_left(-1.0)


async def test_what_fails_has_ended_too() -> None:
    tally = Tally()
    with pytest.raises(ValueError, match="odd"), tally.one():
        assert tally.count == 1
        raise ValueError("odd")
    assert tally.count == 0
