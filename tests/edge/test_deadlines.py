"""Callers that run out of time or leave are answered at once; the engine never learns of it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
import tritonclient.grpc as tg
from tritonclient.grpc import service_pb2_grpc as rpc
from tritonclient.utils import InferenceServerException

from .harness import EdgeProcess, Engine, wait_until
from .test_bad_input import error_of, grpc_request, http_call


@pytest.fixture
def fresh(engine: Engine, tmp_path: Path) -> Iterator[EdgeProcess]:
    running = EdgeProcess(engine.target, tmp_path)
    yield running
    assert running.stop() == 0, running.log()[-3000:]
    assert "Traceback" not in running.log(), running.log()[-3000:]


def infer(edge: EdgeProcess, text: str, timeout_s: float | None = None, **options: Any) -> Any:
    tensor = tg.InferInput("text", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[text]], dtype=np.object_))
    with tg.InferenceServerClient(edge.grpc) as client:
        return client.infer("en-test", [tensor], client_timeout=timeout_s, **options)


def wait_for_drain(edge: EdgeProcess) -> None:
    wait_until(lambda: edge.metric("voxrepo_engine_calls") == 0, "the end of the engine's calls")
    assert edge.metric("voxrepo_draining") == 0
    assert edge.metric("voxrepo_in_flight") == 0


def test_a_grpc_deadline_is_answered_in_time_and_the_call_drains(fresh: EdgeProcess) -> None:
    started = time.monotonic()
    with pytest.raises(InferenceServerException) as caught:
        infer(fresh, "sleep 1500", timeout_s=0.2)
    assert time.monotonic() - started < 1
    assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    wait_until(lambda: fresh.metric("voxrepo_draining") == 1, "draining", 1)
    assert fresh.metric("voxrepo_in_flight") == 0
    wait_for_drain(fresh)
    counted = fresh.metric("voxrepo_requests_total", outcome="timed_out", code="DEADLINE_EXCEEDED", model="en-test")
    assert counted == 1 == fresh.metric("voxrepo_requests_total")


def test_the_timeout_parameter_is_a_deadline_over_both_protocols(fresh: EdgeProcess) -> None:
    started = time.monotonic()
    with pytest.raises(InferenceServerException) as caught:
        infer(fresh, "sleep 1500", timeout=150_000)
    assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    assert "timed out after 150 ms" in str(caught.value)
    body = json.dumps({"text": "sleep 1500", "timeout": 150_000}).encode()
    answer = http_call(fresh, "/v2/models/en-test/generate", body)
    assert error_of(answer) == (503, "timed out after 150 ms")
    assert "Retry-After" not in answer[1]
    assert time.monotonic() - started < 1.4
    assert fresh.metric("voxrepo_requests_total", outcome="timed_out") == 2
    wait_for_drain(fresh)


def test_a_long_enough_timeout_changes_nothing(fresh: EdgeProcess) -> None:
    plain = infer(fresh, "hi", request_id="a").get_response()
    limited = infer(fresh, "hi", request_id="a", timeout=20_000_000).get_response()
    assert [o.name for o in plain.outputs] == [o.name for o in limited.outputs]


def test_a_cancelled_grpc_call_is_counted_and_drained(fresh: EdgeProcess) -> None:
    with grpc.insecure_channel(fresh.grpc) as channel:
        call = rpc.GRPCInferenceServiceStub(channel).ModelInfer.future(grpc_request(text=b"sleep 1000"))
        wait_until(lambda: fresh.metric("voxrepo_engine_calls") == 1, "the call")
        call.cancel()
        wait_until(lambda: fresh.metric("voxrepo_draining") == 1, "draining", 2)
    assert fresh.metric("voxrepo_in_flight") == 0
    assert fresh.metric("voxrepo_requests_total", outcome="cancelled", code="CANCELLED", protocol="grpc") == 1
    wait_for_drain(fresh)


def test_a_closed_http_connection_is_counted_and_drained(fresh: EdgeProcess) -> None:
    body = b'{"text": "sleep 1000"}'
    head = b"POST /v2/models/en-test/generate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", fresh.http_port)) as raw:
        raw.sendall(head + body)
        wait_until(lambda: fresh.metric("voxrepo_engine_calls") == 1, "the call")
    wait_until(lambda: fresh.metric("voxrepo_draining") == 1, "draining", 2)
    assert fresh.metric("voxrepo_requests_total", outcome="cancelled", protocol="generate") == 1
    wait_for_drain(fresh)


def test_a_stream_closed_by_its_client_cancels_what_it_asked_for(fresh: EdgeProcess) -> None:
    def requests() -> Iterator[Any]:
        yield grpc_request(text=b"sleep 800")
        yield grpc_request(text=b"sleep 800")
        threading.Event().wait(5)

    with grpc.insecure_channel(fresh.grpc) as channel:
        call = rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(requests())
        wait_until(lambda: fresh.metric("voxrepo_engine_calls") == 2, "the calls")
        call.cancel()
        wait_until(lambda: fresh.metric("voxrepo_draining") == 2, "draining", 2)
    assert fresh.metric("voxrepo_requests_total", outcome="cancelled", protocol="grpc_stream") == 2
    wait_for_drain(fresh)


def test_a_full_queue_is_503_with_retry_after(edge: EdgeProcess) -> None:
    answers: list[tuple[int, dict[str, str], bytes]] = []

    def call() -> None:
        answers.append(http_call(edge, "/v2/models/en-narrow/generate", b'{"text": "sleep 300"}'))

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sorted(status for status, _, _ in answers)
    assert statuses[0] == 200
    assert statuses[-1] == 503
    rejected = next(answer for answer in answers if answer[0] == 503)
    assert error_of(rejected)[1] == "the queue is full; try again in a moment"
    assert rejected[1]["Retry-After"] == "1"


def test_calls_beyond_the_bound_wait_at_the_edge_and_those_given_up_never_start(engine: Engine, tmp_path: Path) -> None:
    edge = EdgeProcess(engine.target, tmp_path, "--max-engine-calls", "2")

    def executions() -> int:
        with tg.InferenceServerClient(edge.grpc) as client:
            return int(client.get_inference_statistics("en-test").model_stats[0].inference_count)

    try:
        before = executions()
        for _ in range(2):
            with pytest.raises(InferenceServerException):
                infer(edge, "sleep 1000", timeout_s=0.1)
        for _ in range(5):
            started = time.monotonic()
            with pytest.raises(InferenceServerException) as caught:
                infer(edge, "too late", timeout_s=0.1)
            assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
            assert time.monotonic() - started < 0.5
        # in line behind the two that drain, and answered as soon as one of them ends
        infer(edge, "hi")
        wait_for_drain(edge)
        assert executions() - before == 3
        assert edge.metric("voxrepo_waiting") == 0
    finally:
        assert edge.stop() == 0


def test_a_storm_of_deadlines_and_cancels_leaves_edge_and_engine_healthy(fresh: EdgeProcess, engine: Engine) -> None:
    seconds = 10.0
    ends_s = time.monotonic() + seconds
    calls = [0] * 24

    def with_deadlines(index: int) -> None:
        with grpc.insecure_channel(fresh.grpc, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            while time.monotonic() < ends_s:
                try:
                    stub.ModelInfer(grpc_request(text=b"sleep 3"), timeout=0.001 * (1 + calls[index] % 12))
                except grpc.RpcError as error:
                    # CANCELLED: the server side of gRPC may notice the deadline first and reset the call
                    assert error.code().name in ("DEADLINE_EXCEEDED", "UNAVAILABLE", "CANCELLED"), error
                calls[index] += 1

    def with_cancels(index: int) -> None:
        with grpc.insecure_channel(fresh.grpc, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            while time.monotonic() < ends_s:
                call = stub.ModelInfer.future(grpc_request(text=b"sleep 3"))
                time.sleep(0.001 * (1 + calls[index] % 12))
                call.cancel()
                calls[index] += 1

    process, engine_pid = psutil.Process(fresh.process.pid), engine.pid
    threads = [
        threading.Thread(target=with_deadlines if index < 12 else with_cancels, args=(index,)) for index in range(24)
    ]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 3)
    early_bytes = process.memory_info().rss
    for thread in threads:
        thread.join()
    late_bytes = process.memory_info().rss
    assert sum(calls) > 500
    wait_for_drain(fresh)
    assert engine.is_alive()
    assert engine.pid == engine_pid
    # arenas of the allocator come and go, and so do calls that gRPC holds until a starved process takes them
    assert late_bytes - early_bytes < 150_000_000
    answer = infer(fresh, "hello", timeout_s=10, request_id="after")
    assert answer.get_response().id == "after"
    assert answer.as_numpy("audio").shape == (1, 400)
    assert fresh.metric("voxrepo_requests_total", outcome="failed") == 0
    connection = http.client.HTTPConnection("127.0.0.1", fresh.http_port)
    connection.request("GET", "/v2/health/ready")
    assert connection.getresponse().status == 200
    connection.close()
