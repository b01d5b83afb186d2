from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from voxrepo.supervisor.pulse import LONGEST_STEP_S, Pulse, Silence


def test_silence_grows_until_an_answer_comes() -> None:
    silence = Silence()
    for tenth in range(11):
        silence.step(100 + tenth / 10, False)
    assert silence.lasts_s == pytest.approx(1.0)
    silence.step(101.1, True)
    assert silence.lasts_s == 0


def test_time_in_which_nobody_looked_does_not_count() -> None:
    silence = Silence()
    silence.step(0.0, False)
    silence.step(3600.0, False)
    assert silence.lasts_s == LONGEST_STEP_S


class Engine(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers ``ServerLive``, or lets callers wait."""

    def __init__(self) -> None:
        self.hangs_s = 0.0

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        assert details.method == "/inference.GRPCInferenceService/ServerLive"
        return grpc.unary_unary_rpc_method_handler(
            self._live,
            request_deserializer=pb.ServerLiveRequest.FromString,
            response_serializer=pb.ServerLiveResponse.SerializeToString,
        )

    def _live(self, request: Any, context: grpc.ServicerContext) -> Any:
        time.sleep(self.hangs_s)
        return pb.ServerLiveResponse(live=True)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/s"


@pytest.fixture
def engine(target: str) -> Iterator[Engine]:
    engine = Engine()
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((engine,))
    server.add_insecure_port(target)
    server.start()
    yield engine
    server.stop(None).wait()


@pytest.fixture
def pulse(target: str) -> Iterator[Pulse]:
    pulse = Pulse(target, patience_s=1.5)
    yield pulse
    pulse.close()


def hangs_within(pulse: Pulse, time_s: float) -> bool:
    end = time.monotonic() + time_s
    while time.monotonic() < end:
        if pulse.step(time.monotonic()):
            return True
        time.sleep(0.05)
    return False


def test_an_engine_that_answers_does_not_hang(engine: Engine, pulse: Pulse) -> None:
    assert not hangs_within(pulse, 2.5)
    assert pulse.silence_s < 1.5


def test_an_engine_that_stops_answering_hangs_after_the_patience(engine: Engine, pulse: Pulse) -> None:
    assert not hangs_within(pulse, 0.5)
    engine.hangs_s = 3.0
    started = time.monotonic()
    assert hangs_within(pulse, 4.0)
    assert time.monotonic() - started > 0.4  # the last answer may have been a second ago


def test_an_engine_that_nobody_can_reach_hangs_too(pulse: Pulse) -> None:
    assert hangs_within(pulse, 3.0)
