from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from voxrepo.engine import sweep as sweep_module
from voxrepo.engine.binary import EngineBinary
from voxrepo.engine.sweep import close_to_others, leftover_processes, remove_unused_regions, sweep
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.layout import Layout

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts an idle process with a word on its command line."""
    started: list[subprocess.Popen[bytes]] = []

    def start(word: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", word], stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def shm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(sweep_module, "SHM_FOLDER", folder)
    return folder


def test_kills_what_carries_the_shared_memory_prefix(workspace: Workspace, shm: Path, start: Start):
    stub = start(f"{workspace.shm_prefix}1234")
    swept = sweep(workspace)
    assert swept.processes == [stub.pid]
    assert not psutil.pid_exists(stub.pid)


def test_kills_what_runs_from_the_workspace(workspace: Workspace, shm: Path, start: Start):
    stub = start(f"{workspace.path}/backends/python/triton_python_backend_stub")
    assert sweep(workspace).processes == [stub.pid]
    assert not psutil.pid_exists(stub.pid)


def test_leaves_the_processes_of_other_servers_alone(
    workspace: Workspace, shm: Path, start: Start, tmp_path: Path, runtime_dir: Path
):
    other = Workspace.of(Layout.of(tmp_path / "other"))
    processes = [start(f"{other.shm_prefix}1234"), start(f"{other.path}/engine.sock"), start(f"{workspace.path}-copy")]
    assert sweep(workspace).processes == []
    assert all(process.poll() is None for process in processes)


def test_leaves_this_process_its_parents_and_the_spared_alone(workspace: Workspace, start: Start):
    spared, other = start(f"{workspace.path}/engine.sock:1"), start(f"{workspace.path}/engine.sock:1")
    assert [process.pid for process in leftover_processes(workspace, {spared.pid})] == [other.pid]


def test_removes_shared_memory_with_the_prefix_only(workspace: Workspace, shm: Path, tmp_path: Path, runtime_dir: Path):
    other = Workspace.of(Layout.of(tmp_path / "other"))
    ours = [shm / f"{workspace.shm_prefix}{n}" for n in range(2)]
    theirs = [shm / f"{other.shm_prefix}1", shm / "sem.x", shm / f"x{workspace.shm_prefix}1"]
    for region in (*ours, *theirs):
        region.write_bytes(b"x")
    assert sorted(sweep(workspace).shm_regions) == [region.name for region in ours]
    assert sorted(shm.iterdir()) == sorted(theirs)


def test_closes_its_own_shared_memory_to_other_users(
    workspace: Workspace, shm: Path, tmp_path: Path, runtime_dir: Path
):
    ours, theirs = shm / f"{workspace.shm_prefix}1", shm / f"{Workspace.of(Layout.of(tmp_path / 'b')).shm_prefix}1"
    for region in (ours, theirs):
        region.write_bytes(b"x")
        region.chmod(0o644)
    close_to_others(workspace)
    assert [stat.S_IMODE(region.stat().st_mode) for region in (ours, theirs)] == [0o600, 0o644]


def test_removes_the_folder_and_nothing_it_links_to(
    workspace: Workspace, shm: Path, layout: Layout, binary: EngineBinary
):
    (layout.model_repository / "precious").write_text("x", encoding="utf-8")
    workspace.create(layout, binary)
    sweep(workspace)
    assert not workspace.path.exists()
    assert (layout.model_repository / "precious").exists()


def test_finds_nothing_after_an_orderly_end(workspace: Workspace, shm: Path):
    swept = sweep(workspace)
    assert (swept.processes, swept.shm_regions) == ([], [])


@pytest.fixture
def mapping_process(shm: Path, workspace: Workspace) -> Iterator[subprocess.Popen[bytes]]:
    """A process that maps one of two regions."""
    for name in ("used", "unused"):
        (shm / f"{workspace.shm_prefix}{name}").write_bytes(b"x" * 4096)
    code = (
        "import mmap, sys, time; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close();"
        "print(flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(shm / f"{workspace.shm_prefix}used")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_regions_that_a_running_engine_maps_are_kept_and_others_removed(
    workspace: Workspace, shm: Path, mapping_process: subprocess.Popen[bytes]
):
    assert remove_unused_regions(workspace, mapping_process.pid, least_age_s=0) == [f"{workspace.shm_prefix}unused"]
    assert [region.name for region in shm.iterdir()] == [f"{workspace.shm_prefix}used"]


def test_young_regions_may_not_be_mapped_yet_and_are_kept(
    workspace: Workspace, shm: Path, mapping_process: subprocess.Popen[bytes]
):
    assert remove_unused_regions(workspace, mapping_process.pid) == []


def test_nothing_is_removed_when_the_engine_has_ended(
    workspace: Workspace, shm: Path, mapping_process: subprocess.Popen[bytes]
):
    mapping_process.kill()
    mapping_process.wait()
    assert remove_unused_regions(workspace, mapping_process.pid, least_age_s=0) == []
