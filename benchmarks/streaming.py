"""First audio, cost of a piece and keeping ahead of playback, against whole answers and Piper in the same run.

``python -m benchmarks.streaming [--root ROOT] [--rounds 3]``. Streams and unary requests are measured in turn, round
by round, on one server, and medians are printed, so that a slow minute of the machine meets both; likewise Piper's own
sentence streaming with the same voice file, in a process of its own. Nothing passes or fails here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from voxrepo_client import AsyncVoice, StreamTiming
from voxrepo_client.timing import percentile

from benchmarks.piper import PiperProcess
from tests.harness import RunningServer, clone_root, running_server

VOICE = "en-joe"
STREAMS = (1, 4, 8)
SENTENCE = "The boat arrived at noon, and everybody in the small town went down to the harbour. "
"""About five seconds."""
TEXTS = {
    "3 s": "The boat arrived at noon, and everybody went home again.",
    "10 s": SENTENCE * 2,
    "30 s": SENTENCE * 6,
}
LENGTHS = (1, 2, 6, 18)
"""Sentences of the texts over which the first piece should stay as it is."""
LETS_ALL_IN = ("--max-utilisation", "0", "--max-queue", "0")
"""Options of the server: a busy machine makes the numbers worse and does not end the run."""
FIRST_AND_LAST = ("first p50", "first p95", "last p50", "RTF")


async def streamed(voices: list[AsyncVoice], text: str) -> list[StreamTiming]:
    """One stream of each voice object, all at once."""

    async def one(voice: AsyncVoice) -> StreamTiming:
        stream = voice.stream(text)
        await stream.collect()
        return stream.timing

    return await asyncio.gather(*map(one, voices))


async def whole(voices: list[AsyncVoice], text: str) -> list[tuple[float, float]]:
    """One unary request of each voice object, all at once: seconds until the answer, seconds of audio."""

    async def one(voice: AsyncVoice) -> tuple[float, float]:
        start_s = time.perf_counter()
        speech = await voice.synthesize(text)
        return time.perf_counter() - start_s, speech.duration_s

    return await asyncio.gather(*map(one, voices))


def milliseconds(value_s: float) -> str:
    """For a table."""
    return f"{value_s * 1000:.0f}"


async def against_unary(voices: list[AsyncVoice], rounds: int, counts: Sequence[int]) -> Table:
    """First piece of a stream and the whole answer of a unary request, by text and number at once."""
    streams: dict[tuple[str, int], list[StreamTiming]] = defaultdict(list)
    answers: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for _ in range(rounds):
        for name, text in TEXTS.items():
            for count in counts:
                streams[name, count] += await streamed(voices[:count], text)
                answers[name, count] += await whole(voices[:count], text)
    table = Table(title=f"{VOICE}, {os.cpu_count()} cores, {rounds} rounds, gRPC; times in ms")
    for column in (
        *("text", "at once", "audio s", "first p50", "first p95", "unary p50", "first / unary"),
        *("last p50", "gap p99", "underruns", "worst lag", "RTF"),
    ):
        table.add_column(column, justify="right")
    for (name, count), timings in streams.items():
        firsts_s = [timing.first_piece_s for timing in timings]
        unary_s = statistics.median(answer[0] for answer in answers[name, count])
        gaps_s = [gap for timing in timings for gap in timing.gaps_s]
        lags_s = [timing.worst_lag_s for timing in timings if len(timing.arrivals_s) > 1]
        table.add_row(
            name,
            str(count),
            f"{statistics.mean(timing.audio_s for timing in timings):.1f}",
            milliseconds(statistics.median(firsts_s)),
            milliseconds(percentile(firsts_s, 95)),
            milliseconds(unary_s),
            f"{statistics.median(firsts_s) / unary_s:.2f}",
            milliseconds(statistics.median(timing.arrivals_s[-1] for timing in timings)),
            milliseconds(percentile(gaps_s, 99)) if gaps_s else "",
            str(sum(timing.underruns for timing in timings)),
            milliseconds(max(lags_s)) if lags_s else "",
            f"{statistics.median(timing.real_time_factor for timing in timings):.2f}",
        )
    return table


async def against_piper(
    voices: list[AsyncVoice], rounds: int, counts: Sequence[int], piper: PiperProcess, threads: int
) -> Table:
    """First piece of a stream and first sentence of Piper's, by text and number at once."""
    ours: dict[tuple[str, int], list[StreamTiming]] = defaultdict(list)
    theirs: dict[tuple[str, int], list[StreamTiming]] = defaultdict(list)
    for _ in range(rounds):
        for name, text in TEXTS.items():
            for count in counts:
                ours[name, count] += await streamed(voices[:count], text)
                theirs[name, count] += piper.streamed(text, count)
    title = f"against Piper's sentence streaming, same voice file, {threads} threads, {rounds} rounds; times in ms"
    table = Table(title=title)
    for column in (
        "text",
        "at once",
        *FIRST_AND_LAST,
        *(f"Piper's {each}" for each in FIRST_AND_LAST),
        "first / first",
    ):
        table.add_column(column, justify="right")
    for (name, count), timings in ours.items():
        cells: list[str] = []
        for each in (timings, theirs[name, count]):
            firsts_s = [timing.first_piece_s for timing in each]
            cells += [
                milliseconds(statistics.median(firsts_s)),
                milliseconds(percentile(firsts_s, 95)),
                milliseconds(statistics.median(timing.arrivals_s[-1] for timing in each)),
                f"{statistics.median(timing.real_time_factor for timing in each):.2f}",
            ]
        table.add_row(name, str(count), *cells, f"{float(cells[0]) / float(cells[4]):.2f}")
    return table


async def by_length(voice: AsyncVoice, rounds: int) -> Table:
    """First piece and total of one stream, by the length of its text."""
    timings: dict[int, list[StreamTiming]] = defaultdict(list)
    for _ in range(rounds):
        for sentences in LENGTHS:
            timings[sentences] += await streamed([voice], SENTENCE * sentences)
    table = Table(title="first audio against the length of the text, one stream; times in ms")
    for column in ("characters", "audio s", "first p50", "first max", "last p50"):
        table.add_column(column, justify="right")
    for sentences, each in timings.items():
        table.add_row(
            str(len(SENTENCE) * sentences),
            f"{each[0].audio_s:.1f}",
            milliseconds(statistics.median(timing.first_piece_s for timing in each)),
            milliseconds(max(timing.first_piece_s for timing in each)),
            milliseconds(statistics.median(timing.arrivals_s[-1] for timing in each)),
        )
    return table


async def by_position(voice: AsyncVoice, rounds: int) -> Table:
    """Time per second of audio, by where in a long stream a piece lies."""
    timings = [timing for _ in range(rounds) for timing in await streamed([voice], SENTENCE * LENGTHS[-1])]
    tenths: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for timing in timings:
        count = len(timing.pieces_s)
        for index in range(1, count):  # the first has the front end in it
            tenths[index * 10 // count].append((index, timing.gaps_s[index - 1], timing.pieces_s[index]))
    table = Table(title=f"cost of a piece by its position, one stream of {timings[0].audio_s:.0f} s of audio")
    for column in ("pieces", "gap p50 ms", "gap max ms", "ms per second of audio"):
        table.add_column(column, justify="right")
    for rows in tenths.values():
        gaps_s = [row[1] for row in rows]
        table.add_row(
            f"{min(row[0] for row in rows) + 1:.0f} to {max(row[0] for row in rows) + 1:.0f}",
            milliseconds(statistics.median(gaps_s)),
            milliseconds(max(gaps_s)),
            f"{sum(gaps_s) * 1000 / sum(row[2] for row in rows):.1f}",
        )
    return table


async def measure(
    server: RunningServer, rounds: int, counts: Sequence[int], piper_threads: int, console: Console
) -> None:
    """Measure and print the tables."""
    voices = [AsyncVoice(VOICE, f"grpc://{server.grpc_url}", timeout_s=300) for _ in range(max(counts))]
    cold = (await streamed(voices[:1], TEXTS["10 s"]))[0]
    console.print(f"first stream of the server: first piece after {milliseconds(cold.first_piece_s)} ms")
    await streamed(voices, TEXTS["3 s"])
    try:
        console.print(await by_length(voices[0], rounds))
        console.print(await by_position(voices[0], rounds))
        console.print(await against_unary(voices, rounds, counts))
        with PiperProcess(piper_threads) as piper:
            console.print(await against_piper(voices, rounds, counts, piper, piper_threads))
    finally:
        for voice in voices:
            await voice.close()


def main() -> None:
    """Start the server, measure and print the tables."""
    parser: Any = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="root with the voice en-joe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS, help="numbers at once (default: 1 4 8)")
    parser.add_argument("--piper-threads", type=int, default=2, help="of Piper's graph (default: 2)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.root) as scratch:
        root = clone_root(options.root, Path(scratch) / "root")
        with running_server(root, *LETS_ALL_IN) as server:
            asyncio.run(measure(server, options.rounds, options.streams, options.piper_threads, Console(width=140)))


if __name__ == "__main__":
    main()
