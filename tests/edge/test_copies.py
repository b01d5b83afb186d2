"""Copies for comparison: another arm speaks a request again, and the original does not notice."""

from __future__ import annotations

import asyncio
import time
import wave
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
import numpy.typing as npt
import pytest

from voxrepo.edge.copies import CopyCounts
from voxrepo.edge.voice_calls import LONG_TEXT_CHARS
from voxrepo.rollout.plan import PairSeen, RequestSeen
from voxrepo.rollout.route import Route

from .arms import ARM, ArmRig, arm_entry, arm_of, arm_rig, canary, key_of, signed
from .fake_stages import VOICE, audio_of, whole_audio

ENSEMBLE = f"{VOICE}.{ARM}"


def shadow(percent: float = 100) -> Route:
    return Route(rollout="r1", policy="shadow", shadow_arm=ARM, shadow_percent=percent)


class Counted:
    def __init__(self) -> None:
        self.made: list[tuple[str, str, str]] = []
        self.dropped: list[tuple[str, str]] = []

    @property
    def counts(self) -> CopyCounts:
        return CopyCounts(
            lambda *labels: self.made.append(labels),
            lambda *labels: self.dropped.append(labels),
        )


async def eventually(condition: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends_s
        await asyncio.sleep(0.005)


async def settled(place: ArmRig, counted: Counted, copies: int) -> None:
    await eventually(lambda: len(counted.made) + len(counted.dropped) >= copies)
    await asyncio.sleep(0.02)
    assert place.observer is not None
    place.observer.write()


def seen(folder: Path) -> list[RequestSeen]:
    lines = [line for file in folder.glob("replica/observations/*.jsonl") for line in file.read_text().splitlines()]
    return [RequestSeen.model_validate_json(line) for line in lines]


def pairs(folder: Path) -> list[PairSeen]:
    return [PairSeen.model_validate_json(file.read_bytes()) for file in folder.glob("replica/pairs/*.json")]


def sound(folder: Path, identity: str, arm: str) -> npt.NDArray[np.int16]:
    with wave.open(str(folder / "replica" / "pairs" / f"{identity}.{arm}.wav")) as stream:
        return np.frombuffer(stream.readframes(stream.getnframes()), "<i2")


async def test_a_shadow_speaks_what_the_stable_arm_has_answered(tmp_path: Path) -> None:
    counted = Counted()
    async with arm_rig(tmp_path, shadow(), observes=True, copy_counts=counted.counts) as place:
        response = await place.ask("hello there")
        assert arm_of(response)[0] == "stable"
        assert place.stages.names() == [VOICE]  # nothing of the copy before the answer
        await settled(place, counted, 1)
        assert place.plane.in_use.counts == {}
        registry = place.metrics.registry
        requests = [s for f in registry.collect() for s in f.samples if s.name == "voxrepo_requests_total"]
        assert [(s.labels["arm"], s.value) for s in requests] == [("stable", 1)]
    original, copy = sorted(seen(tmp_path), key=lambda line: line.copy_of)
    assert (original.arm, original.copy_of, original.outcome) == ("stable", "", "ok")
    assert (copy.arm, copy.copy_of, copy.outcome, copy.pinned) == (ARM, "stable", "ok", False)
    assert copy.audio_s == pytest.approx(original.audio_s)
    (pair,) = pairs(tmp_path)
    assert (pair.arm, pair.text, pair.seed, pair.speed, pair.fault) == (ARM, "hello there", 5, 1.0, "")
    assert pair.latency_s is not None and pair.stable_latency_s is not None
    whole = whole_audio("hello there", 5, place.stages.entry)
    np.testing.assert_array_equal(sound(tmp_path, pair.id, "stable"), whole)
    np.testing.assert_array_equal(sound(tmp_path, pair.id, ARM), signed(whole, ARM))
    assert counted.made == [(VOICE, ARM, "ok")]


async def test_a_request_of_an_arm_with_a_weight_is_paired_with_the_stable_arm(tmp_path: Path) -> None:
    counted = Counted()
    route = canary(50, pair_percent=100)
    async with arm_rig(tmp_path, route, observes=True, copy_counts=counted.counts) as place:
        await place.ask(routing_key=key_of("stable"))
        await place.ask(routing_key=key_of(ARM))
        await settled(place, counted, 1)
        assert place.stages.names() == [VOICE, ENSEMBLE, VOICE]
        await place.ask(arm=ARM)  # chosen by the client: no sample of the users
        await asyncio.sleep(0.1)
        assert len(place.stages.names()) == 4
    (pair,) = pairs(tmp_path)
    assert pair.arm == ARM
    whole = whole_audio("hello", 5, place.stages.entry)
    np.testing.assert_array_equal(sound(tmp_path, pair.id, ARM), signed(whole, ARM))
    np.testing.assert_array_equal(sound(tmp_path, pair.id, "stable"), whole)


async def test_a_stream_is_copied_by_one_call_after_its_end(tmp_path: Path) -> None:
    counted = Counted()
    async with arm_rig(tmp_path, shadow(), observes=True, copy_counts=counted.counts) as place:
        pieces = await place.listen("a text of some length. and more of it")
        assert ENSEMBLE not in place.stages.names()
        await settled(place, counted, 1)
        assert place.stages.names().count(ENSEMBLE) == 1
    (pair,) = pairs(tmp_path)
    assert pair.stable_latency_s is None  # that of a stream says nothing
    assert pair.latency_s is not None
    joined = np.concatenate([audio_of(piece) for piece in pieces])
    np.testing.assert_array_equal(sound(tmp_path, pair.id, "stable"), joined)
    np.testing.assert_array_equal(sound(tmp_path, pair.id, ARM), signed(joined, ARM))
    assert {line.streamed for line in seen(tmp_path) if not line.copy_of} == {True}


async def test_a_copy_that_fails_is_a_fault_of_its_arm_and_of_nobody_else(tmp_path: Path) -> None:
    counted = Counted()
    async with arm_rig(tmp_path, shadow(), observes=True, copy_counts=counted.counts) as place:
        place.stages.fault = lambda name, _: (grpc.StatusCode.INTERNAL, "NaN") if name == ENSEMBLE else None
        await place.ask()
        await settled(place, counted, 1)
    copy = next(line for line in seen(tmp_path) if line.copy_of)
    assert (copy.arm, copy.outcome) == (ARM, "failed")
    (pair,) = pairs(tmp_path)
    assert pair.fault == "INTERNAL: NaN"
    assert pair.latency_s is None
    assert {file.name for file in (tmp_path / "replica" / "pairs").glob("*.wav")} == {f"{pair.id}.stable.wav"}


async def test_one_copy_at_a_time(tmp_path: Path) -> None:
    counted = Counted()
    async with arm_rig(tmp_path, shadow(), observes=True, copy_counts=counted.counts) as place:
        place.stages.delays_s = {ENSEMBLE: 0.3}
        begun_s = time.monotonic()
        for _ in range(4):
            await place.ask()
        assert time.monotonic() - begun_s < 0.3
        await settled(place, counted, 4)
    assert counted.made == [(VOICE, ARM, "ok")]
    assert counted.dropped == [(VOICE, "busy")] * 3


async def test_copies_are_dropped_while_lines_are_long(tmp_path: Path) -> None:
    counted = Counted()
    async with arm_rig(tmp_path, shadow(), observes=True, copy_counts=counted.counts) as place:
        place.change(engine_calls={**place.tables.table.engine_calls, ENSEMBLE: 1})
        place.stages.delays_s = {ENSEMBLE: 0.25}
        for _ in range(9):
            await place.ask(arm=ARM)
        tasks = [asyncio.create_task(place.ask(arm=ARM)) for _ in range(12)]
        await asyncio.sleep(0.05)
        await place.ask()
        assert counted.dropped == [(VOICE, "queue")]
        await asyncio.gather(*tasks)


async def test_a_copy_waits_behind_requests_that_come_after_it(tmp_path: Path) -> None:
    counted = Counted()
    async with arm_rig(tmp_path, shadow(), observes=True, copy_counts=counted.counts) as place:
        place.change(engine_calls={**place.tables.table.engine_calls, ENSEMBLE: 1})
        place.stages.delays_s = {ENSEMBLE: 0.6}
        first = asyncio.create_task(place.ask("first", arm=ARM))
        gate = place.engine.gates.of(ENSEMBLE)
        await eventually(lambda: gate.running == 1)
        await place.ask("original")
        await eventually(lambda: gate.waiting == 1)  # the copy
        later = [asyncio.create_task(place.ask("later", arm=ARM)) for _ in range(2)]
        await asyncio.gather(first, *later)
        await settled(place, counted, 1)
        texts = [place.stages._text(request) for name, request in place.stages.calls if name == ENSEMBLE]
        assert texts == ["first", "later", "later", "original"]
    copy = next(line for line in seen(tmp_path) if line.copy_of)
    assert copy.latency_s < 1.1  # its time in the line says nothing of the arm
    assert all(0.6 <= (line.engine_s or 0) < 1.1 for line in seen(tmp_path) if line.arm == ARM)
    assert max(line.latency_s for line in seen(tmp_path)) > 1.5  # of the last client in line


async def test_what_is_not_copied_and_why(tmp_path: Path) -> None:
    counted = Counted()
    entry = arm_entry(max_text_chars=1000)
    async with arm_rig(tmp_path, shadow(), observes=True, copy_counts=counted.counts, entry=entry) as place:
        voices = place.tables.table.voices
        place.change(voices={**voices, VOICE: voices[VOICE].model_copy(update={"max_text_chars": 1000})})
        await place.ask("a long text. " * (LONG_TEXT_CHARS // 13 + 1))
        assert counted.dropped.pop() == (VOICE, "long")
        place.stages.fault = lambda name, _: (grpc.StatusCode.INVALID_ARGUMENT, "nothing to say")
        with pytest.raises(Exception, match="nothing to say"):
            await place.ask()
        assert not counted.dropped  # a failed request is not copied at all
        place.stages.fault = lambda name, _: None
        place.change(voices={VOICE: place.tables.table.voices[VOICE]})
        await place.ask()
        assert counted.dropped == [(VOICE, "gone")]
        assert not counted.made


async def test_a_fault_that_the_server_cures_is_not_held_against_the_arm(tmp_path: Path) -> None:
    counted = Counted()
    async with arm_rig(tmp_path, shadow(), observes=True, copy_counts=counted.counts) as place:
        place.stages.delays_s = {ENSEMBLE: 0.1}
        place.stages.fault = lambda name, _: (grpc.StatusCode.UNAVAILABLE, "x") if name == ENSEMBLE else None
        await place.ask()
        await asyncio.sleep(0.05)
        place.change(held=[VOICE])
        await settled(place, counted, 1)
        assert counted.dropped == [(VOICE, "recovery")]
    assert not [line for line in seen(tmp_path) if line.copy_of]


async def test_requests_are_written_down_by_what_became_of_them(tmp_path: Path) -> None:
    async with arm_rig(tmp_path, canary(50), observes=True) as place:
        await place.ask(routing_key=key_of(ARM))
        await place.listen("some text", arm="stable")
        place.stages.fault = lambda name, _: (grpc.StatusCode.INTERNAL, "NaN")
        with pytest.raises(Exception, match="internal error"):
            await place.ask(routing_key=key_of(ARM))
        place.change(routes={})
        place.stages.fault = lambda name, _: None
        await place.ask()
        assert place.observer is not None
        place.observer.write()
    first, second, third = sorted(seen(tmp_path), key=lambda line: line.at)
    assert (first.arm, first.outcome, first.pinned, first.streamed, first.text_chars) == (ARM, "ok", False, False, 5)
    assert first.level_dbfs is not None
    assert (second.arm, second.pinned, second.streamed) == ("stable", True, True)
    assert second.first_piece_s is not None
    assert (third.arm, third.outcome, third.level_dbfs) == (ARM, "failed", None)
