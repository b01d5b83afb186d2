"""Clients that leave in the middle of a stream take nothing with them and cost those that stay nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import grpc.aio
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.calls import SENTENCES, Audio
from tests.e2e.streams import OWN_CONNECTION, SERVICE_METHOD, STREAM, metric, request_for, samples_of, wait_for_quiet
from tests.harness import VOICE, RunningServer, clone_root, running_server

pytestmark = pytest.mark.e2e

LISTENED = " ".join(SENTENCES[:3])
LEFT = " ".join(SENTENCES[3:9])
"""Long enough that the server has not sent all of it when the first piece is there."""
SEED = 7
MOST_SLOWER = 1.2


@pytest.fixture
def server(voice_root: Path, tmp_path: Path) -> Iterator[RunningServer]:
    # a server of its own: its counts are exact. Nobody is refused: whether real time is kept is not the question
    with running_server(
        clone_root(voice_root, tmp_path / "root"), *("--max-queue", "0", "--max-utilisation", "0")
    ) as running:
        yield running


@dataclass(frozen=True)
class Held:
    """What a server holds of the machine.

    Attributes:
        threads: of each process by its part in the server.
        sockets: likewise.
        files: open files, likewise.
        regions: names of shared memory.
    """

    threads: dict[str, int]
    sockets: dict[str, int]
    files: dict[str, int]
    regions: frozenset[str]

    @staticmethod
    def by(server: RunningServer) -> Held:
        """Count now."""
        state = server.read_state()
        names = {server.process.pid: "supervisor", state["engine_pid"]: "engine"}
        names |= {worker["pid"]: f"edge {number}" for number, worker in enumerate(state["edge_workers"])}
        threads, sockets, files = {}, {}, {}
        for process in server.tree():
            name = names.get(process.pid, f"{process.name()} {process.pid}")
            threads[name] = process.num_threads()
            sockets[name] = len(process.net_connections("all"))
            files[name] = process.num_fds()
        regions = frozenset(region.name for region in Path("/dev/shm").glob(f"{server.workspace.shm_prefix}*"))
        return Held(threads, sockets, files, regions)

    def more_than(self, before: Held, spare_threads: int) -> dict[str, str]:
        """What is held now and was not before; empty if there is nothing."""
        found = {}
        for kind, spare in (("threads", spare_threads), ("sockets", 0), ("files", 0)):
            now, then = getattr(self, kind), getattr(before, kind)
            for name, count in now.items():
                if count > then.get(name, 0) + spare:
                    found[f"{kind} of {name}"] = f"{then.get(name)} -> {count}"
        for region in self.regions - before.regions:
            found[region] = "new"
        return found


async def over_grpc(server: RunningServer, text: str, leaves: bool) -> list[Audio]:
    """Pieces of a stream over a connection of its own."""
    pieces = []
    async with grpc.aio.insecure_channel(server.grpc_url, options=OWN_CONNECTION) as channel:
        call = channel.stream_stream(
            SERVICE_METHOD,
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )(iter([request_for(text, SEED)]))
        async for message in call:
            assert not message.error_message
            pieces.append(samples_of(message.infer_response))
            if leaves:
                call.cancel()
                break
    return pieces


async def over_http(server: RunningServer, text: str, leaves: bool) -> list[Audio]:
    """Likewise."""
    pieces = []
    url = f"http://{server.http_url}/v2/models/{STREAM}/generate_stream"
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session,
        session.post(url, json={"text": text, "seed": SEED}) as answer,
    ):
        assert answer.status == 200
        async for line in answer.content:
            if line.strip():
                event = json.loads(line.removeprefix(b"data: "))
                assert "error" not in event
                pieces.append(np.array(event["audio"], np.int16))
                if leaves:
                    answer.close()
                    break
    return pieces


async def audience(server: RunningServer, clients: int, text_of_others: str | None = LEFT) -> tuple[float, float]:
    """Half of ``clients`` hear a text to its end, the others leave after the first piece of theirs.

    Args:
        server: the server.
        clients: how many come, all at once, over both doors.
        text_of_others: what those that leave ask for; None: all of them want to hear one piece and get no more.

    Returns:
        seconds until those that stayed had heard all: on average, and the last.
    """
    began_s = time.monotonic()
    stays: list[float] = []

    async def stay(number: int) -> Audio:
        pieces = await (over_grpc, over_http)[number % 2](server, LISTENED, False)
        stays.append(time.monotonic() - began_s)
        return np.concatenate(pieces)

    async def leave(number: int) -> None:
        text = "Yes." if text_of_others is None else text_of_others
        pieces = await (over_grpc, over_http)[number % 2](server, text, text_of_others is not None)
        assert len(pieces) == 1

    stayed, _ = await asyncio.gather(
        asyncio.gather(*(stay(number) for number in range(clients // 2))),
        asyncio.gather(*(leave(number) for number in range(clients // 2))),
    )
    for audio in stayed:
        np.testing.assert_array_equal(audio, stayed[0])
    return float(np.mean(stays)), max(stays)


def streams_counted(server: RunningServer, outcome: str) -> float:
    return metric(server, "voxrepo_requests_total", model=STREAM, outcome=outcome)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "clients", [pytest.param(24, marks=pytest.mark.soak), pytest.param(100, marks=pytest.mark.soak)]
)
def test_who_leaves_leaves_nothing_behind(server: RunningServer, clients: int) -> None:
    asyncio.run(audience(server, clients))
    wait_for_quiet(server)
    before = Held.by(server)
    restarts = {key: server.read_state()[key] for key in ("engine_pid", "engine_restarts", "edge_restarts")}
    rounds = 2
    for _ in range(rounds):
        asyncio.run(audience(server, clients))
    wait_for_quiet(server)
    left = {}
    for _ in range(50):  # closed connections take the server a moment
        left = Held.by(server).more_than(before, spare_threads=2)
        if not left:
            break
        time.sleep(0.1)
    assert not left
    assert {key: server.read_state()[key] for key in restarts} == restarts
    # each request is counted once, as what it was
    half = (rounds + 1) * clients // 2
    assert streams_counted(server, "ok") == half
    assert streams_counted(server, "cancelled") == half
    assert metric(server, "voxrepo_requests_total", model=STREAM) == 2 * half
    assert metric(server, "voxrepo_first_piece_seconds_count", model=STREAM) == 2 * half
    assert metric(server, "voxrepo_request_duration_seconds_count", model=STREAM) == 2 * half
    pieces, gaps = metric(server, "voxrepo_pieces_total"), metric(server, "voxrepo_piece_gap_seconds_count")
    assert pieces == gaps + 2 * half
    # the engine made no more for those that left than what was under way
    per_leaver = (vocoder_calls(server) - half * pieces_of(server, LISTENED)) / half
    print(f"vocoder calls for a client that left: {per_leaver:.2f} of {pieces_of(server, LEFT)}")
    assert 1 <= per_leaver <= 3.5


def vocoder_calls(server: RunningServer) -> float:
    return metric(server, "voxrepo_queue_seconds_count", model=f"{VOICE}.vocoder")


def pieces_of(server: RunningServer, text: str) -> int:
    return len(asyncio.run(over_grpc(server, text, False)))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_those_that_stay_are_as_fast_as_if_the_others_had_wanted_one_piece_only(server: RunningServer) -> None:
    clients = 100
    asyncio.run(audience(server, clients))
    leaving, content = [], []
    for _ in range(4):
        leaving.append(asyncio.run(audience(server, clients)))
        wait_for_quiet(server)
        content.append(asyncio.run(audience(server, clients, None)))
        wait_for_quiet(server)
    for number, name in enumerate(("mean", "last")):
        with_leavers, without = (min(times[number] for times in found) for found in (leaving, content))
        print(f"{name}: {with_leavers:.2f} s beside clients that leave, {without:.2f} s beside those with one piece")
        assert with_leavers < MOST_SLOWER * without
