from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

import voxrepo
from tests import harness
from tests.repository.tiny import make_voice
from voxrepo.cli import serve
from voxrepo.cli.main import app
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.state import ModelStatus, Phase, ServerState, StateFolder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "250", "NO_COLOR": "1", "TERM": "dumb"})


def write_state(root: Path, phase: Phase, models: list[ModelStatus], pid: int | None = None) -> ServerState:
    """The state of a server that runs in a process of ours."""
    pid = pid or os.getpid()
    state = ServerState(
        pid=pid,
        started_at=psutil.Process(pid).create_time(),
        phase=phase,
        models=models,
        http_url="http://localhost:8000",
        grpc_url="localhost:8001",
        metrics_url="http://localhost:8002/metrics",
        engine="test 1.0",
        log_folder=str(root / ".voxrepo" / "logs"),
    )
    folder = StateFolder(Layout.of(root))
    folder.create()
    folder.write(state)
    return state


READY = ModelStatus(name="en-joe", kind="voice", state="ready", versions={"acoustic": 3})
FAILED = ModelStatus(
    name="broken", kind="model", state="failed", reason="model.onnx: shape must be [batch, 2], see [/docs]"
)


def test_the_version_is_that_of_the_package():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"voxrepo {voxrepo.__version__}\n"


def test_without_arguments_the_commands_are_listed():
    result = run()
    for command in ("serve", "status", "stop", "voice"):
        assert command in result.output


@pytest.mark.parametrize("command", ["serve", "status", "stop", "voice", "voice import", "voice import piper"])
def test_every_command_has_help(command: str):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_the_package_can_be_run_as_a_program(tmp_path: Path):
    result = harness.voxrepo("status", "--root", str(tmp_path))
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == f"error: no server is running for {tmp_path}; start one with `voxrepo serve`\n"


@pytest.mark.parametrize("command", ["status", "stop"])
def test_without_a_server_there_is_one_sentence(tmp_path: Path, command: str):
    result = run(command, "--root", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr == f"error: no server is running for {tmp_path}; start one with `voxrepo serve`\n"
    assert list(tmp_path.iterdir()) == []


def test_the_root_can_come_from_the_environment(tmp_path: Path):
    result = CliRunner().invoke(app, ["status"], env={"VOXREPO_ROOT": str(tmp_path), "COLUMNS": "250"})
    assert f"no server is running for {tmp_path}" in result.stderr


def test_a_state_left_by_a_killed_server_does_not_count(tmp_path: Path):
    write_state(tmp_path, "ready", [READY])
    file = StateFolder(Layout.of(tmp_path)).server_file
    state = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(state | {"started_at": 1.0}), encoding="utf-8")
    assert run("status", "--root", str(tmp_path)).exit_code == 1


def test_status_of_a_ready_server(tmp_path: Path):
    write_state(tmp_path, "ready", [READY])
    result = run("status", "--root", str(tmp_path))
    assert result.exit_code == 0
    for part in ("ready", "test 1.0", "en-joe", "acoustic=3", "http://localhost:8000", "localhost:8001"):
        assert part in result.stderr


def test_status_says_why_something_is_not_served_letter_for_letter(tmp_path: Path):
    write_state(tmp_path, "degraded", [READY, FAILED])
    result = run("status", "--root", str(tmp_path))
    assert result.exit_code == 3
    assert FAILED.reason in result.stderr


def test_status_as_json_is_the_whole_state(tmp_path: Path):
    state = write_state(tmp_path, "degraded", [READY, FAILED])
    result = run("status", "--json", "--root", str(tmp_path))
    assert result.exit_code == 3
    assert ServerState.model_validate_json(result.stdout) == state


def test_status_finds_a_state_folder_elsewhere(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    write_state(tmp_path, "ready", [READY])
    (tmp_path / ".voxrepo").rename(elsewhere)
    assert run("status", "--root", str(tmp_path)).exit_code == 1
    assert run("status", "--root", str(tmp_path), "--state-dir", str(elsewhere)).exit_code == 0


def test_stop_asks_the_server_to_end_and_waits(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        write_state(tmp_path, "ready", [READY], process.pid)
        result = run("stop", "--root", str(tmp_path))
        assert result.exit_code == 0
        assert "stopped" in result.stderr
        assert not psutil.pid_exists(process.pid)


def test_stop_says_when_the_server_takes_too_long(tmp_path: Path):
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        write_state(tmp_path, "draining", [READY], process.pid)
        result = run("stop", "--timeout", "1", "--root", str(tmp_path))
        assert result.exit_code == 1
        assert f"pid {process.pid} is still running after 1 s; repeat `voxrepo stop`" in result.stderr
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)


def test_how_to_call_names_a_ready_voice_and_what_is_not_served(tmp_path: Path):
    text = serve._how_to_call(write_state(tmp_path, "degraded", [READY, FAILED]))
    assert "voxrepo say" in text
    assert "--voice en-joe --url localhost:8001" in text
    assert "curl -s http://localhost:8000/v2/models/en-joe/generate" in text
    assert f"broken is not served: {FAILED.reason}" in text


def test_how_to_call_promises_nothing_where_no_voice_is_ready(tmp_path: Path):
    assert "voxrepo say" not in serve._how_to_call(write_state(tmp_path, "degraded", [FAILED]))


@pytest.mark.parametrize(
    "arguments",
    [["--http-port", "70000"], ["--grpc-port", "-1"], ["--drain-timeout", "-1"], ["--drain-timeout", "inf"]],
)
def test_serve_refuses_values_out_of_range(arguments: list[str]):
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.stderr


def test_serve_refuses_an_engine_that_is_not_there(tmp_path: Path):
    result = harness.voxrepo("serve", "--root", str(tmp_path), "--engine", str(tmp_path / "tritonserver"))
    assert result.returncode == 1
    assert "--engine: no such file; give the path of a tritonserver executable" in result.stderr
    assert "Traceback" not in result.stderr


def test_serve_refuses_an_empty_root_and_says_how_to_fill_it(tmp_path: Path):
    result = harness.voxrepo("serve", "--root", str(tmp_path), "--http-port", "0", "--grpc-port", "0")
    assert result.returncode == 1
    assert f"nothing to serve in {tmp_path}" in result.stderr
    assert "voxrepo voice import piper --name en-joe" in result.stderr
    assert "Traceback" not in result.stderr


def test_serving_in_the_background_says_why_it_ended(tmp_path: Path):
    result = harness.voxrepo("serve", "--background", "--root", str(tmp_path))
    assert result.returncode == 1
    assert f"error: nothing to serve in {tmp_path}" in result.stderr
    assert "Traceback" not in result.stderr


def test_serving_in_the_background_refuses_a_state_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run("serve", "--background", "--root", str(tmp_path), "--state-dir", str(tmp_path / "file" / "state"))
    assert result.exit_code == 1
    assert "cannot be written (Not a directory); give another place with --state-dir" in result.stderr


def test_importing_a_missing_file_names_it(tmp_path: Path):
    missing = tmp_path / "voice.onnx"
    result = run("voice", "import", "piper", str(missing), "--name", "new", "--root", str(tmp_path / "root"))
    assert result.exit_code == 1
    assert str(missing) in result.stderr
    assert "no such file" in result.stderr
    assert not (tmp_path / "root" / "ensembles" / "new").exists()


@pytest.mark.parametrize("option", ["--config", "--licence"])
def test_an_option_that_the_default_voice_would_ignore_is_refused(tmp_path: Path, option: str):
    result = run("voice", "import", "piper", option, "x", "--root", str(tmp_path / "root"))
    assert result.exit_code == 1
    assert "--config and --licence belong to a voice of yours" in result.stderr


def test_importing_under_an_unsafe_name_is_refused(tmp_path: Path):
    result = run("voice", "import", "piper", "--name", "a b", "--root", str(tmp_path / "root"))
    assert result.exit_code == 1
    assert "--name 'a b': use letters, digits" in result.stderr
    assert not (tmp_path / "root").exists()


def test_importing_a_voice_that_is_there_can_be_skipped(tmp_path: Path):
    make_voice(Layout.of(tmp_path), "new")
    skipped = run("voice", "import", "piper", "--name", "new", "--if-missing", "--root", str(tmp_path))
    assert skipped.exit_code == 0
    assert "new is there already" in skipped.stderr


def test_status_shows_versions_of_models_those_left_out_and_the_device(tmp_path: Path):
    partly = ModelStatus(name="m", kind="model", state="ready", served=[1, 3], left_out={2: "it is empty"})
    state = write_state(tmp_path, "degraded", [READY, partly])
    StateFolder(Layout.of(tmp_path)).write(state.model_copy(update={"device_label": "EMULATOR, no NPU: for tests"}))
    result = run("status", "--root", str(tmp_path))
    assert "1 3" in result.stderr
    assert "m version 2 is not served: it is empty" in result.stderr
    assert "device   EMULATOR, no NPU: for tests" in result.stderr


def test_serve_refuses_an_npu_where_there_is_none(tmp_path: Path):
    result = harness.voxrepo("serve", "--root", str(tmp_path), "--device", "npu")
    assert result.returncode == 1
    assert "error: --device npu: there is no NPU here (no /dev/davinci0 or the like)" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--device", "gpu"], "'gpu' is not one of"),
        (["--worker-python", "/nowhere/python"], "--worker-python: no such program"),
    ],
)
def test_serve_refuses_devices_and_programs_that_are_not_there(tmp_path: Path, arguments: list[str], says: str):
    result = harness.voxrepo("serve", "--root", str(tmp_path), *arguments)
    assert result.returncode in {1, 2}
    assert says in result.stderr
