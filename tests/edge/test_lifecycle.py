"""Start, stop, a vanishing engine, a changing table, a vanishing parent."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as rpc

from voxrepo.edge.table import EdgeTable, Problem, write_table

from .harness import EdgeProcess, Engine, sample_table, voice, wait_until
from .test_bad_input import error_of, grpc_error, grpc_request, http_call


def test_a_stop_finishes_what_runs_and_refuses_what_comes(engine: Engine, tmp_path: Path) -> None:
    edge = EdgeProcess(engine.target, tmp_path)
    answers: dict[str, Any] = {}
    kept = http.client.HTTPConnection("127.0.0.1", edge.http_port, timeout=30)
    kept.request("GET", "/v2/health/live")
    kept.getresponse().read()

    def over_http() -> None:
        kept_busy = http_call(edge, "/v2/models/en-test/generate", b'{"text": "sleep 1500"}')
        answers["http"] = kept_busy[0]

    def over_grpc() -> None:
        with grpc.insecure_channel(edge.grpc) as channel:
            response = rpc.GRPCInferenceServiceStub(channel).ModelInfer(grpc_request(text=b"sleep 1500"))
            answers["grpc"] = response.model_name

    def stream() -> None:
        def requests() -> Any:
            yield grpc_request(text=b"sleep 1500")
            threading.Event().wait(10)  # an idle stream must not hold up the stop

        with grpc.insecure_channel(edge.grpc) as channel:
            call = rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(requests())
            answers["stream"] = [next(call).infer_response.model_name]
            answers["stream end"] = end_of(call)

    threads = [threading.Thread(target=work, daemon=True) for work in (over_http, over_grpc, stream)]
    for thread in threads:
        thread.start()
    wait_until(lambda: edge.metric("voxrepo_engine_calls") == 3, "three calls")
    started = time.monotonic()
    edge.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in edge.log(), "the stop")
    kept.request("POST", "/v2/models/en-test/generate", b'{"text": "hi"}')
    response = kept.getresponse()
    assert response.status == 503
    assert b"stopping" in response.read()
    kept.close()
    assert response.getheader("Connection") == "close"
    assert response.getheader("Retry-After")
    status, message = error_of(http_call(edge, "/v2/models/en-test/generate", b'{"text": "hi"}'))
    assert (status, "the server is stopping" in message) == (503, True)
    code, message = grpc_error(edge, grpc_request())
    assert (code, "the server is stopping" in message) == ("UNAVAILABLE", True)
    assert http_call(edge, "/v2/health/live")[0] == 200
    assert http_call(edge, "/v2/health/ready")[0] == 503
    assert edge.process.wait(30) == 0
    assert 1 < time.monotonic() - started < 8
    for thread in threads:
        thread.join(10)
    assert answers == {
        "http": 200,
        "grpc": "en-test",
        "stream": ["en-test"],
        "stream end": ("UNAVAILABLE", True),
    }
    assert "Traceback" not in edge.log()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", edge.http_port))


def end_of(call: Any) -> tuple[str, bool]:
    """Status of a call that fails, and whether the server itself says that it stops."""
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    return caught.value.code().name, "the server is stopping" in caught.value.details()


class LateCaller:
    """Calls without pause while a server stops, over old connections and new ones."""

    def __init__(self, edge: EdgeProcess, work: Callable[[EdgeProcess, list[str]], None]) -> None:
        self.outcomes: list[str] = []
        self._edge, self._work = edge, work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._edge.process.poll() is None:
            self._work(self._edge, self.outcomes)

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


def call_grpc(channel: grpc.Channel, outcomes: list[str]) -> None:
    try:
        rpc.GRPCInferenceServiceStub(channel).ModelInfer(grpc_request(), timeout=20)
        outcomes.append("ok")
    except grpc.RpcError as error:
        said = "the server is stopping" in error.details()
        outcomes.append(f"{error.code().name}{' by the server' if said else ''}")


def over_new_grpc_connections(edge: EdgeProcess, outcomes: list[str]) -> None:
    with grpc.insecure_channel(edge.grpc, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        call_grpc(channel, outcomes)


def over_one_grpc_connection(edge: EdgeProcess, outcomes: list[str]) -> None:
    with grpc.insecure_channel(edge.grpc, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        while edge.process.poll() is None:
            call_grpc(channel, outcomes)


def over_grpc_streams(edge: EdgeProcess, outcomes: list[str]) -> None:
    with grpc.insecure_channel(edge.grpc, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        while edge.process.poll() is None:
            try:
                answers = list(rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([grpc_request()])))
                assert len(answers) == 1, "the stream ended as if nothing had been asked"
                refused = "the server is stopping" in answers[0].error_message
                outcomes.append("UNAVAILABLE by the server" if refused else answers[0].error_message or "ok")
            except grpc.RpcError as error:
                said = "the server is stopping" in error.details()
                outcomes.append(f"{error.code().name}{' by the server' if said else ''}")


def over_http(edge: EdgeProcess, outcomes: list[str]) -> None:
    kept = http.client.HTTPConnection("127.0.0.1", edge.http_port, timeout=20)
    try:
        while edge.process.poll() is None:
            kept.request("POST", "/v2/models/en-test/generate", b'{"text": "hi"}')
            answer = kept.getresponse()
            said = b"the server is stopping" in answer.read()
            outcomes.append("UNAVAILABLE by the server" if (answer.status, said) == (503, True) else str(answer.status))
    except (ConnectionError, http.client.RemoteDisconnected):
        outcomes.append("UNAVAILABLE")
    finally:
        kept.close()


def test_who_calls_while_the_server_stops_is_told_so_until_nobody_is_there(engine: Engine, tmp_path: Path) -> None:
    """gRPC's own stop answers CANCELLED to calls that come at that moment."""
    seen: Counter[str] = Counter()
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        edge = EdgeProcess(engine.target, folder)
        works = (over_new_grpc_connections, over_one_grpc_connection, over_grpc_streams, over_http)
        callers = [LateCaller(edge, work) for work in works * 5]
        wait_until(lambda: all(caller.outcomes for caller in callers), "all call")  # noqa: B023
        edge.process.send_signal(signal.SIGTERM)
        assert edge.process.wait(30) == 0
        for caller in callers:
            caller.join()
            seen.update(caller.outcomes)
        assert "Traceback" not in edge.log()
    assert set(seen) <= {"ok", "200", "UNAVAILABLE by the server", "UNAVAILABLE"}, seen
    assert seen["UNAVAILABLE by the server"] > 20, seen


def test_a_stop_does_not_wait_beyond_the_drain_timeout(engine: Engine, tmp_path: Path) -> None:
    edge = EdgeProcess(engine.target, tmp_path, "--drain-timeout-s", "0.5")
    with grpc.insecure_channel(edge.grpc) as channel:
        call = rpc.GRPCInferenceServiceStub(channel).ModelInfer.future(grpc_request(text=b"sleep 4000"))
        wait_until(lambda: edge.metric("voxrepo_engine_calls") == 1, "the call")
        started = time.monotonic()
        assert edge.stop() == 1
        assert time.monotonic() - started < 3
        assert call.exception() is not None
    assert "engine calls still run" in edge.log()
    assert engine.is_alive()


@pytest.mark.parametrize("flag", ["--http-port", "--grpc-port", "--metrics-port"])
def test_a_port_in_use_is_one_sentence_with_port_and_flag(tmp_path: Path, flag: str) -> None:
    write_table(tmp_path / "table.json", sample_table())
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ports = {"--http-port": 0, "--grpc-port": 0, "--metrics-port": 0, flag: port}
        command = [sys.executable, "-m", "voxrepo.edge", "--engine", "unix:/nowhere", "--table", "table.json"]
        command += [part for name, value in ports.items() for part in (name, str(value))]
        done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert str(port) in lines[0]
    assert flag in lines[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--table", "missing.json"], "missing.json"),
        (["--table", "bad.json"], "bad.json"),
        (["--table", "table.json", "--host", "no.such.host.invalid"], "--host"),
        (["--table", "table.json", "--http-port", "70000"], "port (0 to 65535)"),
    ],
)
def test_wrong_options_end_with_status_2(tmp_path: Path, arguments: list[str], told: str) -> None:
    write_table(tmp_path / "table.json", sample_table())
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    command = [sys.executable, "-m", "voxrepo.edge", "--engine", "unix:/nowhere"]
    done = subprocess.run([*command, *arguments], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_an_engine_that_is_down_is_503_until_it_is_back(engine: Engine, tmp_path: Path) -> None:
    edge = EdgeProcess(engine.target, tmp_path)
    assert http_call(edge, "/v2/health/ready")[0] == 200
    engine.stop()
    try:
        status, message = error_of(http_call(edge, "/v2/models/en-test/generate", b'{"text": "hi"}'))
        assert status == 503
        assert "/" not in message  # no paths of sockets
        code, message = grpc_error(edge, grpc_request())
        assert code == "UNAVAILABLE"
        assert "engine cannot be reached" in message
        assert http_call(edge, "/v2/health/ready")[0] == 503
        assert http_call(edge, "/v2/models/en-test/ready")[0] == 503
        assert http_call(edge, "/v2/health/live")[0] == 200
        assert error_of(http_call(edge, "/v2/models/en-test/config"))[0] == 503
    finally:
        engine.start(engine.metrics_port)
    wait_until(lambda: http_call(edge, "/v2/health/ready")[0] == 200, "readiness", 5)
    assert http_call(edge, "/v2/models/en-test/generate", b'{"text": "hi"}')[0] == 200
    assert edge.stop() == 0


def test_a_new_table_is_taken_while_serving(engine: Engine, tmp_path: Path) -> None:
    edge = EdgeProcess(engine.target, tmp_path, table=EdgeTable(generation=1))
    assert grpc_error(edge, grpc_request("en-absent"))[0] == "NOT_FOUND"
    write_table(edge.table_file, EdgeTable(generation=2, voices={"en-test": voice("en-test", max_text_chars=5)}))

    def refused_as_too_long() -> bool:
        body = b'{"text": "too long", "speed": 1, "speaker": "", "seed": 1}'
        status, _, answer = http_call(edge, "/v2/models/en-test/generate", body)
        return status == 400 and b"limit of voice 'en-test' is 5" in answer

    wait_until(refused_as_too_long, "the new table", 3)
    edge.table_file.write_text("{", encoding="utf-8")
    wait_until(lambda: "generation 2 stays" in edge.log(), "the log line", 3)
    assert refused_as_too_long()
    assert edge.stop() == 0


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (EdgeTable(generation=1, loading=["en-test", "unseen"]), "is loading; try again in a moment"),
        (
            EdgeTable(generation=1, problems=[Problem(model=name, reason="silent") for name in ("en-test", "unseen")]),
            "is not served: something is wrong with it",
        ),
    ],
)
def test_what_is_not_served_is_503_at_every_door(engine: Engine, tmp_path: Path, table: EdgeTable, said: str) -> None:
    edge = EdgeProcess(engine.target, tmp_path, table=table)
    # the engine has loaded the first and does not know the second
    for name in ("en-test", "unseen"):
        with grpc.insecure_channel(edge.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
            rpc.GRPCInferenceServiceStub(channel).ModelInfer(grpc_request(name), timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert f"{name} {said}" in caught.value.details()
        assert ("retry-after", "1") in caught.value.trailing_metadata()
        for method in ("generate", "generate_stream"):
            status, message = error_of(http_call(edge, f"/v2/models/{name}/{method}", b'{"text": "hi"}'))
            assert status == 503
            assert f"{name} {said}" in message
        assert http_call(edge, f"/v2/models/{name}/ready")[0] == 503
    status, _, body = http_call(edge, "/v2/repository/index", b"{}")
    assert status == 200
    states = {entry["name"]: entry["state"] for entry in json.loads(body)}
    assert "READY" not in (states["en-test"], states["unseen"])
    assert states["double"] == "READY"
    assert edge.stop() == 0


def test_ends_with_its_parent(engine: Engine, tmp_path: Path) -> None:
    write_table(tmp_path / "table.json", sample_table())
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'voxrepo.edge', *sys.argv[1:]])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    arguments = ["--engine", engine.target, "--table", "table.json", "--ready-file", "ready.json"]
    arguments += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        wait_until((tmp_path / "ready.json").exists, "the start")
        parent.kill()
        wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the end", 10)


def test_metrics_hold_the_engines_series_too(edge: EdgeProcess) -> None:
    http_call(edge, "/v2/models/en-test/generate", b'{"text": "hi"}')
    text = edge.metrics_text()
    assert "voxrepo_engine_metrics_up 1.0" in text
    assert 'nv_inference_request_success{model="en-test"' in text
    assert edge.metric("voxrepo_audio_seconds_total", model="en-test") > 0


def test_unknown_names_do_not_become_series(edge: EdgeProcess) -> None:
    before = edge.metric("voxrepo_requests_total", model="unknown")
    for name in ("ghost-1", "ghost-2"):
        grpc_error(edge, pb.ModelInferRequest(model_name=name))
        http_call(edge, f"/v2/models/{name}/generate", b'{"text": "hi"}')
    assert edge.metric("voxrepo_requests_total", model="unknown") == before + 4
    assert "ghost" not in edge.metrics_text()


def test_the_text_is_logged_only_on_demand(engine: Engine, tmp_path: Path) -> None:
    edge = EdgeProcess(engine.target, tmp_path, "--log-text")
    http_call(edge, "/v2/models/en-test/generate", b'{"text": "spoken words"}')
    assert edge.stop() == 0
    assert '"text": "spoken words"' in edge.log()


def test_no_port_is_shared_with_a_second_edge(edge: EdgeProcess, tmp_path: Path) -> None:
    write_table(tmp_path / "table.json", sample_table())
    command = [sys.executable, "-m", "voxrepo.edge", "--engine", "unix:/nowhere", "--table", "table.json"]
    command += ["--http-port", "0", "--metrics-port", "0", "--grpc-port", str(edge.grpc_port)]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
