"""Streams of a voice as clients hear them, and what the server says of them."""

from __future__ import annotations

import json
import queue
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.calls import Audio, inputs_for, speak
from tests.harness import VOICE, RunningServer

STREAM = f"{VOICE}.stream"
SERVICE_METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""Without it all gRPC clients of this process share one connection."""
BUSY_GAUGES = (
    "voxrepo_in_flight",
    "voxrepo_engine_calls",
    "voxrepo_draining",
    "voxrepo_waiting",
    "voxrepo_active_streams",
)


@dataclass
class Heard:
    """A stream's pieces, and seconds from the request to each."""

    pieces: list[Audio]
    at_s: list[float]
    parameters: dict[str, Any]

    @property
    def joined(self) -> Audio:
        return np.concatenate(self.pieces)


def listen(server: RunningServer, text: str, model: str = STREAM, **options: Any) -> Heard:
    """All pieces of a stream, over gRPC, through an unmodified tritonclient."""
    answers: queue.Queue[tuple[float, Any, Any]] = queue.Queue()
    heard = Heard([], [], {})
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        client.start_stream(lambda result, error: answers.put((time.monotonic(), result, error)))
        asked_s = time.monotonic()
        inputs = inputs_for(grpc_client, text, **options)
        client.async_stream_infer(model, inputs, request_id="a", enable_empty_final_response=True)
        while True:
            at_s, result, error = answers.get(timeout=120)
            if error is not None:
                raise error
            response = result.get_response()
            assert response.id == "a"
            if response.parameters["triton_final_response"].bool_param:
                assert not response.outputs
                return heard
            heard.pieces.append(result.as_numpy("audio")[0])
            heard.at_s.append(at_s - asked_s)
            heard.parameters["versions"] = json.loads(response.parameters["versions"].string_param)
            heard.parameters["seed"] = response.parameters["seed"].int64_param


def events(server: RunningServer, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Events of a stream over HTTP."""
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/{STREAM}/generate_stream",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        for line in answer:
            if line.strip():
                yield json.loads(line.removeprefix(b"data: "))


def unary(server: RunningServer, text: str, **options: Any) -> Audio:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        return speak(client, text, **options)


def request_for(text: str, seed: int = 7, model: str = STREAM, identity: str = "") -> Any:
    """``ModelInferRequest`` for a text."""
    request = pb.ModelInferRequest(model_name=model, id=identity)
    request.inputs.add(name="text", datatype="BYTES", shape=(1, 1)).contents.bytes_contents.append(text.encode())
    request.inputs.add(name="seed", datatype="INT64", shape=(1, 1)).contents.int64_contents.append(seed)
    return request


def samples_of(response: Any) -> Audio:
    """Audio in a ``ModelInferResponse``, empty if it holds none."""
    for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        if output.name == "audio":
            return np.frombuffer(raw, "<i2")
    return np.zeros(0, np.int16)


def metric(server: RunningServer, name: str, **labels: str) -> float:
    """Sum of the samples of a series that have these labels."""
    with urllib.request.urlopen(f"http://{server.metrics_url}", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.partition("{")[0].partition(" ")[0] == name
        and all(f'{key}="{value}"' in line for key, value in labels.items())
    )


def busy(server: RunningServer) -> dict[str, float]:
    """What requests hold of the server; empty if nothing is in flight."""
    values = {name: metric(server, name) for name in BUSY_GAUGES}
    return {name: value for name, value in values.items() if value}


def wait_for_quiet(server: RunningServer, timeout_s: float = 20) -> None:
    """Wait until nothing is in flight."""
    end = time.monotonic() + timeout_s
    while held := busy(server):
        assert time.monotonic() < end, held
        time.sleep(0.1)
