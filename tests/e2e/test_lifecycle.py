"""Starting, stopping, being killed, and what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e.calls import SENTENCES, Audio, inputs_for, speak
from tests.harness import START_TIMEOUT_S, VOICE, RunningServer, clone_root, pid_of, running_server, voxrepo
from voxrepo.engine.sweep import leftover_processes
from voxrepo.repository.check import check_voice
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_configs
from voxrepo.repository.voice import read_voice, write_voice

pytestmark = pytest.mark.e2e


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    return clone_root(voice_root, tmp_path / "root")


def left_behind(server: RunningServer) -> list[str]:
    """Processes, shared memory and folders of a server that should be gone."""
    found = [f"process {p.pid}" for p in leftover_processes(server.workspace)]
    found += [str(region) for region in Path("/dev/shm").glob(f"{server.workspace.shm_prefix}*")]
    if server.workspace.path.exists():
        found.append(str(server.workspace.path))
    return found


def wait_until(condition: Callable[[], object], timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.05)


def says(server: RunningServer, text: str = "Still here.") -> Audio:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        return speak(client, text)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_a_stop_signal_ends_it_cleanly_and_leaves_nothing(root: Path, number: signal.Signals) -> None:
    with running_server(root) as server:
        says(server)
        tree = server.tree()
        server.process.send_signal(number)
        assert server.process.wait(30) == 0
        assert not [process for process in tree if process.is_running()]
        assert not left_behind(server)


def test_a_request_in_flight_is_answered_before_it_stops(root: Path) -> None:
    with running_server(root) as server:
        answers: list[Audio] = []
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            thread = threading.Thread(target=lambda: answers.append(speak(client, " ".join(SENTENCES))))
            thread.start()
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            thread.join(60)
        assert server.process.wait(30) == 0
        assert len(answers) == 1


def test_a_second_signal_cuts_off_what_is_in_flight_and_the_exit_code_says_so(root: Path) -> None:
    with running_server(root) as server:
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            failed: list[InferenceServerException | None] = []
            text = " ".join(SENTENCES * 3)
            client.async_infer("en-joe", inputs_for(grpc_client, text), lambda result, error: failed.append(error))
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: server.read_state()["phase"] == "draining")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 1
            wait_until(lambda: failed)
        assert failed[0] is not None
        assert not left_behind(server)


@pytest.mark.soak
def test_an_engine_that_cannot_stop_does_not_hold_up_the_end(root: Path) -> None:
    with running_server(root, "--drain-timeout", "40") as server:
        stub = next(p for p in server.tree() if "stub" in p.name() and f"{VOICE}.vocoder" in " ".join(p.cmdline()))
        stub.kill()  # the engine waits for it at its end
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(30)
        assert not left_behind(server)


@pytest.mark.soak
def test_after_kill_9_of_everything_the_next_start_is_clean(root: Path) -> None:
    with running_server(root) as server:
        server.kill()
        assert any(Path("/dev/shm").glob(f"{server.workspace.shm_prefix}*")), "nothing to clean: the test shows nothing"
    with running_server(root) as server:
        says(server)
        server.stop()
        assert not left_behind(server)


def test_engine_and_edge_die_with_a_killed_supervisor(root: Path) -> None:
    with running_server(root) as server:
        children = server.tree()[1:]
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(10)
        psutil.wait_procs(children, timeout=10)
        assert not [process for process in children if process.is_running()]
    with running_server(root) as server:
        says(server)


@pytest.mark.parametrize("victim", ["edge", "engine"])
def test_a_killed_child_is_replaced_on_the_same_ports(root: Path, victim: str) -> None:
    with running_server(root) as server:
        before = server.read_state()
        pid = pid_of(before, victim)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        def replaced() -> bool:
            now = server.read_state()
            return now.get("phase") == "ready" and pid_of(now, victim) not in {None, pid}

        wait_until(replaced, START_TIMEOUT_S)
        assert server.read_state()["grpc_url"] == before["grpc_url"]
        assert len(says(server)) > 0


@pytest.mark.soak
def test_an_engine_that_dies_comes_back_with_the_versions_that_the_server_started_with(root: Path) -> None:
    """Whoever pins other versions meanwhile, as ``voxrepo convert --use`` does, renders other configurations, too."""
    layout = Layout.of(root)
    with running_server(root) as server:
        before = server.read_state()
        shutil.copytree(layout.version_dir(f"{VOICE}.vocoder", 1), layout.version_dir(f"{VOICE}.vocoder", 2))
        spec = read_voice(layout, VOICE)
        vocoder = spec.stages.vocoder.model_copy(update={"version": 2})
        write_voice(layout, spec.model_copy(update={"stages": spec.stages.model_copy(update={"vocoder": vocoder})}))
        config = layout.model_repository / f"{VOICE}.vocoder" / "config.pbtxt"
        assert config in publish_configs(layout, check_voice(layout, VOICE), usable_cores())
        assert "versions: 2" in config.read_text()
        os.kill(before["engine_pid"], signal.SIGKILL)

        def replaced() -> bool:
            now = server.read_state()
            return now.get("phase") == "ready" and now["engine_pid"] not in {None, before["engine_pid"]}

        wait_until(replaced, START_TIMEOUT_S)
        assert len(says(server)) > 0
        (model,) = [model for model in server.read_state()["models"] if model["name"] == VOICE]
        assert (model["state"], model["versions"]["vocoder"]) == ("ready", 1)
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            models = client.get_model_repository_index().models
        found = {m.version: m.state for m in models if m.name == f"{VOICE}.vocoder"}
        assert found.get("1") == "READY" and found.get("2") != "READY"
    with running_server(root) as server:
        (model,) = [model for model in server.state["models"] if model["name"] == VOICE]
        assert (model["state"], model["versions"]["vocoder"]) == ("ready", 2)


@pytest.mark.parametrize("name", [pytest.param("with a blank", marks=pytest.mark.soak), "mit Umlauten äöü 中文"])
def test_folders_with_unusual_names_are_served(voice_root: Path, tmp_path: Path, name: str) -> None:
    root = clone_root(voice_root, tmp_path / name)
    with running_server(root) as server:
        says(server)


def test_a_second_server_for_the_same_folder_is_refused_and_the_first_goes_on(root: Path) -> None:
    with running_server(root) as server:
        second = voxrepo("serve", "--root", str(root), "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
        assert second.returncode == 1
        assert "already running" in second.stderr
        assert str(server.process.pid) in second.stderr
        says(server)


def test_a_port_in_use_is_named(root: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = voxrepo(
            "serve", "--root", str(root), "--http-port", str(port), "--grpc-port", "0", "--metrics-port", "0"
        )
    assert result.returncode == 1
    assert str(port) in result.stderr
    assert "--http-port" in result.stderr


def test_an_empty_folder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    result = voxrepo("serve", "--root", str(tmp_path), "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    assert result.returncode == 1
    assert "voxrepo voice import piper" in result.stderr


def test_background_status_and_stop(root: Path) -> None:
    place = ("--root", str(root))
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    assert voxrepo("status", *place).returncode == 1
    started = voxrepo("serve", *place, *ports, "--background")
    try:
        assert started.returncode == 0, started.stderr
        assert "voxrepo say" in started.stderr
        status = voxrepo("status", *place)
        assert status.returncode == 0, status.stderr
        assert "en-joe" in status.stderr
    finally:
        stopped = voxrepo("stop", *place)
    assert stopped.returncode == 0, stopped.stderr
    assert voxrepo("status", *place).returncode == 1
