"""The Dockerfile, the compose file and the command line agree with each other."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.docker import files
from tests.docker.files import ROOT
from voxrepo.cli.main import app
from voxrepo.supervisor.engine_keeper import ENGINE_EXIT_MARGIN_S

# https://github.com/compose-spec/compose-spec: those keys of its schema that this project has a use for
COMPOSE_KEYS = {"name", "services", "volumes"}
SERVICE_KEYS = {
    *("image", "build", "ports", "volumes", "read_only", "tmpfs", "shm_size", "init", "cap_drop", "security_opt"),
    *("stop_grace_period", "restart", "environment", "cpuset", "command"),
}


def serve_options() -> dict[str, Any]:
    """Options of ``voxrepo serve`` by the environment variable that sets them."""
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {option.envvar: option for option in command.params if option.envvar}


def tool(name: str) -> str | None:
    """A program of this environment, else of the system."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


# lint


@pytest.mark.skipif(platform.machine() != "x86_64", reason="hadolint comes as an x86_64 wheel only")
def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = tool("hadolint")
    assert hadolint, "hadolint is missing; it belongs to the extra 'dev'"
    result = subprocess.run([hadolint, files.DOCKERFILE], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").glob("*.sh")), ids=lambda path: path.name)
def test_shell_scripts_are_sound(script: Path) -> None:
    found = tool("shellcheck")
    checker = [found] if found else ["bash", "-n"]
    result = subprocess.run([*checker, script], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


# Dockerfile


def test_every_copied_file_is_in_the_repository() -> None:
    copies = [item for item in files.instructions() if item.name == "COPY" and item.flag("from") is None]
    sources = [source for item in copies for source in item.words()[:-1]]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_every_copied_file_gets_past_dockerignore() -> None:
    patterns = files.DOCKERIGNORE.read_text(encoding="utf-8").split("\n")
    let_in = {line[1:] for line in patterns if line.startswith("!")}
    assert "*" in patterns, "nothing is to be sent to the engine but what is named"
    for item in files.instructions():
        if item.name == "COPY" and item.flag("from") is None:
            assert set(item.words()[:-1]) <= let_in


def test_what_is_built_is_what_the_wheel_is_made_of() -> None:
    """A package that pyproject.toml names and the Dockerfile does not copy would be missing from the image."""
    build_settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[tool.hatch.build", 1)[1]
    copied = {word for item in files.instructions() if item.name == "COPY" for word in item.words()[:-1]}
    for folder in ("voxrepo", "voxrepo_contract", "clients/voxrepo_client", "backends", "emulator", "profiles"):
        assert f'"{folder}"' in build_settings
        assert folder in copied


def test_stages_copied_from_exist() -> None:
    stages = {item.words()[2] for item in files.instructions() if item.name == "FROM" and len(item.words()) == 3}
    assert {name for item in files.instructions() if (name := item.flag("from"))} <= stages


def test_base_image_has_a_tag_and_a_python_that_voxrepo_runs_on() -> None:
    base = next(item for item in files.instructions() if item.name == "ARG").value
    assert base.startswith("BASE_IMAGE=")
    tag = base.rsplit(":", 1)[1]
    assert tag.split("-")[0] in ("3.10", "3.11", "3.12")


def test_packages_are_installed_by_hash_from_the_lock_files() -> None:
    installs = " ".join(item.value for item in files.instructions() if item.name == "RUN")
    assert "--require-hashes -r requirements/bootstrap.lock" in installs
    assert "--require-hashes -r requirements/serve.lock" in installs


def test_runs_as_a_numeric_user_that_is_not_root() -> None:
    user, group = files.final("USER").value.split(":")
    assert int(user) == int(group) == 1000


def test_every_variable_of_the_image_is_one_that_serve_reads() -> None:
    ours = {name for name in files.image_environment() if name.startswith("VOXREPO_")}
    assert ours <= serve_options().keys()
    assert {"VOXREPO_HOST", "VOXREPO_ROOT", "VOXREPO_STATE_DIR"} <= ours


def test_exposes_the_ports_that_serve_listens_on() -> None:
    exposed = files.final("EXPOSE").value.split()
    names = ("VOXREPO_HTTP_PORT", "VOXREPO_GRPC_PORT", "VOXREPO_METRICS_PORT")
    assert exposed == [files.image_environment()[name] for name in names]
    assert exposed == [str(serve_options()[name].default) for name in names]


def test_listens_on_all_addresses_of_the_container() -> None:
    assert files.image_environment()["VOXREPO_HOST"] == "0.0.0.0"


def test_starts_the_server_without_a_shell_and_stops_it_by_sigterm() -> None:
    assert json.loads(files.final("CMD").value) == ["voxrepo", "serve"]
    assert not [item for item in files.final_stage() if item.name == "ENTRYPOINT"]
    assert files.final("STOPSIGNAL").value == "SIGTERM"


def test_state_is_on_a_volume_and_belongs_to_the_user() -> None:
    state = files.image_environment()["VOXREPO_STATE_DIR"]
    assert json.loads(files.final("VOLUME").value) == [state]
    assert any(f"install -d -o 1000 -g 1000 {state}" in item.value for item in files.final_stage())


# compose


def test_compose_file_has_known_keys_only() -> None:
    assert files.compose().keys() <= COMPOSE_KEYS
    assert files.service().keys() <= SERVICE_KEYS


def test_compose_builds_this_dockerfile() -> None:
    build = files.service()["build"]
    context = (files.COMPOSE.parent / build["context"]).resolve()
    assert context == ROOT
    assert context / build["dockerfile"] == files.DOCKERFILE


def test_compose_publishes_every_port_on_loopback_only() -> None:
    exposed = files.final("EXPOSE").value.split()
    assert files.service()["ports"] == [f"127.0.0.1:{port}:{port}" for port in exposed]


def test_everything_that_is_written_to_is_writable_although_the_rest_is_not() -> None:
    service = files.service()
    assert service["read_only"] is True
    named = dict(volume.split(":", 1) for volume in service["volumes"])
    assert named.keys() == files.compose()["volumes"].keys()
    environment = files.image_environment()
    assert set(named.values()) == {environment["VOXREPO_ROOT"], environment["VOXREPO_STATE_DIR"]}


def test_tmp_allows_what_the_engine_loads_from_it() -> None:
    (tmp,) = files.service()["tmpfs"]
    folder, options = tmp.split(":")
    assert folder == "/tmp"
    assert "exec" in options.split(",")


def test_compose_waits_longer_than_the_server_drains() -> None:
    drain_timeout_s = serve_options()["VOXREPO_DRAIN_TIMEOUT"].default
    longest_s = 2 * (drain_timeout_s + ENGINE_EXIT_MARGIN_S)  # the edge first, then the engine
    assert files.seconds(files.service()["stop_grace_period"]) > longest_s


def test_orphans_of_a_dead_engine_are_reaped() -> None:
    assert files.service()["init"] is True


# smoke test


def run_smoke(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", files.SMOKE, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_smoke_says_so_where_there_is_no_container_engine() -> None:
    result = run_smoke(ENGINE="no-such-engine")
    assert result.returncode == 3
    assert "no container engine works here (tried: no-such-engine)" in result.stderr


def test_smoke_refuses_an_argument_that_it_does_not_know() -> None:
    result = run_smoke("--fast", ENGINE="no-such-engine")
    assert result.returncode == 2
    assert "--fast" in result.stderr


def test_smoke_runs_the_image_as_compose_does() -> None:
    script, service = files.SMOKE.read_text(encoding="utf-8"), files.service()
    run = script[script.index('"$engine" run') :].split("|| stop", 1)[0]
    assert f"--shm-size {service['shm_size']}" in run
    assert f"--tmpfs {service['tmpfs'][0]}" in run
    assert {"--init", "--read-only", "--cap-drop"} <= set(run.split())
    assert f"stop_timeout_s={files.seconds(service['stop_grace_period']):g}" in script
