"""The worker as a process: whose life it shares, what it sees, under which Pythons it runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from om_backend.device import protocol
from om_backend.device.client import DeviceWorker
from om_backend.device.settings import WorkerSettings, worker_environment

from tests.backends.ascend_om.conftest import BACKEND
from voxrepo_contract.errors import ConfigError

from .conftest import HERE, is_alive, shed, tiny_settings
from .tiny_runtime import DIE, HANG

REPOSITORY = BACKEND.parents[1]
MODULES_OF_THE_STUB = ("pydantic", "yaml", "psutil", "voxrepo", "triton_python_backend_utils", "onnxruntime")

STUB = f"""
import sys, json, time, threading
sys.path[:0] = [{str(REPOSITORY)!r}, {str(BACKEND)!r}]
import numpy as np
from tests.backends.ascend_om.device.conftest import tiny_settings
from om_backend.device.client import DeviceWorker
from pathlib import Path

worker = DeviceWorker(tiny_settings(), lambda level, line: None)
loaded = []
starter = threading.Thread(target=lambda: loaded.append(worker.load(Path(sys.argv[1]), {{}})[0]))
starter.start()
starter.join()
time.sleep(0.2)  # the thread that asked for the worker is gone
worker.run(loaded[0], [np.ones((1, 1), np.float32), np.zeros(1, np.int64)])
print(worker.pid, flush=True)
if sys.argv[2] == "hang":
    worker.run(loaded[0], [np.ones((1, 1), np.float32), np.array([{HANG}], np.int64)])
elif sys.argv[2] == "idle":
    time.sleep(60)
"""


def gone(pid: int, timeout_s: float = 5) -> bool:
    end = time.monotonic() + timeout_s
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_alive(pid)


@pytest.mark.parametrize("what", ["hang", "idle", "exit"])
def test_a_worker_dies_with_its_stub(graph_file: Callable[..., Path], tokens: Path, what: str):
    shed(tokens)
    command = [sys.executable, "-c", STUB, str(graph_file()), what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stub:
        assert stub.stdout is not None
        pid = int(stub.stdout.readline())
        if what != "exit":
            time.sleep(0.3)
            assert is_alive(pid)
            stub.send_signal(signal.SIGKILL)
        stub.wait(10)
    assert gone(pid)


def test_a_worker_whose_stub_died_while_it_started_ends_at_once():
    ours, theirs = socket.socketpair()
    os.set_inheritable(theirs.fileno(), True)
    settings = tiny_settings()
    command = settings.command(theirs.fileno(), parent=1)
    done = subprocess.run(command, pass_fds=[theirs.fileno()], timeout=20, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    ours.close()
    theirs.close()


def open_conversation(settings: WorkerSettings) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        settings.command(theirs.fileno(), os.getpid()),
        pass_fds=[theirs.fileno()],
        env=dict(settings.environment),
        stderr=subprocess.PIPE,
    )
    theirs.close()
    return process, ours


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"", 0),
        (b"\x80\x04garbage", 4),
        (b"VXW1\x02\x00\x00\x00{}", 4),
        (b'VXW1\x1f\x00\x00\x00{"id":1,"op":"run","graph":1234}', 4),
    ],
)
def test_a_worker_ends_when_the_conversation_makes_no_sense(said: bytes, status: int):
    process, ours = open_conversation(tiny_settings())
    hello, _ = protocol.receive(ours, 20)
    assert hello["hello"] == protocol.PROTOCOL_VERSION
    assert hello["pid"] == process.pid
    ours.sendall(said)
    ours.close()
    _, errors = process.communicate(timeout=20)
    assert process.returncode == status
    assert (b"the worker ends" in errors) is (status == 4)


PROBE = """
import json, sys
from pathlib import Path
from om_backend.device.faults import Action, DeviceFault

def open_device(device_id, options):
    import os
    import voxrepo_contract.emulated_om, voxrepo_contract.om
    facts = {
        "path": sys.path,
        "modules": [name for name in sys.modules if "." not in name],
        "environment": dict(os.environ),
        "encodings": [sys.getfilesystemencoding(), sys.stdout.encoding, open(__file__).encoding],
        "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
    }
    raise DeviceFault("probe", 0, Action.REFUSE, json.dumps(facts))
"""


def probe(tmp_path: Path, settings: WorkerSettings) -> dict[str, list[str]]:
    package = tmp_path / "tiny_runtime"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(PROBE, "utf-8")
    settings = WorkerSettings(**{**settings.__dict__, "packages": {"tiny_runtime": package}})
    (tmp_path / "any.json").write_text("{}")
    worker = DeviceWorker(settings, lambda level, line: None)
    with pytest.raises(ConfigError) as caught:
        worker.load(tmp_path / "any.json", {})
    worker.close()
    facts: dict[str, list[str]] = json.loads(caught.value.problem.removesuffix(" (probe)"))
    return facts


def test_a_worker_sees_nothing_of_the_stubs_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "/stub/only")
    monkeypatch.setenv("PYTHONHOME", "/stub/home")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("LC_ALL", "C")
    settings = tiny_settings(environment=worker_environment("cpu", os.environ))
    facts = probe(tmp_path, settings)
    assert not set(MODULES_OF_THE_STUB) & set(facts["modules"])
    for folder in (str(BACKEND), str(BACKEND / "om_backend" / "device"), "/stub/only", ""):
        assert folder not in facts["path"]
    assert not [name for name in facts["environment"] if name.startswith("PYTHON")]
    assert {text.lower() for text in facts["encodings"]} == {"utf-8"}
    # the three standard streams, the socket, and the one that reads the folder
    assert len(facts["fds"]) == 5


def test_a_worker_for_an_npu_keeps_the_path_of_cann(tmp_path: Path):
    settings = tiny_settings(environment=worker_environment("npu", {**os.environ, "PYTHONPATH": "/cann/packages"}))
    facts = probe(tmp_path, settings)
    assert "/cann/packages" in facts["path"]
    assert facts["environment"]["VOXREPO_DEVICE"] == "npu"  # type: ignore[call-overload]


def test_a_worker_gets_the_library_path_from_before_the_engine():
    base = {"LD_LIBRARY_PATH": "/engine/lib", "VOXREPO_WORKER_LD_LIBRARY_PATH": "/cann/lib"}
    assert worker_environment("npu", base)["LD_LIBRARY_PATH"] == "/cann/lib"
    assert worker_environment("npu", {"LD_LIBRARY_PATH": "/lib"})["LD_LIBRARY_PATH"] == "/lib"


@lru_cache
def other_pythons() -> dict[str, str]:
    """Pythons of other versions on this machine that have numpy, by version."""
    found: dict[str, str] = {}
    folders = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin"]
    for folder in dict.fromkeys(folders):
        for name in ("python3", "python3.10", "python3.11", "python3.12", "python3.13"):
            python = shutil.which(name, path=folder)
            if python is None:
                continue
            test = "import sys, numpy; print('%d.%d.%d' % sys.version_info[:3])"
            done = subprocess.run([python, "-s", "-c", test], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode == 0:
                found.setdefault(done.stdout.strip(), python)
    found.pop(".".join(map(str, sys.version_info[:3])), None)
    return found


def test_the_worker_may_be_another_python_than_the_stub(graph_file: Callable[..., Path], tokens: Path):
    pythons = other_pythons()
    if not pythons:
        pytest.skip(
            "no other Python 3.10 to 3.13 with numpy on this machine (apt-get install python3-numpy brings one)"
        )
    for version, python in pythons.items():
        lines: list[str] = []
        worker = DeviceWorker(tiny_settings(python=python), lambda level, line: lines.append(line))  # noqa: B023
        graph, _ = worker.load(graph_file(), {})
        x = np.arange(100_000, dtype=np.float32).reshape(100, 1000)
        (y,) = worker.run(graph, [x, np.zeros(1, np.int64)])
        assert (y == x * 2).all()
        shed(tokens)
        (y,) = worker.run(graph, [x, np.array([DIE], np.int64)])
        assert (y == x * 2).all()
        worker.close()
        assert any(f"Python {version}" in line for line in lines)


def test_a_python_without_numpy_says_what_to_do(graph_file: Callable[..., Path], tmp_path: Path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=60)
    worker = DeviceWorker(tiny_settings(python=str(bare / "bin" / "python"), packages={}), lambda level, line: None)
    with pytest.raises(ConfigError, match=r"numpy cannot be imported by .*bare.*set VOXREPO_WORKER_PYTHON"):
        worker.load(graph_file(), {})
    worker.close()


def test_the_folder_of_the_worker_does_not_hide_the_libraries_it_imports(tmp_path: Path):
    names = {file.stem for file in (BACKEND / "om_backend" / "device").glob("*.py")}
    assert {"ais_bench", "torch_npu"} <= names, "the reason for this test"
    facts = probe(tmp_path, tiny_settings())
    assert str(HERE) not in facts["path"]
    assert not any(Path(folder).name == "device" for folder in facts["path"])
