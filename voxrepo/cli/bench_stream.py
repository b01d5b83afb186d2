"""What ``voxrepo bench stream`` measures: one stream at a time, then numbers of streams at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from voxrepo_client import AsyncVoice, ServerBusy, StreamTiming
from voxrepo_client.load import SENTENCES, LoadReport, run_async
from voxrepo_client.timing import percentiles_ms, summarise

TEXTS = tuple(" ".join((SENTENCES * 2)[index : index + 3]) for index in range(len(SENTENCES)))
"""English texts of about ten seconds."""

STREAMS_IN_WINDOW = 2.0
"""Of each client, at least, where the server makes N streams at once in N times the time of one."""

PAUSE_AFTER_ERROR_S = 0.25  # refused streams must not keep the server from the others
REFUSED = ServerBusy.__name__


@dataclass(frozen=True)
class Alone:
    """One stream at a time.

    Attributes:
        cold: the run's first stream, on a new connection.
        warm: those after it, on the same connection.
        whole_s: time of a whole (unary) answer to the same text, sent in turn with each warm stream.
    """

    cold: StreamTiming
    warm: tuple[StreamTiming, ...]
    whole_s: tuple[float, ...]

    @property
    def first_by_whole(self) -> float:
        """Median time of a warm first piece by that of a whole answer."""
        return statistics.median(each.first_piece_s for each in self.warm) / statistics.median(self.whole_s)

    def summary(self) -> dict[str, Any]:
        """The numbers, as JSON types; times in milliseconds."""
        warm = summarise(self.warm)
        return {
            "rounds": len(self.warm),
            "audio_s": round(statistics.mean(each.audio_s for each in self.warm), 3),
            "cold_first_piece_ms": round(self.cold.first_piece_s * 1000, 3),
            "warm_first_piece_ms": warm["first_piece_ms"],
            "whole_answer_ms": percentiles_ms(self.whole_s),
            "first_piece_by_whole_answer": round(self.first_by_whole, 4),
        }


def load_summary(report: LoadReport) -> dict[str, Any]:
    """The numbers of one load, as JSON types; times in milliseconds, ``None`` where no stream came to its end."""
    records = [record for record in report.records if record.error is None]
    timings = [record.timing for record in records if record.timing is not None]
    measured = summarise(timings)
    errors = report.errors
    return {
        "streams": report.clients,
        "duration_s": report.duration_s,
        "finished": measured.pop("streams"),
        "refused": errors.pop(REFUSED, 0),
        "failed": errors,
        "audio_s_per_s": round(report.audio_s_per_s, 4),
        "total_ms": percentiles_ms([record.latency_s for record in records]),
        **measured,
    }


@dataclass(frozen=True)
class StreamBench:
    """Everything that was measured.

    Attributes:
        voice: who spoke.
        url: the server.
        alone: one stream at a time.
        loads: streams at once, by their number.
    """

    voice: str
    url: str
    alone: Alone
    loads: tuple[LoadReport, ...]

    @property
    def failed(self) -> dict[str, int]:
        """Streams that failed for another reason than a full server, by error class."""
        counts: dict[str, int] = {}
        for report in self.loads:
            for name, count in report.errors.items():
                if name != REFUSED:
                    counts[name] = counts.get(name, 0) + count
        return counts

    def summary(self) -> dict[str, Any]:
        """The numbers, as JSON types."""
        return {
            "voice": self.voice,
            "url": self.url,
            "alone": self.alone.summary(),
            "loads": [load_summary(report) for report in self.loads],
        }


async def measure_alone(voice: AsyncVoice, texts: Sequence[str], rounds: int) -> Alone:
    """A first stream, then a warm stream and a whole answer in turn, ``rounds`` times.

    Raises:
        VoxrepoClientError: a request failed.
    """
    stream = voice.stream(texts[0])
    await stream.collect()
    cold = stream.timing
    warm: list[StreamTiming] = []
    whole_s: list[float] = []
    for turn in range(rounds):
        text = texts[turn % len(texts)]
        stream = voice.stream(text)
        await stream.collect()
        warm.append(stream.timing)
        start_s = time.perf_counter()
        await voice.synthesize(text)
        whole_s.append(time.perf_counter() - start_s)
    return Alone(cold, tuple(warm), tuple(whole_s))


def window_s(stream_s: float, duration_s: float, warmup_s: float) -> tuple[float, float]:
    """Seconds to measure, and seconds of load before that.

    Args:
        stream_s: what a stream is expected to take among the others.
        duration_s: measured at least.
        warmup_s: before that at least, unless 0: until the clients have come out of step.
    """
    return max(duration_s, STREAMS_IN_WINDOW * stream_s), max(warmup_s, stream_s) if warmup_s else 0.0


async def measure(
    voice: str,
    texts: Sequence[str],
    *,
    url: str | None,
    counts: Sequence[int],
    rounds: int,
    duration_s: float,
    warmup_s: float,
    timeout_s: float | None,
    on_step: Callable[[str], None],
) -> StreamBench:
    """Measure one stream at a time, then each number of streams at once.

    Args:
        voice: name of the voice.
        texts: spoken in turn.
        url: as of :class:`voxrepo_client.Voice`.
        counts: numbers of streams at once, each with a connection of its own that sends its next text at once.
        rounds: streams of the first part.
        duration_s: measured window, longer where so few streams would end in it (:func:`window_s`).
        warmup_s: load before it, likewise.
        timeout_s: limit for each stream.
        on_step: told what is measured next.

    Raises:
        VoxrepoClientError: a request of the first part failed; under load failures are counted.
    """
    on_step(f"one stream at a time, {rounds} rounds")
    connected = AsyncVoice(voice, url, timeout_s=timeout_s)
    try:
        alone = await measure_alone(connected, texts, rounds)
    finally:
        await connected.close()
    loads: list[LoadReport] = []
    for count in counts:
        stream_s = count * statistics.median(alone.whole_s)
        measured_s, before_s = window_s(stream_s, duration_s, warmup_s)
        on_step(f"{count} at once, {measured_s + before_s:.0f} s")
        loads.append(
            await run_async(
                voice,
                texts,
                url=url,
                clients=count,
                duration_s=measured_s,
                warmup_s=before_s,
                timeout_s=timeout_s,
                stream=True,
                pause_after_error_s=PAUSE_AFTER_ERROR_S,
            )
        )
    return StreamBench(voice, str(connected.address), alone, tuple(loads))


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def sentence(alone: Alone) -> str:
    """The first part, for people."""
    told = alone.summary()
    warm, whole = told["warm_first_piece_ms"], told["whole_answer_ms"]
    return (
        f"one stream at a time, {told['rounds']} of {told['audio_s']:.1f} s on average: first piece after "
        f"{told['cold_first_piece_ms']:.0f} ms on a new connection, then p50 {warm['p50']:.0f} ms, p99 "
        f"{warm['p99']:.0f} ms; whole answer p50 {whole['p50']:.0f} ms (first piece / whole answer "
        f"{alone.first_by_whole:.2f})"
    )


def table(bench: StreamBench) -> Table:
    """The second part, for people."""
    shown = Table(
        title=f"{bench.voice}: streams at once; times in ms",
        caption="worst lag: how late a piece came for playback; stalled: streams in which any was late",
    )
    for column in (
        *("streams", "audio s/s", "first p50", "first p99", "gap p50", "gap p99", "worst lag", "stalled"),
        *("total p50", "RTF p50", "finished", "refused", "failed"),
    ):
        shown.add_column(column, justify="right")
    for row in map(load_summary, bench.loads):
        shown.add_row(
            str(row["streams"]),
            _number(row["audio_s_per_s"], 1),
            *(_number(row[key][each]) for key in ("first_piece_ms", "gap_ms") for each in ("p50", "p99")),
            _number(row["worst_lag_ms"]),
            str(row["streams_with_underruns"]),
            _number(row["total_ms"]["p50"]),
            _number(row["real_time_factor"]["p50"], 2),
            str(row["finished"]),
            str(row["refused"]),
            str(sum(row["failed"].values())),
        )
    return shown
