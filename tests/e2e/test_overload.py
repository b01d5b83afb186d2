"""Four times what the server can do: those that are served hardly notice, the others know at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.calls import SENTENCES
from tests.e2e.streams import OWN_CONNECTION, metric, request_for, wait_for_quiet
from tests.harness import VOICE, RunningServer, clone_root, running_server

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

DURATION_S = 60.0
CONNECTIONS = 16
MAX_QUEUE_S = 0.15
"""A wait that is let in must be short beside an answer, if what is served is to stay quick."""
MOST_SLOWER = 2.0
REFUSED_WITHIN_S = 0.05


@pytest.fixture
def server(voice_root: Path, tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(clone_root(voice_root, tmp_path / "root"), "--max-queue", str(MAX_QUEUE_S)) as running:
        yield running


@dataclass
class Seen:
    """What clients saw: seconds of each request by what came of it."""

    served_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    other: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        def spread(seconds: list[float]) -> str:
            if not seconds:
                return "none"
            points = " ".join(f"{ms:.0f}" for ms in 1000 * np.percentile(seconds, (50, 95, 99, 100)))
            return f"{len(seconds)}, p50/p95/p99/max {points} ms"

        return f"served: {spread(self.served_s)}; refused: {spread(self.refused_s)}; other: {dict(self.other)}"


class Callers:
    """Clients on several connections that ask for a sentence each."""

    def __init__(self, server: RunningServer) -> None:
        self._channels = [
            grpc.aio.insecure_channel(server.grpc_url, options=OWN_CONNECTION) for _ in range(CONNECTIONS)
        ]
        self._calls: list[Any] = [
            channel.unary_unary(
                "/inference.GRPCInferenceService/ModelInfer",
                request_serializer=pb.ModelInferRequest.SerializeToString,
                response_deserializer=None,
            )
            for channel in self._channels
        ]
        self._order = random.Random(1)
        self.refused = 0

    async def __aenter__(self) -> Callers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def ask(self, seen: Seen) -> None:
        """One request."""
        call = self._order.choice(self._calls)
        request = request_for(self._order.choice(SENTENCES), self._order.randrange(2**31), VOICE)
        began_s = time.monotonic()
        try:
            await call(request, timeout=60)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                assert dict(error.trailing_metadata())["retry-after"]
                self.refused += 1
                seen.refused_s.append(time.monotonic() - began_s)
            else:
                seen.other[f"{error.code().name}: {error.details()}"] += 1
        else:
            seen.served_s.append(time.monotonic() - began_s)

    async def capacity(self, duration_s: float) -> float:
        """Requests per second that are answered while there is always one to go on with."""
        seen = Seen()
        end = time.monotonic() + duration_s

        async def again_and_again() -> None:
            while time.monotonic() < end:
                refused = len(seen.refused_s)
                await self.ask(seen)
                if len(seen.refused_s) > refused:
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(again_and_again() for _ in range(4)))
        print(f"capacity: {len(seen.served_s) / duration_s:.1f} requests per second; {seen}")
        return len(seen.served_s) / duration_s

    async def offer(self, per_second: float, duration_s: float) -> Seen:
        """Requests at random moments, whether or not those before are answered."""
        seen = Seen()
        asked = []
        next_s = time.monotonic()
        end = next_s + duration_s
        while next_s < end:
            await asyncio.sleep(max(next_s - time.monotonic(), 0))
            asked.append(asyncio.create_task(self.ask(seen)))
            next_s += self._order.expovariate(per_second)
        await asyncio.gather(*asked)
        print(f"{per_second:.1f} requests per second: {seen}")
        return seen


@pytest.mark.timeout(600)
def test_served_requests_stay_quick_and_the_surplus_is_refused_at_once(server: RunningServer) -> None:
    async def run() -> tuple[float, Seen, Seen, int]:
        async with Callers(server) as callers:
            await callers.capacity(5)
            capacity = await callers.capacity(15)
            usual = await callers.offer(0.8 * capacity, DURATION_S)
            overload = await callers.offer(4 * capacity, DURATION_S)
            return capacity, usual, overload, callers.refused

    capacity, usual, overload, refused = asyncio.run(run())
    assert not usual.other + overload.other
    for part in (50, 95):
        assert np.percentile(overload.served_s, part) < MOST_SLOWER * np.percentile(usual.served_s, part)
    # nearly as much is served as could be: refusing costs little
    assert len(overload.served_s) > 0.7 * capacity * DURATION_S
    assert len(overload.refused_s) > 2 * capacity * DURATION_S
    assert np.percentile(overload.refused_s, 99) < REFUSED_WITHIN_S
    wait_for_quiet(server)
    assert metric(server, "voxrepo_rejected_total", reason="queue") == refused
