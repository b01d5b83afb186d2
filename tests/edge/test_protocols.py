"""All doors give the same audio, to unmodified clients."""

from __future__ import annotations

import asyncio
import json
import queue
import urllib.request
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha

from .harness import EdgeProcess

VALUES = {"text": "samples 3000 grüße", "speed": 1.1, "speaker": "ann", "seed": 7}
NUMPY = {"text": np.object_, "speaker": np.object_, "speed": np.float32, "seed": np.int64}
DATATYPE = {"text": "BYTES", "speaker": "BYTES", "speed": "FP32", "seed": "INT64"}
PARAMETERS = {"noise_scale": 0.5}


def tensors(module: Any, values: dict[str, Any], **options: bool) -> list[Any]:
    inputs = []
    for name, value in values.items():
        tensor = module.InferInput(name, [1, 1], DATATYPE[name])
        raw = value.encode("utf-8") if isinstance(value, str) and not options else value
        tensor.set_data_from_numpy(np.array([[raw]], dtype=NUMPY[name]), **options)
        inputs.append(tensor)
    return inputs


def audio_of(result: Any) -> npt.NDArray[np.int16]:
    audio: npt.NDArray[np.int16] = result.as_numpy("audio")
    assert audio.dtype == np.int16
    assert result.as_numpy("sample_rate").tolist() == [[22050]]
    samples: npt.NDArray[np.int16] = audio[0]
    return samples


def post(edge: EdgeProcess, path: str, body: dict[str, Any]) -> tuple[Any, str]:
    request = urllib.request.Request(
        f"http://{edge.http}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.headers, response.read().decode("utf-8")


@pytest.fixture(scope="module")
def expected(edge: EdgeProcess) -> npt.NDArray[np.int16]:
    with tg.InferenceServerClient(edge.grpc) as client:
        audio = audio_of(client.infer("en-test", tensors(tg, VALUES), parameters=PARAMETERS))
    assert len(audio) == 3000
    return audio


def test_binary_http_equals_grpc(edge: EdgeProcess, expected: npt.NDArray[np.int16]) -> None:
    with th.InferenceServerClient(edge.http) as client:
        result = client.infer("en-test", tensors(th, VALUES), parameters=PARAMETERS, request_id="r-1")
    assert np.array_equal(audio_of(result), expected)
    response = result.get_response()
    assert response["id"] == "r-1"
    assert response["parameters"]["seed"] == 7
    assert json.loads(response["parameters"]["versions"]) == {"text_frontend": 1, "acoustic": 3, "vocoder": 2}


def test_json_http_equals_grpc(edge: EdgeProcess, expected: npt.NDArray[np.int16]) -> None:
    inputs = tensors(th, VALUES, binary_data=False)
    outputs = [th.InferRequestedOutput(name, binary_data=False) for name in ("audio", "sample_rate")]
    with th.InferenceServerClient(edge.http) as client:
        result = client.infer("en-test", inputs, outputs=outputs, parameters=PARAMETERS)
    assert np.array_equal(audio_of(result), expected)


def test_outputs_can_mix_json_and_binary(edge: EdgeProcess, expected: npt.NDArray[np.int16]) -> None:
    outputs = [th.InferRequestedOutput("audio"), th.InferRequestedOutput("sample_rate", binary_data=False)]
    with th.InferenceServerClient(edge.http) as client:
        result = client.infer("en-test", tensors(th, VALUES), outputs=outputs, parameters=PARAMETERS)
    assert np.array_equal(audio_of(result), expected)


def test_only_requested_outputs_are_answered(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as client:
        result = client.infer("en-test", tensors(tg, VALUES), outputs=[tg.InferRequestedOutput("sample_rate")])
    assert [output.name for output in result.get_response().outputs] == ["sample_rate"]


@pytest.mark.parametrize("suffix", ["", "/versions/1"])
def test_generate_equals_grpc(edge: EdgeProcess, expected: npt.NDArray[np.int16], suffix: str) -> None:
    _, body = post(edge, f"/v2/models/en-test{suffix}/generate", {**VALUES, **PARAMETERS})
    answer = json.loads(body)
    assert answer["audio"] == expected.tolist()
    assert (answer["sample_rate"], answer["model_name"], answer["seed"]) == (22050, "en-test", 7)


def test_generate_stream_is_one_event(edge: EdgeProcess, expected: npt.NDArray[np.int16]) -> None:
    headers, body = post(edge, "/v2/models/en-test/generate_stream", {**VALUES, "parameters": PARAMETERS})
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert body.startswith("data: ")
    assert body.endswith("\n\n")
    assert json.loads(body.removeprefix("data: "))["audio"] == expected.tolist()


def test_a_drawn_seed_is_told_and_reproduces_the_audio(edge: EdgeProcess) -> None:
    values = {"text": "hello"}
    with tg.InferenceServerClient(edge.grpc) as client:
        first = client.infer("en-test", tensors(tg, values))
        other = client.infer("en-test", tensors(tg, values))
        seed = first.get_response().parameters["seed"].int64_param
        again = client.infer("en-test", tensors(tg, {**values, "seed": seed}))
    assert other.get_response().parameters["seed"].int64_param != seed
    assert not np.array_equal(audio_of(first), audio_of(other))
    assert np.array_equal(audio_of(first), audio_of(again))


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compression_both_ways(edge: EdgeProcess, expected: npt.NDArray[np.int16], coding: str) -> None:
    options = {"request_compression_algorithm": coding, "response_compression_algorithm": coding}
    with th.InferenceServerClient(edge.http) as client:
        result = client.infer("en-test", tensors(th, VALUES), parameters=PARAMETERS, **options)
    assert np.array_equal(audio_of(result), expected)
    with tg.InferenceServerClient(edge.grpc) as client:
        result = client.infer("en-test", tensors(tg, VALUES), parameters=PARAMETERS, compression_algorithm=coding)
    assert np.array_equal(audio_of(result), expected)


async def test_async_clients(edge: EdgeProcess, expected: npt.NDArray[np.int16]) -> None:
    async with tga.InferenceServerClient(edge.grpc) as grpc_client, tha.InferenceServerClient(edge.http) as client:
        results = await asyncio.gather(
            *(grpc_client.infer("en-test", tensors(tg, VALUES), parameters=PARAMETERS) for _ in range(4)),
            *(client.infer("en-test", tensors(th, VALUES), parameters=PARAMETERS) for _ in range(4)),
        )
        compressed = await client.infer(
            "en-test", tensors(th, VALUES), parameters=PARAMETERS, response_compression_algorithm="gzip"
        )
        assert await grpc_client.is_model_ready("en-test")
        assert await client.is_model_ready("en-test")
    assert all(np.array_equal(audio_of(result), expected) for result in [*results, compressed])


def test_async_infer_of_the_sync_clients(edge: EdgeProcess, expected: npt.NDArray[np.int16]) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with tg.InferenceServerClient(edge.grpc) as client:
        client.async_infer(
            "en-test",
            tensors(tg, VALUES),
            lambda result, error: answers.put((result, error)),
            parameters=PARAMETERS,
        )
        result, error = answers.get(timeout=30)
    assert error is None
    assert np.array_equal(audio_of(result), expected)
    with th.InferenceServerClient(edge.http, concurrency=2) as client:
        pending = [client.async_infer("en-test", tensors(th, VALUES), parameters=PARAMETERS) for _ in range(3)]
        assert all(np.array_equal(audio_of(item.get_result()), expected) for item in pending)


def test_a_stream_answers_each_request_and_survives_errors(edge: EdgeProcess, expected: npt.NDArray[np.int16]) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with tg.InferenceServerClient(edge.grpc) as client:
        # the header that kills the engine when it reaches it
        client.start_stream(lambda result, error: answers.put((result, error)), headers={"triton_grpc_error": "true"})
        client.async_stream_infer("en-test", tensors(tg, {"text": "refuse"}), request_id="bad")
        for index in range(30):
            client.async_stream_infer(
                "en-test",
                tensors(tg, VALUES),
                request_id=str(index),
                parameters=PARAMETERS,
                enable_empty_final_response=True,
            )
        received = [answers.get(timeout=30) for _ in range(31)]
        client.stop_stream()
    errors = [str(error) for _, error in received if error is not None]
    assert len(errors) == 1
    assert "nothing in the text can be spoken" in errors[0]
    results = [result for result, _ in received if result is not None]
    assert sorted(int(r.get_response().id) for r in results) == list(range(30))
    assert all(np.array_equal(audio_of(r), expected) for r in results)
    assert all(r.get_response().parameters["triton_final_response"].bool_param for r in results)


def test_a_slow_request_does_not_hold_up_its_stream(edge: EdgeProcess) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    with tg.InferenceServerClient(edge.grpc) as client:
        client.start_stream(lambda result, error: answers.put(result))
        client.async_stream_infer("en-test", tensors(tg, {"text": "sleep 700"}), request_id="slow")
        client.async_stream_infer("en-test", tensors(tg, {"text": "hi"}), request_id="fast")
        order = [answers.get(timeout=30).get_response().id for _ in range(2)]
        client.stop_stream()
    assert order == ["fast", "slow"]


def test_models_that_are_no_voices_pass_through(edge: EdgeProcess) -> None:
    names = np.array([b"abc", b"\xff\x00z"], dtype=np.object_)
    for module, url in ((tg, edge.grpc), (th, edge.http)):
        x = module.InferInput("x", [3], "FP32")
        x.set_data_from_numpy(np.array([1, 2, 3], dtype=np.float32))
        name = module.InferInput("name", [2], "BYTES")
        name.set_data_from_numpy(names)
        with module.InferenceServerClient(url) as client:
            result = client.infer("double", [x, name], request_id="q")
            config = client.get_model_config("double")
        assert result.as_numpy("y").tolist() == [2, 4, 6]
        assert result.as_numpy("eman").tolist() == [b"cba", b"z\x00\xff"]
        assert config is not None
    _, body = post(edge, "/v2/models/double/generate", {"x": [1, 2], "name": "ab"})
    answer = json.loads(body)
    assert (answer["y"], answer["eman"]) == ([2, 4], "ba")


def test_descriptions_agree_over_both_protocols(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as over_grpc, th.InferenceServerClient(edge.http) as over_http:
        assert over_http.get_server_metadata() == over_grpc.get_server_metadata(as_json=True)
        assert over_grpc.get_server_metadata().name == "voxrepo"
        metadata = over_http.get_model_metadata("en-test")
        assert metadata["name"] == "en-test"
        assert {tensor["name"]: tensor["shape"] for tensor in metadata["outputs"]}["audio"] == [-1, -1]
        grpc_metadata = over_grpc.get_model_metadata("en-test")
        assert [t["name"] for t in metadata["inputs"]] == [t.name for t in grpc_metadata.inputs]
        config = over_http.get_model_config("en-test")
        optional = {tensor["name"]: tensor["optional"] for tensor in config["input"]}
        assert optional == {"text": False, "speed": True, "speaker": True, "seed": True}
        assert json.loads(config["parameters"]["voxrepo.speakers"]["string_value"]) == ["joe", "ann"]
        grpc_config = over_grpc.get_model_config("en-test").config
        assert {t.name: t.optional for t in grpc_config.input} == optional
        assert grpc_config.max_batch_size == config["max_batch_size"] == 1
        assert over_grpc.is_server_live()
        assert over_http.is_server_live()
        assert over_http.is_server_ready()
        for client in (over_grpc, over_http):
            assert client.is_model_ready("en-test", "1")
            assert not client.is_model_ready("en-test", "2")
            assert not client.is_model_ready("en-absent")


def test_statistics_count_what_the_engine_did(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as over_grpc, th.InferenceServerClient(edge.http) as over_http:
        before = over_http.get_inference_statistics("en-test")["model_stats"][0]["inference_count"]
        over_grpc.infer("en-test", tensors(tg, {"text": "hi"}))
        after = over_grpc.get_inference_statistics("en-test").model_stats[0].inference_count
        assert after == before + 1
        names = {entry["name"] for entry in over_http.get_inference_statistics()["model_stats"]}
    assert {"en-test", "en-test.echo", "double"} <= names


def test_the_index_tells_what_is_not_served_and_why(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as over_grpc, th.InferenceServerClient(edge.http) as over_http:
        index = over_http.get_model_repository_index()
        bad = {"name": "en-bad.acoustic", "state": "UNAVAILABLE"}
        assert {**bad, "reason": "encoder.onnx: sha256 differs"} in index
        assert {"name": "en-test", "version": "1", "state": "READY"} in index
        entries = over_grpc.get_model_repository_index().models
        assert any(e.name == "en-bad.acoustic" and "sha256" in e.reason for e in entries)
    _, body = post(edge, "/v2/repository/index", {"ready": True})
    assert {entry["state"] for entry in json.loads(body)} == {"READY"}


def test_settings_can_be_read(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as over_grpc, th.InferenceServerClient(edge.http) as over_http:
        assert over_http.get_trace_settings()["trace_level"] == ["OFF"]
        assert over_http.get_log_settings()["log_verbose_level"] == 0
        assert "trace_level" in over_grpc.get_trace_settings().settings
        assert "log_info" in over_grpc.get_log_settings().settings


def test_the_standard_health_service(edge: EdgeProcess) -> None:
    import grpc
    from google.protobuf.wrappers_pb2 import StringValue

    with grpc.insecure_channel(edge.grpc) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        for service in ("", "inference.GRPCInferenceService"):
            assert check(StringValue(value=service).SerializeToString(), timeout=10) == b"\x08\x01"
        with pytest.raises(grpc.RpcError) as caught:
            check(StringValue(value="other").SerializeToString(), timeout=10)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        with pytest.raises(grpc.RpcError) as caught:
            next(watch(b"", timeout=10))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_request_ids_are_echoed_or_made(edge: EdgeProcess) -> None:
    url = f"http://{edge.http}/v2/models/en-test/generate"
    ids = []
    for given in ("job-17", "spaces are not kept"):
        request = urllib.request.Request(url, b'{"text": "hi"}', {"X-Request-Id": given})
        with urllib.request.urlopen(request, timeout=30) as response:
            ids.append(response.headers["X-Request-Id"])
    assert ids[0] == "job-17"
    assert len(ids[1]) == 16
    assert '"client_id": "job-17"' in edge.log()


def test_texts_are_not_logged(edge: EdgeProcess) -> None:
    with tg.InferenceServerClient(edge.grpc) as client:
        client.infer("en-test", tensors(tg, {"text": "my secret words"}))
    assert "secret words" not in edge.log()
