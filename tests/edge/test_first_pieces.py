"""First pieces among other streams, on two simulated cores whose calls take what the default voice's take.

The plan, the lines, the costs and the playback clock are the edge's own, each stream's order of calls as in
``VoiceStream``. A simulated core is shared by the calls that run, as an operating system does it. Simulated, since what
a loaded test machine's clock says depends on what else it does.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from dataclasses import dataclass, field

from tests.edge.virtual_time import now_s, run
from voxrepo.edge.costs import Costs
from voxrepo.edge.gates import Gates
from voxrepo.edge.lines import Need
from voxrepo.edge.pieces_plan import STREAM_GROUPS, WindowSizes, group_sizes, next_span, windows_in_time
from voxrepo.edge.playback import Playback
from voxrepo_contract.pieces import opening_frames

CORES = 2
TICK_S = 0.001
SIZES = WindowSizes(window=128, overlap=11, first=48)
FRAME_S = 256 / 22_050
INSTANCES = {"text_frontend": 1, "acoustic": 2, "vocoder": 2}
THREADS = {"text_frontend": 1, "acoustic": 2, "vocoder": 1}
CALL_CPU_S = 0.002  # for a call's way there and back
FRONT_END_CPU_S = 0.002
SEGMENT_CPU_S, ACOUSTIC_FRAME_CPU_S = 0.024, 0.000157
WINDOW_FRAME_CPU_S = 0.00072


@dataclass(eq=False)
class _Call:
    cpu_s: float
    done: asyncio.Future[None]


class _Machine:
    """Instances of the stages on shared cores, and the edge's lines in front of them."""

    def __init__(self, places: dict[str, int]) -> None:
        self.gates = Gates(places.get, 32, now_s)
        self.costs = Costs()
        self._queues: dict[str, list[_Call]] = {stage: [] for stage in INSTANCES}

    async def work(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            running = [(stage, call) for stage, queue in self._queues.items() for call in queue[: INSTANCES[stage]]]
            threads = sum(THREADS[stage] for stage, _ in running)
            for stage, call in running:
                call.cpu_s -= TICK_S * THREADS[stage] * min(1.0, CORES / threads)
                if call.cpu_s <= 0:
                    self._queues[stage].remove(call)
                    call.done.set_result(None)

    async def call(self, stage: str, units: int, cpu_s: float, needed_by_s: float | None) -> None:
        gate = self.gates.of(stage)
        place = await gate.enter(None, Need(needed_by_s, begins=needed_by_s is None, is_heard=True), units)
        assert place is not None
        call = _Call(cpu_s + CALL_CPU_S, asyncio.get_running_loop().create_future())
        self._queues[stage].append(call)
        await call.done
        self.costs.observe(stage, units, *gate.used_s(place))
        gate.leave(place)


@dataclass
class _Heard:
    first_s: list[float] = field(default_factory=list)
    worst_lag_s: float = -1.0


def _vocoded(frames: int, kept: int, stop: int) -> tuple[int, int]:
    """Frames run and frame reached by a call with the frames up to ``stop``: the windows of the vocoder's plan."""
    worked = 0
    while kept < frames:
        start = max(kept - SIZES.overlap, 0)
        size = SIZES.window if kept else opening_frames(frames, SIZES.first, SIZES.window)
        end = min(start + size, frames)
        if end > stop:
            break
        worked += end - start
        kept = frames if end == frames else end - SIZES.overlap
    return worked, kept


async def _listen(machine: _Machine, segments: list[int], heard: _Heard) -> None:
    playback, groups = Playback(now_s(), clock=now_s), group_sizes(STREAM_GROUPS)
    asked_s = now_s()

    async def acoustic(frames: int, needed_by_s: float) -> None:
        await machine.call("acoustic", frames, SEGMENT_CPU_S + ACOUSTIC_FRAME_CPU_S * frames, needed_by_s)

    await machine.call("text_frontend", 150, FRONT_END_CPU_S, None)
    following: asyncio.Task[None] | None = asyncio.create_task(acoustic(segments[0], playback.needed_by_s()))
    for number, frames in enumerate(segments):
        assert following is not None
        await following
        following, kept = None, 0
        while kept < frames:
            ahead_s = (frames - kept) * FRAME_S
            if following is None and number + 1 < len(segments) and playback.has_begun:
                following = asyncio.create_task(acoustic(segments[number + 1], playback.needed_by_s(ahead_s)))
            windows = windows_in_time(next(groups), machine.costs.predict("vocoder", SIZES.window))
            span = next_span(frames, kept, windows, SIZES)
            worked, reached = _vocoded(frames, kept, span.stop)
            frames_sent = span.stop - span.start
            await machine.call("vocoder", frames_sent, WINDOW_FRAME_CPU_S * worked, playback.needed_by_s())
            if playback.has_begun:
                heard.worst_lag_s = max(heard.worst_lag_s, now_s() - playback.needed_by_s())
            else:
                heard.first_s.append(now_s() - asked_s)
            playback.add((reached - kept) * FRAME_S)
            kept = reached


def heard_by(listeners: int, places: dict[str, int]) -> _Heard:
    """What so many listeners hear who each ask for the next ten seconds as soon as they have the last."""

    async def scenario() -> _Heard:
        machine, drawn = _Machine(places), random.Random(5)
        working = asyncio.create_task(machine.work())
        heard = _Heard()

        async def client() -> None:
            # the first streams start together and meet costs that are not known yet
            await _listen(machine, [270, 270, 270], _Heard())
            while now_s() < 30:
                await _listen(machine, [drawn.randint(180, 360) for _ in range(3)], heard)

        await asyncio.gather(*(client() for _ in range(listeners)))
        working.cancel()
        return heard

    return run(scenario())


PLACES = {"text_frontend": 2, "acoustic": 2, "vocoder": 2}


def test_first_pieces_of_eight_streams_come_in_four_times_the_time_of_one_and_nobody_stalls() -> None:
    alone, among_eight = heard_by(1, PLACES), heard_by(8, PLACES)
    assert statistics.median(alone.first_s) < 0.1
    assert statistics.median(among_eight.first_s) < 4 * statistics.median(alone.first_s)
    assert alone.worst_lag_s < 0
    assert among_eight.worst_lag_s < 0


def test_calls_that_wait_in_the_engine_hold_first_pieces_up() -> None:
    waits_inside = heard_by(8, {stage: 2 * places for stage, places in PLACES.items()})
    assert statistics.median(waits_inside.first_s) > 1.2 * statistics.median(heard_by(8, PLACES).first_s)
