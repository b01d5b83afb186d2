"""Who is let in: what could not be served in time is refused at once, with a hint when to come back.

Refusals rest on what was measured. While that is not enough (at the start, or for a model that was never called) only
the lengths of the lines and the numbers of streams count. Nobody is refused by a prediction alone while the engine has
free places, and never the only stream, so that a wrong prediction is soon corrected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from voxrepo.edge.costs import FEATURES, Costs
from voxrepo.edge.engine_client import CallReport
from voxrepo.edge.gates import Gates, line_name
from voxrepo.edge.stream_load import StreamLoad
from voxrepo.edge.table import VoiceEntry
from voxrepo_contract.errors import Unavailable
from voxrepo_contract.names import VOICE_STAGES, stage_model_name
from voxrepo_contract.tensors import AUDIO

STREAM_RETRY_S = 2.0
"""When to ask again for a stream: how long those that are active will last is not known."""

READY_GRACE_S = 2.0
"""A server that has let anything in within this time is ready, however full its lines are now."""


@dataclass(frozen=True)
class AdmissionLimits:
    """What one edge process lets in; 0 switches a limit off.

    Attributes:
        max_queue_s: longest time that a request is let in to wait.
        max_streams: streams at a time.
        max_streams_per_voice: streams at a time of one voice.
        max_utilisation: part of what the engine was measured to do that streams may need.
        stall_timeout_s: how long a stream keeps its place though its client takes nothing, after a player would have
            played all that was sent.
    """

    max_queue_s: float = 60.0
    max_streams: int = 256
    max_streams_per_voice: int = 0
    max_utilisation: float = 0.95
    stall_timeout_s: float = 60.0


DEFAULT_LIMITS = AdmissionLimits()
NO_LIMITS = AdmissionLimits(0.0, 0, 0, 0.0, 0.0)


def queue_refusal(
    wait_s: float, cost_s: float, left_s: float | None, limits: AdmissionLimits, voice: str
) -> Unavailable | None:
    """Why a request would have to wait too long; None if it would not.

    Args:
        wait_s: predicted wait, 0 if there are free places.
        cost_s: least time that it then takes.
        left_s: what is left until its own deadline, None without one.
        limits: of the server.
        voice: for the text.
    """
    if wait_s <= 0:
        return None
    if 0 < limits.max_queue_s < wait_s:
        return Unavailable(
            f"the queue is full: a request for {voice} would wait {wait_s:.1f} s, the limit is "
            f"{limits.max_queue_s:g} s; try again later",
            retry_after_s=wait_s - limits.max_queue_s,
            reason="queue",
        )
    if left_s is not None and wait_s + cost_s > left_s:
        return Unavailable(
            f"the deadline cannot be met: a request for {voice} would be answered in {wait_s + cost_s:.1f} s at the "
            f"earliest, {max(left_s, 0.0):.1f} s are left; allow more time or try again later",
            retry_after_s=wait_s + cost_s - max(left_s, 0.0),
            reason="deadline",
        )
    return None


def stream_refusal(
    voice: str, active: Mapping[str, int], need: Mapping[str, float], limits: AdmissionLimits
) -> Unavailable | None:
    """Why one more stream cannot be served; None if it can.

    Args:
        voice: that is asked for.
        active: streams being served, by voice.
        need: part of the engine that one stream of a voice needs to keep ahead of its playback, by voice; 0 or
            nothing where that is not known.
        limits: of the server.
    """
    total, of_voice = sum(active.values()), active.get(voice, 0)
    if 0 < limits.max_streams <= total:
        return _no_stream(f"{total} streams are being served, which is the limit", "streams")
    if 0 < limits.max_streams_per_voice <= of_voice:
        return _no_stream(f"{of_voice} streams of {voice} are being served, which is the limit", "voice_streams")
    if limits.max_utilisation <= 0 or total == 0:
        return None
    for name in {voice, *active}:
        # streams of other voices are needed too: if they are short of the engine already, one more makes it worse
        streams = active.get(name, 0) + (name == voice)
        used = streams * need.get(name, 0.0)
        if streams > 1 and used > limits.max_utilisation:
            return _no_stream(
                f"the engine could not keep ahead of playback: {streams} streams of {name} would need {used:.0%} "
                f"of it, the limit is {limits.max_utilisation:.0%}",
                "real_time",
            )
    return None


def _no_stream(problem: str, reason: str) -> Unavailable:
    return Unavailable(f"{problem}; try again later", retry_after_s=STREAM_RETRY_S, reason=reason)


def audio_seconds(answer: Any, stage: str, voice: VoiceEntry) -> float:
    """Audio that a stage's answer brings forward, in seconds; 0 for stages before the acoustic one."""
    for output in answer.outputs:
        if stage == "vocoder" and output.name == AUDIO.name:
            return float(output.shape[-1] / voice.sample_rate_hz)
        if stage == "acoustic" and output.name == FEATURES.name:
            return float(output.shape[-2] * voice.hop_length_samples / voice.sample_rate_hz)
    return 0.0


class _Engine(Protocol):
    gates: Gates
    costs: Costs


class Admission:
    """Decides for one edge process.

    Args:
        engine: its lines and costs are looked at; :meth:`observe` must be told of its calls.
        voices: those that are served, at this moment.
        limits: of this process.
        show: told the number of active streams of a voice when it changes.

    Attributes:
        limits: as above; may be changed.
    """

    def __init__(
        self,
        engine: _Engine,
        voices: Callable[[], Mapping[str, VoiceEntry]],
        limits: AdmissionLimits,
        show: Callable[[str, int], None] = lambda voice, streams: None,
    ) -> None:
        self._engine = engine
        self._voices = voices
        self.limits = limits
        self._show = show
        self._active: dict[str, int] = {}
        self._loads: dict[str, StreamLoad] = {}
        self._let_in_s = time.monotonic()

    def observe(self, report: CallReport) -> None:
        """Learn from a call of a voice's stage."""
        name, _, stage = report.gate.rpartition(".")
        voice = self._voices().get(name)
        if report.answer is None or voice is None or stage not in VOICE_STAGES:
            return
        if report.version not in ("", str(voice.versions.get(stage))):
            return  # an arm's: what it needs says nothing of the voice's users
        audio_s = audio_seconds(report.answer, stage, voice)
        self._loads.setdefault(name, StreamLoad()).observe(stage, audio_s, report.shared_s, report.own_s)

    def check(self, voice: str, chars: int, left_s: float | None, ensemble: str = "") -> None:
        """Let in a request that is one call of the voice's ensemble, or refuse it.

        Args:
            voice: name.
            chars: of its text.
            left_s: what is left until its deadline, None without one.
            ensemble: that is called; empty if it has the voice's name.

        Raises:
            Unavailable: it would wait too long, or longer than its deadline allows.
        """
        self._check([(ensemble or voice, "")], voice, chars, left_s)

    def check_long(
        self, voice: str, chars: int, left_s: float | None, versions: Mapping[str, int] | None = None
    ) -> None:
        """Let in a long text that is made by calls of the voice's stages, or refuse it.

        Args:
            voice: name.
            chars: of its text.
            left_s: what is left until its deadline, None without one.
            versions: of the stages; those of the voice if not given.

        Raises:
            Unavailable: its calls would wait too long, or longer than its deadline allows.
        """
        self._check(self._stages(voice, versions), voice, chars, left_s)

    @contextmanager
    def stream(
        self, voice: str, chars: int, left_s: float | None, versions: Mapping[str, int] | None = None
    ) -> Iterator[None]:
        """Let in a stream and hold its place, or refuse it; arguments as of :meth:`check_long`.

        Raises:
            Unavailable: its first piece would wait too long, there are too many streams, or real time could not be
                kept with one more.
        """
        self._check(self._stages(voice, versions), voice, chars, left_s, is_heard=True)
        need = {name: load.of_one_stream(self._shares_places(name)) for name, load in self._loads.items()}
        self._refuse(stream_refusal(voice, self._active, need, self.limits))
        self._count(voice, 1)
        try:
            yield
        finally:
            self._count(voice, -1)

    def _stages(self, voice: str, versions: Mapping[str, int] | None) -> list[tuple[str, str]]:
        if versions is None:
            row = self._voices().get(voice)
            versions = {} if row is None else row.versions
        return [(stage_model_name(voice, stage), str(versions.get(stage, ""))) for stage in VOICE_STAGES]

    def _shares_places(self, voice: str) -> bool:
        gates = [self._engine.gates.of(*model) for model in self._stages(voice, None)]
        return all(gate.pool is gates[0].pool for gate in gates)

    def _check(
        self,
        models: Sequence[tuple[str, str]],
        voice: str,
        chars: int,
        left_s: float | None,
        *,
        is_heard: bool = False,
    ) -> None:
        """Let in a request that goes through ``models`` one after the other, the first by the number of characters."""
        wait_s = self._wait_s(models, is_heard=is_heard)
        cost_s = self._engine.costs.predict(line_name(*models[0]), chars)
        self._refuse(queue_refusal(wait_s, cost_s, left_s, self.limits, voice))
        self._let_in_s = time.monotonic()

    def wait_s(self, entry: VoiceEntry) -> float:
        """Predicted wait of a new request for a voice or an arm, whole or as a stream: the longer of the two."""
        of_stages = self._wait_s(self._stages(entry.base, entry.versions))
        return max(self._wait_s([(entry.ensemble, "")]), of_stages)

    def _wait_s(self, models: Iterable[tuple[str, str]], *, is_heard: bool = False) -> float:
        """Predicted wait for a place in each of ``models``; once for those that share places."""
        waits: dict[int, float] = {}
        for model, version in models:
            gate = self._engine.gates.of(model, version)
            wait_s = gate.wait_s(self._engine.costs.line, is_heard=is_heard)
            waits[id(gate.pool)] = max(waits.get(id(gate.pool), 0.0), wait_s)
        return sum(waits.values())

    def _refuse(self, refusal: Unavailable | None) -> None:
        if refusal is not None:
            raise refusal

    def _count(self, voice: str, change: int) -> None:
        streams = self._active.get(voice, 0) + change
        if streams:
            self._active[voice] = streams
        else:
            self._active.pop(voice, None)
        self._show(voice, streams)

    def lets_in(self) -> bool:
        """Whether a request for at least one voice would be let in now, or one was within :data:`READY_GRACE_S`.

        True without any voice.
        """
        voices = self._voices()
        if not voices or time.monotonic() - self._let_in_s < READY_GRACE_S:
            return True
        return any(self._takes(entry.ensemble) for entry in voices.values() if not entry.voice)

    def _takes(self, voice: str) -> bool:
        full = self._engine.gates.of(voice).is_full
        return not full and queue_refusal(self._wait_s([(voice, "")]), 0.0, None, self.limits, voice) is None
