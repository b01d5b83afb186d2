"""The HTTP door: the Open Inference Protocol and the generate extension."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, TypeVar

from aiohttp import web

from voxrepo.edge import generate, jsonbody, openinference, views
from voxrepo.edge.compression import coding_for
from voxrepo.edge.dataplane import DataPlane
from voxrepo.edge.delivery import marked, take_empty_final
from voxrepo.edge.http_errors import MAX_BODY_BYTES, Handler, errors_as_json, read_body
from voxrepo.edge.http_events import EventStream
from voxrepo.edge.options import ROUTING_KEY_HEADER
from voxrepo.metrics.accounting import Accountant, RequestRecord, new_request_id
from voxrepo_contract.errors import InvalidArgument, PermissionDenied, VoxrepoError

REQUEST_ID_HEADER = "X-Request-Id"

_REQUEST_ID = re.compile(r"\A[A-Za-z0-9_.-]{1,64}\Z")
_MODEL = "/v2/models/{model}"
_VERSIONED = _MODEL + "/versions/{version:[0-9]+}"
_CONTROL = (
    ("POST", "/v2/repository/models/{model}/load"),
    ("POST", "/v2/repository/models/{model}/unload"),
    ("*", "/v2/systemsharedmemory{rest:(/.*)?}"),
    ("*", "/v2/cudasharedmemory{rest:(/.*)?}"),
    ("POST", "/v2/trace/setting"),
    ("POST", "/v2/models/{model}/trace/setting"),
    ("POST", "/v2/logging"),
)
_HEAVY_JSON_BYTES = 128 * 1024
"""Bodies with more JSON than this are coded in a thread, or they would hold up all other requests."""

_request_id: ContextVar[str] = ContextVar("request_id")
"""Of the request that is being served."""

_T = TypeVar("_T")


async def _off_loop_if(heavy: bool, function: Callable[..., _T], *arguments: Any) -> _T:
    return await asyncio.to_thread(function, *arguments) if heavy else function(*arguments)


async def _generated(answer: Any) -> bytes:
    heavy = sum(len(raw) for raw in answer.raw_output_contents) > _HEAVY_JSON_BYTES
    return await _off_loop_if(heavy, generate.encode_response, answer)


def _names(request: web.Request) -> tuple[str, str]:
    return request.match_info["model"], request.match_info.get("version", "")


def _json(value: Any) -> web.Response:
    return web.Response(body=jsonbody.dump(value), content_type="application/json")


class HttpFront:
    """The HTTP routes over a data plane.

    Args:
        plane: the server behind.
        accountant: counts the inferences.
        max_body_bytes: largest body accepted, after decompression.
        routing_key_header: header with the routing key.
    """

    def __init__(
        self,
        plane: DataPlane,
        accountant: Accountant,
        max_body_bytes: int,
        routing_key_header: str = ROUTING_KEY_HEADER,
    ) -> None:
        self._plane = plane
        self._routing_key_header = routing_key_header
        self._accountant = accountant
        self._max_body_bytes = max_body_bytes

    def application(self) -> web.Application:
        """An aiohttp application with all routes."""
        app = web.Application(
            client_max_size=self._max_body_bytes,
            middlewares=[self._request_ids, errors_as_json, self._refuse_when_stopping],
        )
        app[MAX_BODY_BYTES] = self._max_body_bytes
        router = app.router
        router.add_get("/v2", self._server_metadata)
        router.add_get("/v2/health/live", self._live)
        router.add_get("/v2/health/ready", self._ready)
        router.add_get("/v2/models/stats", self._statistics)
        router.add_post("/v2/repository/index", self._index)
        router.add_get("/v2/trace/setting", self._trace_settings)
        router.add_get(_MODEL + "/trace/setting", self._trace_settings)
        router.add_get("/v2/logging", self._log_settings)
        for prefix in (_MODEL, _VERSIONED):
            router.add_get(prefix, self._metadata)
            router.add_get(prefix + "/config", self._config)
            router.add_get(prefix + "/ready", self._model_ready)
            router.add_get(prefix + "/stats", self._statistics)
            router.add_post(prefix + "/infer", self._infer)
            router.add_post(prefix + "/generate", self._generate)
            router.add_post(prefix + "/generate_stream", self._generate_stream)
        for method, path in _CONTROL:
            router.add_route(method, path, self._control)
        return app

    # ---- middlewares

    @web.middleware
    async def _request_ids(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get(REQUEST_ID_HEADER, "")
        _request_id.set(given if _REQUEST_ID.match(given) else new_request_id())
        response = await handler(request)
        response.headers[REQUEST_ID_HEADER] = _request_id.get()
        if self._plane.stopped.is_set():
            response.force_close()  # the next request is to find another server
        return response

    @web.middleware
    async def _refuse_when_stopping(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith("/v2/health/"):
            self._plane.refuse_if_stopping()
        return await handler(request)

    # ---- inference

    async def _infer(self, request: web.Request) -> web.Response:
        name, version = _names(request)
        with self._accountant.request(name, "http") as record:
            self._describe(record, request)
            body = await read_body(request)
            header = request.headers.get(openinference.HEADER_LENGTH)
            heavy = openinference.json_length(header, len(body)) > _HEAVY_JSON_BYTES
            message, form = await _off_loop_if(heavy, openinference.decode_request, body, header, name, version)
            answer = await self._plane.infer(message, record)
            return await self._infer_response(request, answer, form)

    def _describe(self, record: RequestRecord, request: web.Request) -> None:
        record.client_id = _request_id.get()
        record.routing_key = request.headers.get(self._routing_key_header, "")

    async def _infer_response(self, request: web.Request, answer: Any, form: openinference.OutputForm) -> web.Response:
        json_bytes = sum(
            len(raw)
            for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=False)
            if not form.is_binary(output.name)
        )
        body, json_length = await _off_loop_if(
            json_bytes > _HEAVY_JSON_BYTES, openinference.encode_response, answer, form
        )
        response = web.Response(body=body)
        if json_length is None:
            response.content_type = "application/json"
        else:
            response.content_type = "application/octet-stream"
            response.headers[openinference.HEADER_LENGTH] = str(json_length)
        coding = coding_for(
            request.headers.get("Accept-Encoding", ""), is_binary=json_length is not None, body_bytes=len(body)
        )
        if coding is not None:
            response.enable_compression(web.ContentCoding(coding))
        return response

    async def _generate_message(self, request: web.Request, record: RequestRecord) -> Any:
        name, version = _names(request)
        self._describe(record, request)
        body = await read_body(request)
        if name in self._plane.voices or self._plane.voice_of_stream(name) is not None:
            inputs = generate.VOICE_GENERATE_INPUTS
        else:
            config = (await self._plane.config(name, version)).config
            inputs = generate.inputs_of_config(config)
        return await _off_loop_if(len(body) > _HEAVY_JSON_BYTES, generate.decode_request, body, name, version, inputs)

    async def _generate_answer(self, request: web.Request, record: RequestRecord) -> bytes:
        message = await self._generate_message(request, record)
        return await _generated(await self._plane.infer(message, record))

    async def _generate(self, request: web.Request) -> web.Response:
        with self._accountant.request(request.match_info["model"], "generate") as record:
            body = await self._generate_answer(request, record)
            return web.Response(body=body, content_type="application/json")

    async def _generate_stream(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["model"]
        events = EventStream(request, {REQUEST_ID_HEADER: _request_id.get()}, self._plane.stall_timeout_s)
        try:
            with self._accountant.request(name, "generate_stream") as record:
                if self._plane.voice_of_stream(name) is None:
                    # as Triton does for models that give one answer
                    body = generate.event(await self._generate_answer(request, record))
                    return web.Response(body=body, content_type="text/event-stream", charset="utf-8")
                message = await self._generate_message(request, record)
                wants_empty_final = take_empty_final(message)
                async with aclosing(self._plane.stream(message, record)) as pieces:
                    async for piece, is_last in pieces:
                        for answer in marked(piece, is_last=is_last, wants_empty_final=wants_empty_final):
                            await events.write(await _generated(answer), record)
        except VoxrepoError as error:
            if not events.has_begun:
                raise
            await events.fail(error)
        else:
            await events.end()
        return events.response

    # ---- everything else

    async def _server_metadata(self, _request: web.Request) -> web.Response:
        return _json(views.plain(views.server_metadata()))

    async def _live(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _ready(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if await self._plane.ready() else 503)

    async def _model_ready(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if await self._plane.model_ready(*_names(request)) else 503)

    async def _metadata(self, request: web.Request) -> web.Response:
        return _json(views.plain(await self._plane.metadata(*_names(request))))

    async def _config(self, request: web.Request) -> web.Response:
        return _json(views.plain((await self._plane.config(*_names(request))).config))

    async def _statistics(self, request: web.Request) -> web.Response:
        name, version = request.match_info.get("model", ""), request.match_info.get("version", "")
        return _json(views.plain(await self._plane.statistics(name, version)))

    async def _index(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        ready_only = jsonbody.parse_object(body).get("ready", False) if body.strip() else False
        if not isinstance(ready_only, bool):
            raise InvalidArgument("'ready' must be true or false")
        index = await self._plane.index(ready_only)
        # Triton leaves out what is empty here
        return _json([{k: v for k, v in views.plain(entry).items() if v != ""} for entry in index.models])

    async def _trace_settings(self, request: web.Request) -> web.Response:
        settings = await self._plane.trace_settings(request.match_info.get("model", ""))
        return _json(views.plain_settings(settings))

    async def _log_settings(self, _request: web.Request) -> web.Response:
        return _json(views.plain_settings(await self._plane.log_settings()))

    async def _control(self, request: web.Request) -> web.Response:
        raise PermissionDenied(
            f"{request.path[:200]} is not available to clients; models are managed with the voxrepo command"
        )
