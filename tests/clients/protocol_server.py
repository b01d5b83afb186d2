"""A small server that speaks the Open Inference Protocol over real sockets, for tests of the client side alone.

It stands in for a voxrepo server where a test needs control over answers, errors and delays. Its "speech" is noise
derived from the request, so that a mixed-up answer is noticed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
import threading
import time
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
from aiohttp import web
from google.protobuf import json_format
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

SAMPLE_RATE_HZ = 22050
DRAWN_SEED = 4711
VERSIONS = {"text_frontend": 1, "acoustic": 2, "vocoder": 3}
MAX_TEXT_CHARS = 200


def spoken(text: str, speed: float = 1.0, speaker: str = "", seed: int = DRAWN_SEED) -> npt.NDArray[np.int16]:
    """What the server answers to a request: int16 [N], longer for longer texts."""
    digest = hashlib.sha256(f"{text}|{speed:.6g}|{speaker}|{seed}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    return rng.integers(-9000, 9000, int(len(text) * 400 / speed), dtype=np.int16)


def pieces(audio: npt.NDArray[np.int16]) -> list[npt.NDArray[np.int16]]:
    """The pieces in which the server streams: 1,000 samples first, then growing."""
    cuts, size = [], 1000
    start = 0
    while start < len(audio):
        cuts.append(audio[start : start + size])
        start, size = start + size, size * 2
    return cuts


@dataclass
class Failure:
    """An error to answer with instead of speech; ``body`` replaces the protocol's error JSON over HTTP."""

    code: str
    http_status: int
    text: str
    retry_after: str | None = None
    body: bytes | None = None


@dataclass
class Received:
    """One inference request as it arrived."""

    model: str
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    headers: dict[str, str]


def _config(name: str, decoupled: bool = False, inputs: tuple[str, ...] = ("text",), outputs: tuple[str, ...] = ()):
    config = model_config_pb2.ModelConfig(name=name, platform="ensemble", max_batch_size=8)
    config.input.extend(model_config_pb2.ModelInput(name=i, data_type="TYPE_STRING", dims=[1]) for i in inputs)
    config.output.extend(model_config_pb2.ModelOutput(name=o, data_type="TYPE_INT16", dims=[-1]) for o in outputs)
    config.model_transaction_policy.decoupled = decoupled
    return config


def _voice_config(name: str, speakers: list[str], decoupled: bool = False):
    config = _config(name, decoupled, ("text", "speed", "speaker", "seed"), ("audio", "sample_rate"))
    for key, value in {
        "language": "en-US",
        "sample_rate_hz": str(SAMPLE_RATE_HZ),
        "speakers": json.dumps(speakers),
        "max_text_chars": str(MAX_TEXT_CHARS),
        "versions": json.dumps(VERSIONS),
    }.items():
        config.parameters[f"voxrepo.{key}"].string_value = value
    return config


@dataclass
class ProtocolServer:
    """Both doors of the server, on free ports of the loopback.

    Attributes:
        models: configurations by model name.
        not_ready: names that the index lists as UNAVAILABLE.
        fail: answered to every inference while set.
        delay_s: slept before every inference is answered.
        received: the inferences so far.
        raw_answer: over HTTP, sent as it is with status 200 instead of an inference response.
        dropped: answered with every speech, as JSON.
        audio_dtype: data type of the answer's samples over gRPC.
        piece_delay_s: slept before every piece after the first.
        fail_after: ``fail`` comes after so many pieces of a stream; ``None``: instead of any.
        hang_up_after: the stream breaks off after so many pieces.
        final_is_told: whether the end of a stream is marked over gRPC.
        sent: pieces of all streams so far.
        cancelled: set when a stream's client has left.
    """

    models: dict[str, Any] = field(default_factory=dict)
    not_ready: set[str] = field(default_factory=set)
    fail: Failure | None = None
    delay_s: float = 0.0
    received: list[Received] = field(default_factory=list)
    raw_answer: bytes | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    audio_dtype: str = "INT16"
    piece_delay_s: float = 0.0
    fail_after: int | None = None
    hang_up_after: int | None = None
    final_is_told: bool = True
    sent: list[int] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)
    grpc_port: int = 0
    http_port: int = 0

    def reset(self) -> None:
        self.models = {
            "en-joe": _voice_config("en-joe", ["joe"]),
            "en-joe.stream": _voice_config("en-joe.stream", ["joe"], decoupled=True),
            "en-joe.text_frontend": _config("en-joe.text_frontend", outputs=("phoneme_ids",)),
            "resnet": _config("resnet", inputs=("image",), outputs=("scores",)),
            "broken": _voice_config("broken", []),
        }
        self.not_ready = {"broken"}
        self.fail, self.delay_s, self.raw_answer, self.audio_dtype = None, 0.0, None, "INT16"
        self.received, self.dropped = [], {}
        self.piece_delay_s, self.fail_after, self.hang_up_after, self.final_is_told = 0.0, None, None, True
        self.sent, self.cancelled = [], threading.Event()

    def add_voice(self, name: str, speakers: list[str]) -> None:
        self.models[name] = _voice_config(name, speakers)

    @property
    def grpc_url(self) -> str:
        return f"grpc://127.0.0.1:{self.grpc_port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def index(self) -> list[dict[str, str]]:
        return [
            {"name": name, "version": "1", "state": "UNAVAILABLE" if name in self.not_ready else "READY"}
            for name in self.models
        ]

    def speak(self, request: Received, received: list[Received]) -> npt.NDArray[np.int16]:
        received.append(request)
        inputs = request.inputs
        speaker = inputs.get("speaker", b"").decode()
        return spoken(inputs["text"].decode(), inputs["speed"], speaker, inputs.get("seed", DRAWN_SEED))

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.reset()
        self.start_grpc()
        started = threading.Event()

        def serve() -> None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
            self._runner = web.AppRunner(_http_app(self), shutdown_timeout=0.1, handler_cancellation=True)
            self._loop.run_until_complete(self._runner.setup())
            site = web.TCPSite(self._runner, "127.0.0.1", 0)
            self._loop.run_until_complete(site.start())
            self.http_port = self._runner.addresses[0][1]
            started.set()
            self._loop.run_forever()
            self._loop.run_until_complete(self._runner.cleanup())
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.close()

        self._thread = threading.Thread(target=serve)
        self._thread.start()
        assert started.wait(10)

    def start_grpc(self) -> None:
        self._grpc = grpc.server(futures.ThreadPoolExecutor(32))
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_GrpcDoor(self), self._grpc)
        self.grpc_port = self._grpc.add_insecure_port(f"127.0.0.1:{self.grpc_port}")
        self._grpc.start()

    def stop_grpc(self) -> None:
        self._grpc.stop(0).wait()

    def stop(self) -> None:
        self.stop_grpc()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


class _GrpcDoor(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    def __init__(self, server: ProtocolServer) -> None:
        self._server = server

    def RepositoryIndex(self, request, context):
        return json_format.ParseDict({"models": self._server.index()}, service_pb2.RepositoryIndexResponse())

    def _config(self, name: str, context: grpc.ServicerContext):
        if name not in self._server.models:
            context.abort(grpc.StatusCode.NOT_FOUND, f"unknown model '{name}'")
        return self._server.models[name]

    def ModelConfig(self, request, context):
        return service_pb2.ModelConfigResponse(config=self._config(request.name, context))

    def ModelMetadata(self, request, context):
        return json_format.ParseDict(
            _metadata(self._config(request.name, context)), service_pb2.ModelMetadataResponse()
        )

    def _fail(self, context: grpc.ServicerContext) -> None:
        failure = self._server.fail
        assert failure is not None
        if failure.retry_after:
            context.set_trailing_metadata((("retry-after", failure.retry_after),))
        context.abort(getattr(grpc.StatusCode, failure.code), failure.text)

    def _received(self, request, context) -> Received:
        inputs = {
            tensor.name: _scalar(tensor.datatype, raw)
            for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        parameters = {k: getattr(v, v.WhichOneof("parameter_choice")) for k, v in request.parameters.items()}
        headers = {k: v for k, v in context.invocation_metadata() if isinstance(v, str)}
        return Received(request.model_name, inputs, parameters, headers)

    def _answer(self, name: str, inputs: dict[str, Any], audio: npt.NDArray[np.int16]):
        server = self._server
        answer = service_pb2.ModelInferResponse(model_name=name, model_version="1")
        answer.parameters["seed"].int64_param = inputs.get("seed", DRAWN_SEED)
        answer.parameters["versions"].string_param = json.dumps(VERSIONS)
        answer.parameters["dropped"].string_param = json.dumps(server.dropped)
        for name, dtype, array in (
            ("audio", server.audio_dtype, audio),
            ("sample_rate", "INT32", np.array([SAMPLE_RATE_HZ], np.int32)),
        ):
            answer.outputs.add(name=name, datatype=dtype, shape=[1, len(array)])
            answer.raw_output_contents.append(array.tobytes())
        return answer

    def ModelInfer(self, request, context):
        server = self._server
        received = server.received  # the list at arrival: what one test gave up must not show in the next
        time.sleep(server.delay_s)
        if server.fail:
            self._fail(context)
        self._config(request.model_name, context)
        asked = self._received(request, context)
        return self._answer(request.model_name, asked.inputs, server.speak(asked, received))

    def ModelStreamInfer(self, requests, context):
        for request in requests:
            yield from self._stream(request, context)

    def _stream(self, request, context):
        server = self._server
        received, cancelled, sent = server.received, server.cancelled, server.sent
        context.add_callback(lambda: None if done else cancelled.set())
        done: list[bool] = []
        asked = self._received(request, context)
        assert asked.parameters.pop("triton_enable_empty_final_response") is True
        time.sleep(server.delay_s)
        try:
            if server.fail and server.fail_after is None:
                done.append(True)
                yield _told(server.fail)
                return
            if request.model_name not in server.models:
                done.append(True)
                yield _told(Failure("NOT_FOUND", 404, f"unknown model '{request.model_name}'"))
                return
            for index, piece in enumerate(pieces(server.speak(asked, received))):
                if server.fail and server.fail_after == index:
                    done.append(True)
                    yield _told(server.fail)
                    return
                if server.hang_up_after == index:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
                time.sleep(server.piece_delay_s if index else 0.0)
                answer = self._answer(request.model_name, asked.inputs, piece)
                answer.parameters["triton_final_response"].bool_param = False
                yield service_pb2.ModelStreamInferResponse(infer_response=answer)
                sent.append(len(piece))
            done.append(True)
        except GeneratorExit:
            raise
        except BaseException:
            done.append(True)
            raise
        if server.final_is_told:
            final = service_pb2.ModelInferResponse(model_name=request.model_name)
            final.parameters["triton_final_response"].bool_param = True
            yield service_pb2.ModelStreamInferResponse(infer_response=final)


def _told(failure: Failure):
    answer = service_pb2.ModelStreamInferResponse(error_message=failure.text)
    answer.infer_response.parameters["error_code"].string_param = failure.code
    if failure.retry_after:
        answer.infer_response.parameters["retry_after_s"].int64_param = int(failure.retry_after)
    return answer


def _scalar(dtype: str, raw: bytes) -> Any:
    if dtype == "BYTES":
        (length,) = struct.unpack_from("<I", raw)
        assert len(raw) == 4 + length
        return raw[4:]
    (value,) = struct.unpack({"FP32": "<f", "INT64": "<q"}[dtype], raw)
    return value


def _metadata(config: Any) -> dict[str, Any]:
    return {
        "name": config.name,
        "versions": ["1"],
        "platform": config.platform,
        "inputs": [{"name": t.name, "datatype": "BYTES", "shape": [-1, *t.dims]} for t in config.input],
        "outputs": [{"name": t.name, "datatype": "INT16", "shape": [-1, *t.dims]} for t in config.output],
    }


def _http_app(server: ProtocolServer) -> web.Application:
    def found(request: web.Request) -> Any:
        name = request.match_info["model"]
        if name not in server.models:
            raise web.HTTPNotFound(text=json.dumps({"error": f"unknown model '{name}'"}))
        return server.models[name]

    async def index(request: web.Request) -> web.Response:
        return web.json_response(server.index())

    async def metadata(request: web.Request) -> web.Response:
        return web.json_response(_metadata(found(request)))

    async def config(request: web.Request) -> web.Response:
        return web.json_response(json_format.MessageToDict(found(request), preserving_proto_field_name=True))

    def failed(failure: Failure) -> web.Response:
        headers = {"Retry-After": failure.retry_after} if failure.retry_after else {}
        error = json.dumps({"error": failure.text}).encode()
        if failure.body is not None:
            error = failure.body
        return web.Response(status=failure.http_status, body=error, headers=headers)

    async def generate_stream(request: web.Request) -> web.StreamResponse:
        document = await request.json()
        received, cancelled, sent = server.received, server.cancelled, server.sent
        await asyncio.sleep(server.delay_s)
        if server.fail and server.fail_after is None:
            return failed(server.fail)
        if server.raw_answer is not None:
            return web.Response(body=server.raw_answer)
        found(request)
        parameters = document.pop("parameters", {})
        inputs = {key: value.encode() if isinstance(value, str) else value for key, value in document.items()}
        asked = Received(request.match_info["model"], inputs, parameters, dict(request.headers))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for index, piece in enumerate(pieces(server.speak(asked, received))):
                if server.fail and server.fail_after == index:
                    error = {"error": server.fail.text, "code": server.fail.code}
                    await response.write(b"data: " + json.dumps(error).encode() + b"\n\n")
                    return response
                if server.hang_up_after == index:
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                await asyncio.sleep(server.piece_delay_s if index else 0.0)
                event = {
                    "model_name": asked.model,
                    "seed": inputs.get("seed", DRAWN_SEED),
                    "versions": json.dumps(VERSIONS),
                    "dropped": json.dumps(server.dropped),
                    "audio": piece.tolist() if len(piece) != 1 else int(piece[0]),
                    "sample_rate": SAMPLE_RATE_HZ,
                }
                await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
                sent.append(len(piece))
        except (ConnectionError, asyncio.CancelledError):
            cancelled.set()
            raise
        return response

    async def infer(request: web.Request) -> web.Response:
        body = await request.read()
        received = server.received
        await asyncio.sleep(server.delay_s)
        if server.fail:
            return failed(server.fail)
        if server.raw_answer is not None:
            return web.Response(body=server.raw_answer)
        found(request)
        json_bytes = int(request.headers["Inference-Header-Content-Length"])
        head, offset = json.loads(body[:json_bytes]), json_bytes
        inputs = {}
        for tensor in head["inputs"]:
            size = tensor["parameters"]["binary_data_size"]
            assert tensor["shape"] == [1, 1]
            inputs[tensor["name"]] = _scalar(tensor["datatype"], body[offset : offset + size])
            offset += size
        assert offset == len(body)
        parameters = head.get("parameters", {})
        assert parameters.pop("binary_data_output") is True
        audio = server.speak(Received(request.match_info["model"], inputs, parameters, dict(request.headers)), received)
        raw = [audio.tobytes(), np.array([SAMPLE_RATE_HZ], np.int32).tobytes()]
        answer = {
            "model_name": "en-joe",
            "model_version": "1",
            "parameters": {
                "seed": inputs.get("seed", DRAWN_SEED),
                "versions": json.dumps(VERSIONS),
                "dropped": json.dumps(server.dropped),
            },
            "outputs": [
                {"name": name, "datatype": dtype, "shape": [1, size], "parameters": {"binary_data_size": len(data)}}
                for name, dtype, size, data in (
                    ("audio", "INT16", len(audio), raw[0]),
                    ("sample_rate", "INT32", 1, raw[1]),
                )
            ],
        }
        header = json.dumps(answer).encode()
        return web.Response(body=header + b"".join(raw), headers={"Inference-Header-Content-Length": str(len(header))})

    app = web.Application()
    app.router.add_post("/v2/repository/index", index)
    app.router.add_get("/v2/models/{model}", metadata)
    app.router.add_get("/v2/models/{model}/config", config)
    app.router.add_post("/v2/models/{model}/infer", infer)
    app.router.add_post("/v2/models/{model}/generate_stream", generate_stream)
    return app
