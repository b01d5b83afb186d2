"""Clients that do not keep to the protocols, each as one short act. All return in one word what came of it."""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import grpc
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.calls import SENTENCES
from tests.e2e.streams import SERVICE_METHOD, STREAM, request_for
from tests.harness import VOICE, RunningServer

TIMEOUT_S = 20
SERVICE = SERVICE_METHOD.rpartition("/")[0]
SENTENCE = "The next request is right."

Act = Callable[[RunningServer], str]


def port_of(url: str) -> tuple[str, int]:
    host, _, port = url.partition("/")[0].rpartition(":")
    return host, int(port)


@contextmanager
def connection(url: str, receive_bytes: int = 0, aborts: bool = False) -> Iterator[socket.socket]:
    """A plain connection; ``aborts`` ends it with a reset instead of an orderly end."""
    with socket.socket() as plain:
        if receive_bytes:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if aborts:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        plain.settimeout(TIMEOUT_S)
        plain.connect(port_of(url))
        yield plain


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: test", "Connection: close", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def generate_path(model: str = VOICE) -> str:
    return f"/v2/models/{model}/generate"


def status_of(answer: bytes) -> str:
    """The status code; ``closed`` if the server said nothing."""
    return answer.split(b" ", 2)[1].decode() if answer.startswith(b"HTTP/1.") else "closed"


def read_all(plain: socket.socket) -> bytes:
    parts = []
    with suppress(ConnectionError):
        while part := plain.recv(65536):
            parts.append(part)
    return b"".join(parts)


def half_open(server: RunningServer) -> str:
    """Says the beginning of a request, or nothing, and stays until it goes without a word."""
    url = random.choice((server.http_url, server.grpc_url, server.metrics_url))
    whole = post(generate_path(), b'{"text": "Hello."}', "Content-Length: 18")
    if url == server.grpc_url:
        whole = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
    with connection(url, aborts=random.random() < 0.5) as plain:
        plain.sendall(whole[: random.randrange(len(whole))])
        time.sleep(random.uniform(0.05, 0.5))
    return "left"


def slow_reader(server: RunningServer) -> str:
    """Asks for a long stream, reads a few bytes of it at a time, and leaves."""
    body = json.dumps({"text": " ".join(SENTENCES)}).encode()
    path = f"/v2/models/{STREAM}/generate_stream"
    with connection(server.http_url, receive_bytes=2048) as plain:
        plain.sendall(post(path, body, f"Content-Length: {len(body)}"))
        answer = plain.recv(16)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            if not plain.recv(16):
                break
            time.sleep(0.01)
    return status_of(answer)


def garbage(server: RunningServer) -> str:
    """Random bytes to any door."""
    url = random.choice((server.http_url, server.grpc_url, server.metrics_url))
    start = random.choice((b"", b"", b"POST ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    with suppress(OSError), connection(url) as plain:
        plain.sendall(start + random.randbytes(random.choice((1, 100, 4096, 60_000))))
        plain.shutdown(socket.SHUT_WR)
        read_all(plain)
    return "sent"


def tiny_chunks(server: RunningServer) -> str:
    """A right request in chunks of one byte."""
    body = json.dumps({"text": SENTENCE, "seed": 1}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    whole = post(generate_path(), b"", "Transfer-Encoding: chunked")
    with connection(server.http_url) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.sendall(whole)
        for byte in range(0, len(chunks), 6):
            plain.sendall(chunks[byte : byte + 6])
        return status_of(read_all(plain))


def large_headers(server: RunningServer) -> str:
    """Headers beyond any limit, by either door."""
    size = random.choice((9_000, 70_000, 2_000_000))
    if random.random() < 0.5:
        with connection(server.http_url) as plain:
            with suppress(ConnectionError):
                header = f"X-Large: {'x' * size}"
                plain.sendall(post(generate_path(), b'{"text": "Hello."}', "Content-Length: 18", header))
            return status_of(read_all(plain))
    return grpc_status(server, "ModelInfer", request_for(SENTENCE, 1, VOICE), (("x-large", "x" * size),))


def wrong_lengths(server: RunningServer) -> str:
    """Bodies that are shorter or longer than said, or of a length that is none."""
    body = b'{"text": "Hello."}'
    short = ("Content-Length: 500",)
    headers = random.choice(
        (
            short,
            ("Content-Length: 5",),
            ("Content-Length: -1",),
            ("Content-Length: many",),
            ("Content-Length: 18", "Content-Length: 17"),
            ("Content-Length: 18", "Transfer-Encoding: chunked"),
            ("Content-Length: 99999999999999999999",),
            ("Content-Length: 18", "Inference-Header-Content-Length: 99"),
        )
    )
    path = f"/v2/models/{VOICE}/infer"
    with connection(server.http_url) as plain:
        plain.sendall(post(path, body, *headers))
        if headers is short:  # the rest will never come
            plain.shutdown(socket.SHUT_WR)
        return status_of(read_all(plain))


def grpc_status(
    server: RunningServer, method: str, request: object, metadata: tuple[tuple[str, str], ...] = (), raw: bytes = b""
) -> str:
    """Status of a unary call over a connection of its own."""
    with grpc.insecure_channel(server.grpc_url, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.unary_unary(
            f"{SERVICE}/{method}", request_serializer=lambda message: raw or message.SerializeToString()
        )
        try:
            call(request, timeout=TIMEOUT_S, metadata=metadata)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def unknown_methods(server: RunningServer) -> str:
    """Methods and paths that there are not."""
    if random.random() < 0.5:
        name = random.choice(("ModelGuess", "", "../../ModelInfer", "ModelInfer/", "x" * 500))
        return grpc_status(server, name, pb.ModelInferRequest(), raw=random.randbytes(20))
    method = random.choice(("BREW", "TRACE", "CONNECT", "DELETE", "PATCH", "x" * 500))
    path = random.choice((generate_path(), "/v3", "/v2/models/%00/infer", "//", "*", "/v2/" + "%2e%2e/" * 50))
    with connection(server.http_url) as plain:
        plain.sendall(f"{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode())
        return status_of(read_all(plain))


def triton_grpc_error(server: RunningServer) -> str:
    """Streams of good and bad requests with the header that makes Triton end a stream by its first error."""
    requests = [
        request_for(random.choice(("", "Hello.", "x" * 5000)), 1, random.choice((STREAM, VOICE, "nobody")), str(number))
        for number in range(random.randint(1, 3))
    ]
    answers = 0
    with grpc.insecure_channel(server.grpc_url, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.stream_stream(
            SERVICE_METHOD,
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )(iter(requests), timeout=TIMEOUT_S, metadata=(("triton_grpc_error", "true"),))
        try:
            for _ in call:
                answers += 1
                if random.random() < 0.2:
                    call.cancel()
        except grpc.RpcError as error:
            return str(error.code().name)
    return "answered" if answers else "nothing"


def control_calls(server: RunningServer) -> str:
    """Calls that would change the server."""
    requests: dict[str, object] = {
        "RepositoryModelLoad": pb.RepositoryModelLoadRequest(model_name=random.choice((VOICE, "x"))),
        "RepositoryModelUnload": pb.RepositoryModelUnloadRequest(model_name=random.choice((VOICE, "x"))),
        "SystemSharedMemoryRegister": pb.SystemSharedMemoryRegisterRequest(name="x", key="/x", byte_size=8),
        "SystemSharedMemoryUnregister": pb.SystemSharedMemoryUnregisterRequest(),
        "LogSettings": pb.LogSettingsRequest(
            settings={"log_file": pb.LogSettingsRequest.SettingValue(string_param="/tmp/never")}
        ),
        "TraceSetting": pb.TraceSettingRequest(
            settings={"trace_level": pb.TraceSettingRequest.SettingValue(value=["TIMESTAMPS"])}
        ),
    }
    if random.random() < 0.5:
        method, request = random.choice(list(requests.items()))
        return grpc_status(server, method, request)
    model = random.choice((VOICE, f"{VOICE}.vocoder"))
    path = random.choice(
        (
            *(f"/v2/repository/models/{model}/{verb}" for verb in ("load", "unload")),
            *("/v2/trace/setting", "/v2/logging", "/v2/systemsharedmemory/region/x/register"),
        )
    )
    with connection(server.http_url) as plain:
        plain.sendall(post(path, b"{}", "Content-Length: 2"))
        return status_of(read_all(plain))


def stream_cancels(server: RunningServer) -> str:
    """Several streams of one call, dropped at any moment, or ended by a deadline."""
    requests = [request_for(" ".join(SENTENCES[:4]), number, STREAM, str(number)) for number in range(3)]
    with grpc.insecure_channel(server.grpc_url, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        timeout_s = random.uniform(0.01, 0.6) if random.random() < 0.3 else TIMEOUT_S
        call = channel.stream_stream(
            SERVICE_METHOD,
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )(iter(requests), timeout=timeout_s)
        wanted = random.randint(0, 3)
        try:
            for answers, _ in enumerate(call, start=1):
                if answers > wanted:
                    call.cancel()
        except grpc.RpcError as error:
            return str(error.code().name)
    return "answered"
