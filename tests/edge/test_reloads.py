from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.engine_client import EngineClient, ModelReloaded
from voxrepo.edge.reloads import Reloads, RunningCalls


def test_each_reload_is_told_once() -> None:
    told: list[str] = []
    reloads = Reloads(told.append, {"a": 2})
    reloads.take({"a": 2})
    reloads.take({"a": 2, "b": 1})
    reloads.take({"a": 3, "b": 1})
    reloads.take({"a": 3, "b": 1})
    assert told == ["b", "a"]


async def test_only_the_calls_of_the_model_are_let_go() -> None:
    calls = RunningCalls()
    (first, _), (second, leave), (other, _) = calls.enter("a"), calls.enter("a"), calls.enter("b")
    leave()
    assert calls.let_go("a") == 1
    assert (first.done(), second.done(), other.done()) == (True, False, False)
    assert calls.let_go("a") == 0


class SlowEngine:
    """Answers each call when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.calls = 0

    async def infer(self, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        self.calls += 1
        await self.go_on.wait()
        return pb.ModelInferResponse(model_name=request.model_name)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[tuple[SlowEngine, EngineClient]]:
    slow = SlowEngine()
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        slow.infer,
        request_deserializer=pb.ModelInferRequest.FromString,
        response_serializer=pb.ModelInferResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelInfer": handler}),)
    )
    server.add_insecure_port(f"unix:{tmp_path}/s")
    await server.start()
    client = EngineClient(f"unix:{tmp_path}/s", {"voice": 1, "other": 1}.get)
    yield slow, client
    await client.close()
    await server.stop(None)


async def until(condition: Any) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")


async def test_a_caller_of_the_model_before_is_told_and_its_place_is_free(
    engine: tuple[SlowEngine, EngineClient],
) -> None:
    slow, client = engine
    old, waiting, other = (
        asyncio.create_task(client.infer(pb.ModelInferRequest(model_name=name), None))
        for name in ("voice", "voice", "other")
    )
    await until(lambda: slow.calls == 2)
    assert client.let_go("voice") == 1
    with pytest.raises(ModelReloaded, match="voice was loaded again"):
        await old
    await until(lambda: slow.calls == 3)  # the one in line has the place
    gate = client.gates.of("voice")
    assert (gate.running, gate.draining) == (1, 1)
    slow.go_on.set()
    assert (await waiting).model_name == "voice"
    assert (await other).model_name == "other"
    await until(lambda: gate.draining == 0)
    assert gate.running == 0
    assert await client.drain(1.0)


async def test_a_call_that_has_ended_is_not_let_go(engine: tuple[SlowEngine, EngineClient]) -> None:
    slow, client = engine
    slow.go_on.set()
    await client.infer(pb.ModelInferRequest(model_name="voice"), None)
    assert client.let_go("voice") == 0
