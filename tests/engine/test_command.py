from __future__ import annotations

import os
import sys
from pathlib import Path

from voxrepo.engine.binary import EngineBinary
from voxrepo.engine.command import RemoteControl, engine_command, engine_environment
from voxrepo.engine.workspace import Workspace


def command(binary: EngineBinary, workspace: Workspace, remote: RemoteControl | None = None) -> list[str]:
    return engine_command(binary, workspace, metrics_port=4711, exit_timeout_s=9, remote=remote)


def test_starts_the_binary_with_both_repositories_and_our_backends(binary: EngineBinary, workspace: Workspace):
    words = command(binary, workspace)
    assert words[0] == str(binary.path)
    assert [word for word in words if word.startswith("--model-repository=")] == [
        f"--model-repository={workspace.path}/model_repository",
        f"--model-repository={workspace.path}/ensembles",
    ]
    assert f"--backend-directory={workspace.path}/backends" in words


def test_loads_nothing_by_itself_and_survives_a_broken_model(binary: EngineBinary, workspace: Workspace):
    words = command(binary, workspace)
    assert {
        "--model-control-mode=explicit",
        "--exit-on-error=false",
        "--strict-readiness=false",
        "--disable-auto-complete-config",
        "--exit-timeout-secs=9",
    } <= set(words)


def test_listens_on_a_private_socket_and_on_loopback_only(binary: EngineBinary, workspace: Workspace):
    words = command(binary, workspace)
    assert f"--grpc-address=unix:{workspace.path}/engine.sock" in words
    assert "--allow-http=false" in words
    addresses = [word.split("=", 1)[1] for word in words if "-address=" in word]
    assert all(address == "127.0.0.1" or address.startswith("unix:") for address in addresses)
    assert "--metrics-port=4711" in words


def test_shared_memory_carries_the_prefix_by_which_it_is_swept(binary: EngineBinary, workspace: Workspace):
    assert f"--backend-config=python,shm-region-prefix-name={workspace.shm_prefix}" in command(binary, workspace)


def test_no_argument_needs_quoting(binary: EngineBinary, workspace: Workspace):
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,")
    assert all(set(word) <= allowed for word in command(binary, workspace)[1:])


def test_the_door_for_callables_is_on_loopback_behind_a_token(binary: EngineBinary, workspace: Workspace):
    words = command(binary, workspace, RemoteControl(4712, "secret"))
    assert "--allow-http=false" not in words
    assert "--http-address=127.0.0.1" in words
    assert "--http-port=4712" in words
    (restricted,) = [word for word in words if word.startswith("--http-restricted-api=")]
    apis, header = restricted.removeprefix("--http-restricted-api=").split(":")
    assert header == "triton-access-token=secret"
    assert {"shared-memory", "model-repository", "trace", "logging"} <= set(apis.split(","))


def test_stubs_find_this_python_and_its_libraries_first(binary: EngineBinary):
    environment = engine_environment(binary, {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/opt/lib", "OTHER": "kept"})
    assert environment["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"
    first, second, third = environment["LD_LIBRARY_PATH"].split(os.pathsep)
    assert (first, second) == tuple(map(str, binary.library_dirs))
    assert third == "/opt/lib"
    assert environment["OTHER"] == "kept"


def test_an_environment_without_paths_gets_no_empty_entries(binary: EngineBinary):
    environment = engine_environment(binary, {})
    assert "" not in environment["LD_LIBRARY_PATH"].split(os.pathsep)
    assert "" not in environment["PATH"].split(os.pathsep)


def test_threads_of_libraries_are_one_unless_asked_for_otherwise(binary: EngineBinary):
    assert engine_environment(binary, {})["OMP_NUM_THREADS"] == "1"
    assert engine_environment(binary, {"OMP_NUM_THREADS": "4"})["OMP_NUM_THREADS"] == "4"


def test_the_environment_given_is_left_as_it_was(binary: EngineBinary):
    base = {"PATH": "/usr/bin"}
    engine_environment(binary, base)
    assert base == {"PATH": "/usr/bin"}


def test_instances_are_told_where_to_share_what_they_measure(binary: EngineBinary, tmp_path: Path):
    assert "VOXREPO_COSTS_DIR" not in engine_environment(binary, {})
    assert engine_environment(binary, {}, costs_folder=tmp_path)["VOXREPO_COSTS_DIR"] == str(tmp_path)


def test_stubs_are_told_how_long_the_engine_waits_for_them(binary: EngineBinary):
    assert engine_environment(binary, {}, stub_patience_s=5.0)["VOXREPO_STUB_PATIENCE_S"] == "5"
    assert "VOXREPO_STUB_PATIENCE_S" not in engine_environment(binary, {})


def test_workers_are_told_where_their_locks_are(binary: EngineBinary, tmp_path: Path):
    assert "VOXREPO_LOCKS_DIR" not in engine_environment(binary, {})
    assert engine_environment(binary, {}, locks_folder=tmp_path)["VOXREPO_LOCKS_DIR"] == str(tmp_path)


def test_what_the_operators_environment_says_of_devices_is_decided_by_the_caller(binary: EngineBinary):
    base = {"VOXREPO_DEVICE": "npu", "VOXREPO_EMULATOR_DIR": "/x", "LD_LIBRARY_PATH": "/usr/local/Ascend/lib64"}
    environment = engine_environment(binary, base, device={"VOXREPO_DEVICE": "cpu"})
    assert environment["VOXREPO_DEVICE"] == "cpu"
    assert "VOXREPO_EMULATOR_DIR" not in environment
    # without the engine's own libraries, of which a worker's Python must see nothing
    assert environment["VOXREPO_WORKER_LD_LIBRARY_PATH"] == "/usr/local/Ascend/lib64"
