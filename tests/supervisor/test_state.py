from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from voxrepo.repository.layout import Layout
from voxrepo.supervisor.state import ModelStatus, ServerState, StateFolder, process_of, remove_quietly
from voxrepo_contract.errors import AlreadyExists, ConfigError

HOLDER = """
import sys, time
from pathlib import Path
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.state import StateFolder
StateFolder(Layout.of(Path(sys.argv[1]))).acquire()
print("held", flush=True)
time.sleep(60)
"""


def state(**changes: object) -> ServerState:
    values = {"pid": os.getpid(), "started_at": psutil.Process().create_time(), "phase": "ready", **changes}
    return ServerState.model_validate(values)


def test_a_second_server_of_a_folder_is_refused(layout: Layout):
    first, second = StateFolder(layout), StateFolder(layout)
    first.acquire()
    first.write(state(http_url="http://localhost:1"))
    with pytest.raises(AlreadyExists) as caught:
        second.acquire()
    assert caught.value.message == (
        f"a server is already running for this folder (pid {os.getpid()}, http://localhost:1); "
        "stop it with `voxrepo stop`"
    )
    first.release()
    second.acquire()
    second.release()


def test_a_lock_without_a_state_is_refused_as_well(layout: Layout):
    first = StateFolder(layout)
    first.acquire()
    with pytest.raises(AlreadyExists, match="already running for this folder; stop it"):
        StateFolder(layout).acquire()
    first.release()


def test_releasing_twice_does_no_harm(layout: Layout):
    folder = StateFolder(layout)
    folder.acquire()
    folder.release()
    folder.release()


def test_the_lock_is_free_after_its_holder_was_killed(layout: Layout):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(layout.root)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyExists):
            StateFolder(layout).acquire()
        holder.kill()
    folder = StateFolder(layout)
    folder.acquire()
    folder.release()


def test_the_lock_is_not_passed_on_to_children(layout: Layout):
    folder = StateFolder(layout)
    folder.acquire()
    idle = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", idle], stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout is not None
        child.stdout.readline()
        folder.release()
        again = StateFolder(layout)
        again.acquire()
        again.release()
        child.kill()


@pytest.mark.parametrize("step", ["acquire", "create"])
def test_a_folder_that_cannot_be_made_is_refused_in_one_sentence(tmp_path: Path, step: str):
    (tmp_path / "file").write_text("", encoding="utf-8")
    folder = StateFolder(Layout.of(tmp_path, tmp_path / "file" / "state"))
    with pytest.raises(
        ConfigError, match=r"cannot be written \(Not a directory\); give another place with --state-dir"
    ):
        getattr(folder, step)()


def test_what_is_written_reads_back_equal(layout: Layout):
    folder = StateFolder(layout)
    folder.create()
    models = [
        ModelStatus(name="en-joe", kind="voice", state="ready", versions={"acoustic": 3}),
        ModelStatus(name="broken", kind="model", state="failed", reason="caf\u00e9 [x]"),
    ]
    written = state(models=models, engine_pid=17)
    folder.write(written)
    assert folder.read() == written


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff\xfe", b'{"pid": 1}'])
def test_a_broken_state_counts_as_none(layout: Layout, content: bytes):
    folder = StateFolder(layout)
    folder.create()
    folder.server_file.write_bytes(content)
    assert folder.read() is None
    assert folder.read_running() is None


def test_no_state_is_none(layout: Layout):
    assert StateFolder(layout).read_running() is None


def test_a_running_server_is_found(layout: Layout):
    folder = StateFolder(layout)
    folder.create()
    folder.write(state())
    assert folder.read_running() == state()


def test_a_number_that_now_belongs_to_another_process_is_not_the_server(layout: Layout):
    folder = StateFolder(layout)
    folder.create()
    folder.write(state(started_at=psutil.Process().create_time() - 3600))
    assert folder.read_running() is None
    assert folder.read() is not None


def test_a_server_that_has_ended_is_not_running():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        started_at = psutil.Process(process.pid).create_time()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, not yet reaped
        assert process_of(state(pid=process.pid, started_at=started_at)) is None
    assert process_of(state(pid=process.pid, started_at=started_at)) is None


def test_removing_what_is_not_there_does_no_harm(tmp_path: Path):
    file = tmp_path / "x"
    file.write_text("", encoding="utf-8")
    remove_quietly(file)
    remove_quietly(file)
    assert not file.exists()
