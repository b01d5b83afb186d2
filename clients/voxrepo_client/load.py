"""Closed-loop load: N clients, each sending its next text as soon as its last is answered.

Run it as ``python -m voxrepo_client.load --voice en-joe --clients 8 --duration-s 30``, or call :func:`run`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxrepo_client.errors import InvalidRequest, VoxrepoClientError
from voxrepo_client.timing import StreamTiming, summarise
from voxrepo_client.timing import percentile as percentile_of
from voxrepo_client.voice import AsyncVoice

SENTENCES = (
    "The train to the coast leaves at ten past nine from platform four.",
    "Could you turn the lights down a little, please?",
    "Rain is expected in the evening, with strong wind along the hills.",
    "Your parcel has arrived and waits for you at the front desk.",
    "She opened the old book carefully and began to read aloud.",
    "We need three apples, a loaf of bread and some butter.",
    "The meeting was moved to Thursday because the room was taken.",
    "Good night, and thank you for everything you did today.",
)
"""Everyday sentences of two to five seconds, for a load without a text file."""


PAUSE_AFTER_ERROR_S = 0.01


@dataclass(frozen=True)
class Record:
    """One request; times in seconds since the measured window opened.

    Attributes:
        client: which client sent it, from 0.
        start_s: when it was sent; negative if that was during the warm-up.
        end_s: when its answer was complete.
        audio_s: length of the audio, 0 if it failed.
        error: class name of the error, ``None`` if it succeeded.
        timing: of a stream, when its pieces came; ``None`` of a unary request.
    """

    client: int
    start_s: float
    end_s: float
    audio_s: float
    error: str | None = None
    timing: StreamTiming | None = None

    @property
    def latency_s(self) -> float:
        """From sending to the complete answer."""
        return self.end_s - self.start_s


@dataclass(frozen=True)
class LoadReport:
    """What a load measured.

    Attributes:
        clients: clients at once.
        duration_s: length of the measured window.
        records: every request that ended inside the window. Load is on before and after it, so as many are cut at its
            start as at its end, and the rates are not biased.
    """

    clients: int
    duration_s: float
    records: tuple[Record, ...]

    @property
    def errors(self) -> dict[str, int]:
        """Failed requests by error class."""
        return dict(Counter(record.error for record in self.records if record.error is not None))

    def latency_s(self, percentile: float) -> float:
        """Latency below which ``percentile`` percent of the successful requests stayed (nearest rank); NaN if none."""
        return percentile_of((record.latency_s for record in self.records if record.error is None), percentile)

    def _per_second(self, amount_of: Callable[[Record], float]) -> float:
        return sum(amount_of(record) for record in self.records if record.error is None) / self.duration_s

    @property
    def audio_s_per_s(self) -> float:
        """Seconds of audio made per second."""
        return self._per_second(lambda record: record.audio_s)

    @property
    def requests_per_s(self) -> float:
        """Successful requests per second."""
        return self._per_second(lambda record: 1.0)

    def summary(self) -> dict[str, Any]:
        """The numbers worth printing, as JSON types; latencies in milliseconds, ``None`` if nothing succeeded."""

        def ms(percentile: float) -> float | None:
            latency_s = self.latency_s(percentile)
            return None if math.isnan(latency_s) else round(latency_s * 1000, 3)

        timings = [record.timing for record in self.records if record.timing is not None and record.error is None]
        return {
            "clients": self.clients,
            "duration_s": self.duration_s,
            "requests": len(self.records),
            "errors": self.errors,
            "requests_per_s": round(self.requests_per_s, 4),
            "audio_s_per_s": round(self.audio_s_per_s, 4),
            "latency_ms": {"p50": ms(50), "p90": ms(90), "p99": ms(99), "max": ms(100)},
            **({"stream": summarise(timings)} if timings else {}),
        }


async def _client(
    index: int,
    voice: AsyncVoice,
    texts: Sequence[str],
    seed: int | None,
    streams: bool,
    pause_after_error_s: float,
    opened_s: float,
    until_s: float,
) -> list[Record]:
    records: list[Record] = []
    turn = index  # clients start at different texts
    while (start_s := time.perf_counter()) < until_s:
        text = texts[turn % len(texts)]
        audio_s, error, timing = 0.0, None, None
        try:
            if streams:
                stream = voice.stream(text, seed=seed)
                audio_s = (await stream.collect()).duration_s
                timing = stream.timing
            else:
                audio_s = (await voice.synthesize(text, seed=seed)).duration_s
        except VoxrepoClientError as failure:
            error = type(failure).__name__
        records.append(Record(index, start_s - opened_s, time.perf_counter() - opened_s, audio_s, error, timing))
        turn += 1
        if error is not None:
            # a server that refuses at once would otherwise be hammered without a pause
            await asyncio.sleep(pause_after_error_s)
    return records


async def run_async(
    voice: str,
    texts: Sequence[str],
    *,
    url: str | None = None,
    clients: int = 1,
    duration_s: float = 10.0,
    warmup_s: float = 1.0,
    seed: int | None = None,
    timeout_s: float | None = None,
    stream: bool = False,
    pause_after_error_s: float = PAUSE_AFTER_ERROR_S,
) -> LoadReport:
    """Load a voice for a time and report what was measured.

    Every client has a connection of its own. Choose the warm-up and the window longer than a request takes.

    Args:
        voice: name of the voice.
        texts: spoken in turn, at least one; client ``i`` starts with the ``i``-th.
        url: see :func:`~voxrepo_client.address.parse_address`.
        clients: clients at once.
        duration_s: length of the measured window.
        warmup_s: load before it, not measured.
        seed: sent with every request; drawn by the server by default.
        timeout_s: limit for each request.
        stream: have the audio streamed; every piece is taken at once, and the times of the pieces are reported.
        pause_after_error_s: what a client waits after a failed request.

    Raises:
        InvalidRequest: an argument cannot be used. Errors of requests are counted, not raised.
    """
    if not texts:
        raise InvalidRequest("there are no texts to speak")
    if clients < 1 or not 0 < duration_s < math.inf or not 0 <= warmup_s < math.inf:
        raise InvalidRequest("clients must be at least 1, duration_s above 0 and warmup_s not negative")
    voices = [AsyncVoice(voice, url, timeout_s=timeout_s) for _ in range(clients)]

    opens_s = time.perf_counter() + warmup_s
    closes_s = opens_s + duration_s
    try:
        loops = (
            _client(index, each, texts, seed, stream, pause_after_error_s, opens_s, closes_s)
            for index, each in enumerate(voices)
        )
        records = [record for records in await asyncio.gather(*loops) for record in records]
    finally:
        for each in voices:
            await each.close()
    inside = (record for record in records if 0 <= record.end_s <= duration_s)
    return LoadReport(clients, duration_s, tuple(sorted(inside, key=lambda record: record.start_s)))


def run(voice: str, texts: Sequence[str], **options: Any) -> LoadReport:
    """:func:`run_async` for blocking code, with the same options."""
    return asyncio.run(run_async(voice, texts, **options))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns 0, or 1 if any request failed, or 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m voxrepo_client.load", description=__doc__)
    parser.add_argument("--voice", required=True, help="name of the voice")
    parser.add_argument("--url", help="grpc://host:port or http://host:port (default: VOXREPO_URL or port 8001)")
    parser.add_argument("--clients", type=int, default=8, help="clients at once (default: 8)")
    parser.add_argument("--duration-s", type=float, default=30.0, help="measured seconds (default: 30)")
    parser.add_argument("--warmup-s", type=float, default=3.0, help="seconds before that (default: 3)")
    parser.add_argument("--texts", type=Path, help="UTF-8 file, one text a line (default: eight sentences)")
    parser.add_argument("--seed", type=int, help="seed of every request (default: drawn by the server)")
    parser.add_argument("--timeout-s", type=float, help="limit for each request (default: none)")
    parser.add_argument("--stream", action="store_true", help="stream, and report first pieces, gaps and underruns")
    options = parser.parse_args(arguments)
    try:
        texts: Sequence[str] = SENTENCES
        if options.texts is not None:
            texts = [t for line in options.texts.read_text("utf-8").splitlines() if (t := line.strip())]
        report = run(
            options.voice,
            texts,
            url=options.url,
            clients=options.clients,
            duration_s=options.duration_s,
            warmup_s=options.warmup_s,
            seed=options.seed,
            timeout_s=options.timeout_s,
            stream=options.stream,
        )
    except (InvalidRequest, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(report.summary()) + "\n")
    return 1 if report.errors else 0


if __name__ == "__main__":
    sys.exit(main())
