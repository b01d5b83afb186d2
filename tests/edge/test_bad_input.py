"""Bad input through the real doors: right status, and a text that names input and limit."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import socket
import struct
import zlib
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as rpc
from tritonclient.utils import InferenceServerException

from .harness import EdgeProcess


def http_call(
    edge: EdgeProcess,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", edge.http_port, timeout=30)
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def error_of(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str]:
    status, headers, body = answer
    assert headers["Content-Type"].startswith("application/json"), body
    document = json.loads(body)
    assert list(document) == ["error"]
    return status, document["error"]


def grpc_error(edge: EdgeProcess, request: Any) -> tuple[str, str]:
    with grpc.insecure_channel(edge.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        rpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=30)
    return caught.value.code().name, caught.value.details()


def grpc_request(model: str = "en-test", text: bytes = b"hi") -> Any:
    request = pb.ModelInferRequest(model_name=model)
    request.inputs.add(name="text", datatype="BYTES", shape=[1, 1])
    request.raw_input_contents.append(struct.pack("<I", len(text)) + text)
    return request


def json_request(**fields: Any) -> bytes:
    text = {"name": "text", "shape": [1, 1], "datatype": "BYTES", "data": ["hi"]}
    return json.dumps({"inputs": [{**text, **fields}]}).encode()


TEXTS = [
    (b"", ["'text'", "empty", "200"]),
    (b"   ", ["'text'", "blank"]),
    (b"x" * 201, ["201 characters", "200"]),
    (b"a\0b", ["NUL", "character 1"]),
]


@pytest.mark.parametrize(("text", "told"), TEXTS)
def test_bad_texts_over_all_doors(edge: EdgeProcess, text: bytes, told: list[str]) -> None:
    code, message = grpc_error(edge, grpc_request(text=text))
    assert code == "INVALID_ARGUMENT"
    body = json_request(data=[text.decode()])
    status, from_json = error_of(http_call(edge, "/v2/models/en-test/infer", body))
    generate = json.dumps({"text": text.decode()}).encode()
    generate_status, generated = error_of(http_call(edge, "/v2/models/en-test/generate", generate))
    assert (status, generate_status) == (400, 400)
    assert message == from_json == generated
    assert all(part in message for part in told), message


def test_invalid_utf8_names_the_byte(edge: EdgeProcess) -> None:
    code, message = grpc_error(edge, grpc_request(text=b"good \xff"))
    assert code == "INVALID_ARGUMENT"
    assert "byte 5" in message
    tensor = th.InferInput("text", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[b"good \xff"]], dtype=np.object_))
    with th.InferenceServerClient(edge.http) as client, pytest.raises(InferenceServerException) as caught:
        client.infer("en-test", [tensor])
    assert caught.value.status() == "400"
    assert caught.value.message() == message


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"text": "hi", "speed": 9}, ["'speed' is 9", "0.25 to 4"]),
        ({"text": "hi", "speed": 1e39}, ["'speed' is inf", "0.25 to 4"]),
        ({"text": "hi", "speaker": "bob"}, ["'bob'", "joe, ann"]),
        ({"text": "hi", "seed": -4}, ["'seed' is -4"]),
        ({"text": "hi", "sped": 1.5}, ["unknown parameter 'sped'", "noise_scale"]),
        ({"text": "hi", "noise_scale": 3}, ["'noise_scale'", "0 to 2"]),
        ({"text": ["a", "b"]}, ["'text'", "[1, 2]", "[1, 1]"]),
        ({"speed": 1}, ["'text' is missing"]),
        ({"text": "hi", "timeout": -1}, ["'timeout'", "microseconds"]),
    ],
)
def test_bad_options_name_the_limit(edge: EdgeProcess, document: dict[str, Any], told: list[str]) -> None:
    body = json.dumps(document).encode()
    status, message = error_of(http_call(edge, "/v2/models/en-test/generate", body))
    assert status == 400
    assert all(part in message for part in told), message


@pytest.mark.parametrize("name", ["en-test\0", "en-test\0x", "../en-test", "en test", "", "x" * 100_000])
def test_a_name_that_no_model_can_have_never_reaches_the_engine(edge: EdgeProcess, name: str) -> None:
    # the engine would take the part before the NUL, and so serve a voice whose request nobody checked
    code, message = grpc_error(edge, grpc_request(name))
    assert code == "NOT_FOUND"
    assert message.startswith("unknown model ")
    assert len(message) < 400


@pytest.mark.parametrize("path", ["config", "stats", "infer", "generate", "trace/setting"])
def test_a_name_with_a_nul_names_nothing_over_http(edge: EdgeProcess, path: str) -> None:
    body = b'{"text": "hi"}' if path in ("infer", "generate") else None
    if path == "infer":
        body = json_request()
    status, message = error_of(http_call(edge, f"/v2/models/en-test%00/{path}", body))
    assert status == 404
    assert message.startswith("unknown model ")


def test_nan_speed_over_grpc(edge: EdgeProcess) -> None:
    request = grpc_request()
    request.inputs.add(name="speed", datatype="FP32", shape=[1, 1])
    request.raw_input_contents.append(struct.pack("<f", float("nan")))
    code, message = grpc_error(edge, request)
    assert code == "INVALID_ARGUMENT"
    assert "'speed' is nan" in message


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"shape": [2, 1], "data": ["a", "b"]}, "batch of 2"),
        ({"shape": [1]}, "expected [1, 1]"),
        ({"datatype": "INT32", "data": [1]}, "expected BYTES"),
        ({"name": "txt"}, "unknown input 'txt'"),
        ({"parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 3}}, "shared memory"),
    ],
)
def test_wrongly_built_tensors(edge: EdgeProcess, fields: dict[str, Any], told: str) -> None:
    status, message = error_of(http_call(edge, "/v2/models/en-test/infer", json_request(**fields)))
    assert status == 400
    assert told in message


def test_shared_memory_is_refused_for_any_model(edge: EdgeProcess) -> None:
    request = pb.ModelInferRequest(model_name="double")
    request.inputs.add(name="x", datatype="FP32", shape=[1]).parameters["shared_memory_region"].string_param = "r"
    code, message = grpc_error(edge, request)
    assert code == "INVALID_ARGUMENT"
    assert "shared memory" in message


@pytest.mark.parametrize("path", ["infer", "generate", "generate_stream", "config", "stats", ""])
def test_unknown_models_are_404_and_the_voices_are_listed(edge: EdgeProcess, path: str) -> None:
    body = {"infer": json_request(), "generate": b'{"text":"a"}', "generate_stream": b'{"text":"a"}'}.get(path)
    status, message = error_of(http_call(edge, f"/v2/models/nobody/{path}".rstrip("/"), body))
    assert status == 404
    assert "'nobody'" in message
    assert "en-absent, en-narrow, en-test" in message


def test_unknown_models_and_versions_over_grpc(edge: EdgeProcess) -> None:
    code, message = grpc_error(edge, grpc_request("nobody"))
    assert code == "NOT_FOUND"
    assert "'nobody'" in message
    request = grpc_request()
    request.model_version = "3"
    code, message = grpc_error(edge, request)
    assert code == "NOT_FOUND"
    assert "'3'" in message
    with tg.InferenceServerClient(edge.grpc) as client, pytest.raises(InferenceServerException, match="'nobody'"):
        client.get_model_config("nobody")


def test_a_voice_that_the_engine_has_lost_is_unavailable(edge: EdgeProcess) -> None:
    code, message = grpc_error(edge, grpc_request("en-absent"))
    assert code == "UNAVAILABLE"
    assert "'en-absent' is not loaded" in message


def test_refusals_of_the_stages_reach_the_client_without_the_engines_wrapping(edge: EdgeProcess) -> None:
    assert grpc_error(edge, grpc_request(text=b"refuse")) == (
        "INVALID_ARGUMENT",
        "nothing in the text can be spoken",
    )
    assert grpc_error(edge, grpc_request(text=b"busy")) == ("UNAVAILABLE", "the device is being restarted")
    answer = http_call(edge, "/v2/models/en-test/generate", b'{"text": "busy"}')
    assert error_of(answer) == (503, "the device is being restarted")
    assert answer[1]["Retry-After"] == "1"


@pytest.mark.parametrize("text", [b"broken", b"raise"])
def test_faults_are_masked_and_logged(edge: EdgeProcess, text: bytes) -> None:
    code, message = grpc_error(edge, grpc_request(text=text))
    assert code == "INTERNAL"
    assert "secret" not in message
    identity = message.split("id ")[1].split(";")[0]
    logged = [line for line in edge.log().splitlines() if identity in line and "secret" in line]
    assert logged


def test_malformed_protobuf(edge: EdgeProcess) -> None:
    with grpc.insecure_channel(edge.grpc) as channel:
        for method in ("ModelInfer", "ModelConfig"):
            call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(b"\xff\xff\xff", timeout=10)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_long_error_texts_arrive(edge: EdgeProcess) -> None:
    request = grpc_request()
    request.inputs[0].name = "ü" * 5000
    code, message = grpc_error(edge, request)
    assert code == "INVALID_ARGUMENT"
    assert len(message) < 500


# ---- HTTP


@pytest.mark.parametrize(
    ("body", "headers", "told"),
    [
        (b"", {}, "empty"),
        (b"{", {}, "not JSON"),
        (b'{"inputs": [NaN]}', {}, "NaN"),
        (b"[" * 200_000, {}, "nested too deep"),
        (b'{"a":' * 50_000, {}, "nested too deep"),
        (json_request(), {"Inference-Header-Content-Length": "-5"}, "'-5'"),
        (json_request(), {"Inference-Header-Content-Length": "99999"}, "has only"),
        (json_request(), {"Inference-Header-Content-Length": "10"}, "not JSON"),
        (b"not gzip", {"Content-Encoding": "gzip"}, "cannot be decoded as 'gzip'"),
        (b"not deflate", {"Content-Encoding": "deflate"}, "cannot be decoded as 'deflate'"),
    ],
)
def test_malformed_bodies(edge: EdgeProcess, body: bytes, headers: dict[str, str], told: str) -> None:
    status, message = error_of(http_call(edge, "/v2/models/en-test/infer", body, headers))
    assert status == 400, message
    assert told in message


def test_bodies_over_the_limit(edge: EdgeProcess) -> None:
    status, message = error_of(http_call(edge, "/v2/models/en-test/infer", b" " * 1_000_001))
    assert status == 413
    assert "1000000 bytes" in message


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compression_bomb_meets_the_same_limit(edge: EdgeProcess, coding: str) -> None:
    import psutil

    compress = gzip.compress if coding == "gzip" else zlib.compress
    bomb = compress(b" " * 200_000_000)
    assert len(bomb) < 300_000
    before = psutil.Process(edge.process.pid).memory_info().rss
    status, message = error_of(http_call(edge, "/v2/models/en-test/infer", bomb, {"Content-Encoding": coding}))
    assert status == 413
    assert "1000000 bytes" in message
    assert psutil.Process(edge.process.pid).memory_info().rss - before < 50_000_000


def test_messages_over_the_limit_over_grpc(edge: EdgeProcess) -> None:
    import psutil

    before = psutil.Process(edge.process.pid).memory_info().rss
    request = grpc_request(text=b" " * 50_000_000)
    for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
        with grpc.insecure_channel(edge.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
            rpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=30, compression=compression)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert psutil.Process(edge.process.pid).memory_info().rss - before < 100_000_000


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v2/models/en-test/infer HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        b"POST /v2/models/en-test/infer HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    ],
)
def test_broken_http_is_400_and_the_server_lives(edge: EdgeProcess, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", edge.http_port), timeout=10) as raw:
        raw.sendall(head)
        assert b" 400 " in raw.recv(4096).split(b"\r\n")[0] or b" 405 " in raw.recv(1)
    assert http_call(edge, "/v2/health/live")[0] == 200


def test_a_client_that_leaves_within_its_body_does_no_harm(edge: EdgeProcess) -> None:
    head = b"POST /v2/models/en-test/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", edge.http_port), timeout=10) as raw:
            raw.sendall(head)
    assert http_call(edge, "/v2/health/live")[0] == 200


def test_chunked_bodies_are_served(edge: EdgeProcess) -> None:
    chunks = [json_request()[at : at + 1] for at in range(len(json_request()))]
    connection = http.client.HTTPConnection("127.0.0.1", edge.http_port, timeout=30)
    connection.request("POST", "/v2/models/en-test/infer", iter(chunks), encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()


def test_unknown_routes_and_wrong_verbs(edge: EdgeProcess) -> None:
    status, message = error_of(http_call(edge, "/v3/models"))
    assert status == 404
    assert "/v3/models" in message
    answer = http_call(edge, "/v2/models/en-test/infer")
    status, message = error_of(answer)
    assert status == 405
    assert answer[1]["Allow"] == "POST"
    assert "POST" in message
    assert error_of(http_call(edge, "/v2/health/live", b""))[0] == 405
    assert error_of(http_call(edge, "/v2/models/en-test/versions/x/infer", json_request()))[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/v2/repository/models/en-test/load",
        "/v2/repository/models/en-test/unload",
        "/v2/systemsharedmemory/region/r/register",
        "/v2/cudasharedmemory/unregister",
        "/v2/trace/setting",
        "/v2/models/en-test/trace/setting",
        "/v2/logging",
    ],
)
def test_control_is_refused_over_http(edge: EdgeProcess, path: str) -> None:
    status, message = error_of(http_call(edge, path, b"{}"))
    assert status == 403
    assert path in message


def test_control_is_refused_over_grpc_and_changes_nothing(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as client:
        code = base64.b64encode(b"import os").decode()
        calls = [
            lambda: client.load_model("double", config="{}", files={"file:1/model.py": code.encode()}),
            lambda: client.unload_model("en-test"),
            lambda: client.register_system_shared_memory("r", "/x", 8),
            client.unregister_system_shared_memory,
            client.get_system_shared_memory_status,
            lambda: client.register_cuda_shared_memory("r", b"", 0, 8),
            client.unregister_cuda_shared_memory,
            client.get_cuda_shared_memory_status,
            lambda: client.update_trace_settings(settings={"trace_rate": "1"}),
            lambda: client.update_log_settings({"log_verbose_level": 3}),
        ]
        for call in calls:
            with pytest.raises(InferenceServerException) as caught:
                call()
            assert caught.value.status() == "StatusCode.PERMISSION_DENIED"
        assert client.is_model_ready("en-test")
        assert client.get_log_settings().settings["log_verbose_level"].uint32_param == 0
