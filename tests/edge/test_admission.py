"""Who is let in, and that those who are let in are served in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.admission import (
    DEFAULT_LIMITS,
    NO_LIMITS,
    Admission,
    AdmissionLimits,
    queue_refusal,
    stream_refusal,
)
from voxrepo.edge.costs import Costs
from voxrepo.edge.engine_client import CallReport
from voxrepo.edge.gates import NOW, Gates
from voxrepo.edge.lines import Need
from voxrepo.edge.statuses import retry_after_s
from voxrepo_contract.errors import Unavailable

from .harness import voice
from .virtual_time import now_s, run

VOICE = "en-test"
LIMITS = AdmissionLimits(max_queue_s=5.0)
RATE_HZ = 22050


def reason_of(refusal: Unavailable | None) -> str | None:
    return None if refusal is None else refusal.reason


@given(
    wait_s=st.floats(0, 100),
    cost_s=st.floats(0, 100),
    left_s=st.none() | st.floats(-1, 100),
    max_queue_s=st.sampled_from((0.0, 0.5, 5.0)),
)
def test_a_request_is_refused_exactly_when_it_would_wait_too_long(
    wait_s: float, cost_s: float, left_s: float | None, max_queue_s: float
) -> None:
    refusal = queue_refusal(wait_s, cost_s, left_s, AdmissionLimits(max_queue_s), VOICE)
    too_long = 0 < max_queue_s < wait_s
    too_late = wait_s > 0 and left_s is not None and wait_s + cost_s > left_s
    assert reason_of(refusal) == ("queue" if too_long else "deadline" if too_late else None)
    if refusal is not None:
        seconds = retry_after_s(refusal)
        assert seconds is not None
        assert 1 <= seconds <= 60


@given(
    active=st.dictionaries(st.sampled_from("abc"), st.integers(1, 30)),
    need=st.dictionaries(st.sampled_from("abc"), st.floats(0, 2)),
    per_voice=st.sampled_from((0, 5)),
    server=st.sampled_from((0, 20)),
)
def test_streams_are_let_in_as_far_as_the_limits_and_the_measured_capacity_go(
    active: dict[str, int], need: dict[str, float], per_voice: int, server: int
) -> None:
    reason = reason_of(stream_refusal("a", active, need, AdmissionLimits(5.0, server, per_voice, 0.95)))
    total, streams = sum(active.values()), active.get("a", 0)
    if server and total >= server:
        assert reason == "streams"
    elif per_voice and streams >= per_voice:
        assert reason == "voice_streams"
    else:
        counts = {**active, "a": streams + 1}
        short = any(n > 1 and n * need.get(name, 0) > 0.95 for name, n in counts.items())
        assert reason == ("real_time" if short and total else None)
    assert stream_refusal("a", active, need, NO_LIMITS) is None


VERSION = voice(VOICE).versions["vocoder"]


@dataclass
class SimulatedEngine:
    """Calls that take a known time each, two at a time; the rest are the edge's own lines, costs and admission."""

    places: int = 2
    frames_s: float = 0.0
    observers: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gates = Gates({f"{VOICE}.vocoder": self.places, VOICE: self.places}.get, 32, now_s)
        self.costs = Costs()
        self.admission = Admission(self, lambda: {VOICE: voice(VOICE)}, LIMITS)

    async def call(self, model: str, units: int, seconds: float, need: Need, audio_s: float) -> None:
        gate = self.gates.of(model, VERSION)
        arrived_s = now_s()
        place = await gate.enter(None, need, units)
        assert place is not None
        await asyncio.sleep(seconds)
        shared_s, own_s = gate.used_s(place)
        self.costs.observe(gate.name, units, shared_s, own_s)
        answer = pb.ModelInferResponse()
        answer.outputs.add(name="audio", shape=[1, round(audio_s * RATE_HZ)])
        waited_s, inside_s = place.entered_s - arrived_s, now_s() - place.entered_s
        self.admission.observe(CallReport(gate.model, waited_s, inside_s, shared_s, own_s, answer, gate.version))
        gate.leave(place)


@dataclass
class Listener:
    """One stream: pieces of a second each, the first of a fifth; counts how often playback stalls."""

    first_piece_s: float = 0.0
    underruns: int = 0

    async def listen(self, engine: SimulatedEngine, audio_s: float, cost_per_s: float) -> None:
        model, asked_s = f"{VOICE}.vocoder", now_s()
        with engine.admission.stream(VOICE, 100, None):
            await engine.call(model, 20, 0.2 * cost_per_s, Need(is_heard=True), 0.2)
            self.first_piece_s = now_s() - asked_s
            played_until_s = now_s() + 0.2
            for _ in range(round(audio_s)):
                need = Need(played_until_s, begins=False, is_heard=True)
                await engine.call(model, 100, cost_per_s, need, 1.0)
                if now_s() > played_until_s:
                    self.underruns += 1
                    played_until_s = now_s()
                played_until_s += 1.0


def _listeners(count: int) -> Iterator[Listener]:
    return (Listener() for _ in range(count))


def test_twenty_streams_keep_ahead_of_playback_while_short_requests_come() -> None:
    async def scenario() -> None:
        engine = SimulatedEngine()
        answered: list[float] = []

        async def short_request(seconds: float) -> None:
            asked_s = now_s()
            await engine.call(f"{VOICE}.vocoder", 60, seconds, NOW, 0.6)
            answered.append(now_s() - asked_s)

        async def short_requests() -> None:
            # 0.02 s of one of two places, 8 times a second: 8 % of the engine
            tasks = []
            for _ in range(200):
                tasks.append(asyncio.create_task(short_request(0.02)))
                await asyncio.sleep(0.125)
            await asyncio.gather(*tasks)

        # 20 streams that need 0.08 s of a place for a second of audio: 80 % of two places
        listeners = list(_listeners(20))
        tasks = [asyncio.create_task(short_requests())]
        for one in listeners:
            tasks.append(asyncio.create_task(one.listen(engine, 20.0, 0.08)))
            await asyncio.sleep(0.1)
        await asyncio.gather(*tasks)
        # the first words are there at once, and nobody stalls once everybody's first piece is out
        assert max(one.first_piece_s for one in listeners) < 0.3
        assert sum(one.underruns for one in listeners) <= 2
        assert len(answered) == 200
        # not starved either: streams go ahead until each has a little audio in hand
        assert max(answered) < 1.5
        assert sorted(answered)[100] < 0.25

    run(scenario())


def test_streams_beyond_the_capacity_are_refused_and_not_slowed_down() -> None:
    async def scenario() -> None:
        engine = SimulatedEngine()
        listeners, refused = [], 0

        async def come(one: Listener) -> None:
            nonlocal refused
            try:
                await one.listen(engine, 40.0, 0.1)
                listeners.append(one)
            except Unavailable as error:
                assert error.reason in ("real_time", "queue")
                assert error.retry_after_s is not None
                refused += 1

        # two places, 0.1 s per second: 20 streams would take all of it, and 60 come, one every 0.25 s
        tasks = []
        for one in _listeners(60):
            tasks.append(asyncio.create_task(come(one)))
            await asyncio.sleep(0.25)
        await asyncio.gather(*tasks)
        assert len(listeners) + refused == 60
        assert 12 <= len(listeners) <= 24
        assert sum(one.underruns for one in listeners) <= 2
        assert max(one.first_piece_s for one in listeners) < 0.5

    run(scenario())


def test_requests_are_refused_once_the_line_is_longer_than_allowed_and_those_let_in_wait_no_longer() -> None:
    async def scenario() -> None:
        engine = SimulatedEngine()
        waited: list[float] = []
        refused = 0

        async def ask() -> None:
            nonlocal refused
            try:
                engine.admission.check(VOICE, 50, None)
            except Unavailable as error:
                assert error.reason == "queue"
                refused += 1
                return
            asked_s = now_s()
            await engine.call(VOICE, 50, 0.5, NOW, 3.0)
            waited.append(now_s() - asked_s - 0.5)

        for _ in range(5):  # what calls cost is known
            await asyncio.gather(*(engine.call(VOICE, 50, 0.5, NOW, 3.0) for _ in range(2)))
        tasks = []
        for _ in range(960):  # for a minute, four times what two places can do
            tasks.append(asyncio.create_task(ask()))
            await asyncio.sleep(1 / 16)
        await asyncio.gather(*tasks)
        assert max(waited) < 1.1 * LIMITS.max_queue_s
        assert 0.6 < refused / 960 < 0.8
        # nothing was lost by refusing: the engine was busy all the time
        assert len(waited) * 0.5 / 2 > 0.95 * 60

    run(scenario())


def test_a_deadline_that_cannot_be_met_is_said_at_once() -> None:
    async def scenario() -> None:
        engine = SimulatedEngine()
        for _ in range(10):
            await engine.call(VOICE, 50, 0.5, NOW, 3.0)
        engine.admission.check(VOICE, 50, 0.01)  # free places: let it try
        running = [asyncio.create_task(engine.call(VOICE, 50, 0.5, NOW, 3.0)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="deadline cannot be met") as caught:
            engine.admission.check(VOICE, 50, 0.2)
        assert caught.value.reason == "deadline"
        engine.admission.check(VOICE, 50, 30.0)
        await asyncio.gather(*running)

    run(scenario())


async def test_the_number_of_active_streams_is_shown_and_their_places_come_back() -> None:
    engine = SimulatedEngine()
    shown: list[tuple[str, int]] = []
    limits = AdmissionLimits(max_streams=2)
    admission = Admission(
        engine, lambda: {VOICE: voice(VOICE)}, limits, lambda name, count: shown.append((name, count))
    )
    with ExitStack() as streams:
        streams.enter_context(admission.stream(VOICE, 10, None))
        streams.enter_context(admission.stream(VOICE, 10, None))
        with pytest.raises(Unavailable, match="2 streams are being served"):
            streams.enter_context(admission.stream(VOICE, 10, None))
    assert shown == [(VOICE, 1), (VOICE, 2), (VOICE, 1), (VOICE, 0)]
    with pytest.raises(KeyError), admission.stream(VOICE, 10, None):
        raise KeyError
    assert shown[-1] == (VOICE, 0)


async def test_a_server_whose_lines_let_nobody_in_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SimulatedEngine()
    engine.gates = Gates({VOICE: 1}.get, 32)
    admission = Admission(engine, lambda: {VOICE: voice(VOICE)}, DEFAULT_LIMITS)
    gate = engine.gates.of(VOICE)
    for _ in range(10):
        engine.costs.observe(VOICE, 50, shared_s=25.0, own_s=25.0)
    assert await gate.enter(None, units=50)
    waiting = [asyncio.create_task(gate.enter(None, units=50)) for _ in range(3)]
    await asyncio.sleep(0)
    assert admission.lets_in(), "it has let something in a moment ago"
    monkeypatch.setattr("voxrepo.edge.admission.READY_GRACE_S", 0.0)
    assert not admission.lets_in()
    for task in waiting[1:]:
        task.cancel()
    await asyncio.gather(*waiting[1:], return_exceptions=True)
    waiting[0].cancel()
    await asyncio.gather(waiting[0], return_exceptions=True)
    assert admission.lets_in()


async def test_what_a_slow_candidate_costs_neither_delays_nor_refuses_those_who_use_the_stable_versions() -> None:
    engine = SimulatedEngine(places=1)
    slow = engine.gates.of(f"{VOICE}.vocoder", VERSION + 1)
    for _ in range(20):
        engine.costs.observe(slow.name, 20, 30.0, 30.0)
        answer = pb.ModelInferResponse()
        answer.outputs.add(name="audio", shape=[1, RATE_HZ])
        engine.admission.observe(CallReport(slow.model, 0.0, 30.0, 30.0, 30.0, answer, slow.version))
    assert await slow.enter(0.0, units=20) is not None
    waiting = asyncio.create_task(slow.enter(None, Need(is_heard=True), 20))
    await asyncio.sleep(0)
    assert slow.waiting == 1
    with engine.admission.stream(VOICE, 100, 1.0), engine.admission.stream(VOICE, 100, 1.0):
        place = await engine.gates.of(f"{VOICE}.vocoder", VERSION).enter(0.0)
        assert place is not None
    versions = {**voice(VOICE).versions, "vocoder": VERSION + 1}
    with pytest.raises(Unavailable, match="would wait 60"), engine.admission.stream(VOICE, 100, 1.0, versions):
        pass
    waiting.cancel()
