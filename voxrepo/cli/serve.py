"""``voxrepo serve``, ``status`` and ``stop``."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from voxrepo.cli.output import JsonOption, RootOption, StateOption, console, fail, layout_of, print_json, shows_errors
from voxrepo.edge.admission import AdmissionLimits
from voxrepo.edge.options import ROUTING_KEY_HEADER, header_name
from voxrepo.engine.control import LOAD_TIMEOUT_S
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.device import Asked
from voxrepo.supervisor.edges import MOST_WORKERS, default_workers
from voxrepo.supervisor.options import ServeOptions
from voxrepo.supervisor.server import Server
from voxrepo.supervisor.state import ServerState, StateFolder, process_of
from voxrepo_contract.errors import NotFound, PermissionDenied, Unavailable

BACKGROUND_START_TIMEOUT_S = 300.0
_SERVING = ("ready", "degraded")


def _addresses(state: ServerState) -> list[str]:
    lines = [f"HTTP     {state.http_url}", f"gRPC     {state.grpc_url}", f"metrics  {state.metrics_url}"]
    return [*lines, f"device   {state.device_label}"] if state.device_label else lines


def _how_to_call(state: ServerState) -> str:
    voices = [model for model in state.models if model.kind == "voice" and model.state == "ready"]
    lines = _addresses(state)
    lines += [complaint for model in state.models for complaint in model.complaints]
    if voices:
        voice = voices[0].name
        # as it can be typed: the environment may not be activated
        command = "voxrepo" if shutil.which("voxrepo") else str(Path(sys.executable).with_name("voxrepo"))
        lines += [
            f"voices: {', '.join(model.name for model in voices)}",
            "",
            f'  {command} say "Hello from voxrepo." --voice {voice} --url {state.grpc_url} -o hello.wav',
            f'  curl -s {state.http_url}/v2/models/{voice}/generate -d \'{{"text": "Hello from voxrepo."}}\'',
        ]
    models = [model.name for model in state.models if model.kind == "model" and model.state == "ready"]
    if models:
        lines.append(f"models: {', '.join(models)}")
    if state.callables_url:
        lines.append(f"PyTriton callables: {state.callables_url}, token in {state.callables_token_file}")
    return "\n".join(lines)


def _header(value: str) -> str:
    try:
        return header_name(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@shows_errors
def serve(
    root: RootOption = Path(),
    host: Annotated[str, typer.Option(envvar="VOXREPO_HOST", help="Address to listen on.")] = "127.0.0.1",
    http_port: Annotated[
        int, typer.Option(envvar="VOXREPO_HTTP_PORT", min=0, max=65535, help="HTTP; 0 takes any free port.")
    ] = 8000,
    grpc_port: Annotated[
        int, typer.Option(envvar="VOXREPO_GRPC_PORT", min=0, max=65535, help="gRPC, likewise.")
    ] = 8001,
    metrics_port: Annotated[
        int, typer.Option(envvar="VOXREPO_METRICS_PORT", min=0, max=65535, help="Prometheus, likewise.")
    ] = 8002,
    edge_workers: Annotated[
        int | None,
        typer.Option(
            envvar="VOXREPO_EDGE_WORKERS",
            min=1,
            max=MOST_WORKERS,
            help="Edge processes that share the ports; by default by the number of cores.",
        ),
    ] = None,
    engine: Annotated[
        Path | None, typer.Option(envvar="VOXREPO_ENGINE", help="A tritonserver to use instead of the wheel's.")
    ] = None,
    device: Annotated[
        Asked,
        typer.Option(
            envvar="VOXREPO_DEVICE",
            help="What graphs for an NPU run on. auto: an NPU if one works, else they are refused.",
        ),
    ] = "auto",
    worker_python: Annotated[
        Path | None,
        typer.Option(envvar="VOXREPO_WORKER_PYTHON", help="Python with CANN's acl, if not this one."),
    ] = None,
    emulator_settings: Annotated[
        Path | None,
        typer.Option(envvar="VOXREPO_EMULATOR_SETTINGS", help="JSON file, see docs/operations.md."),
    ] = None,
    drain_timeout_s: Annotated[
        float,
        typer.Option(
            "--drain-timeout", envvar="VOXREPO_DRAIN_TIMEOUT", min=0, max=86_400, help="Seconds at shut-down."
        ),
    ] = 30.0,
    callables: Annotated[
        bool, typer.Option("--callables", help="Let PyTriton bind Python functions, see docs/operations.md.")
    ] = False,
    engine_memory_mib: Annotated[
        int | None,
        typer.Option(
            "--engine-memory-limit",
            envvar="VOXREPO_ENGINE_MEMORY_LIMIT",
            min=0,
            help="MiB above which the engine is started afresh, 0: never. Default: 80 % of the memory here.",
        ),
    ] = None,
    engine_timeout_s: Annotated[
        float,
        typer.Option(
            "--engine-timeout", envvar="VOXREPO_ENGINE_TIMEOUT", min=2, max=3600, help="Seconds; silent, it hangs."
        ),
    ] = 10.0,
    load_timeout_s: Annotated[
        float,
        typer.Option("--load-timeout", envvar="VOXREPO_LOAD_TIMEOUT", min=1, max=86_400, help="Seconds per model."),
    ] = LOAD_TIMEOUT_S,
    max_queue_s: Annotated[
        float,
        typer.Option(
            "--max-queue",
            envvar="VOXREPO_MAX_QUEUE",
            min=0,
            max=86_400,
            help="Seconds that a request may have to wait, by prediction; beyond, it is refused. 0: no limit.",
        ),
    ] = AdmissionLimits.max_queue_s,
    max_streams: Annotated[
        int, typer.Option(envvar="VOXREPO_MAX_STREAMS", min=0, help="Streams at a time. 0: no limit.")
    ] = AdmissionLimits.max_streams,
    max_streams_per_voice: Annotated[
        int, typer.Option(envvar="VOXREPO_MAX_STREAMS_PER_VOICE", min=0, help="Likewise of one voice.")
    ] = AdmissionLimits.max_streams_per_voice,
    max_utilisation: Annotated[
        float,
        typer.Option(
            envvar="VOXREPO_MAX_UTILISATION",
            min=0,
            max=100,
            help="Part of the measured capacity that streams may need to keep ahead of playback. 0: no limit.",
        ),
    ] = AdmissionLimits.max_utilisation,
    stall_timeout_s: Annotated[
        float,
        typer.Option(
            "--stall-timeout",
            envvar="VOXREPO_STALL_TIMEOUT",
            min=0,
            max=86_400,
            help="Seconds for which a client may take nothing of a stream after what it was sent would have been "
            "played. 0: no limit.",
        ),
    ] = AdmissionLimits.stall_timeout_s,
    routing_key_header: Annotated[
        str,
        typer.Option(
            envvar="VOXREPO_ROUTING_KEY_HEADER",
            parser=_header,
            metavar="NAME",
            help="HTTP header and gRPC metadata whose value keeps a user on one arm of a rollout.",
        ),
    ] = ROUTING_KEY_HEADER,
    replica_name: Annotated[
        str | None,
        typer.Option(
            envvar="VOXREPO_REPLICA_NAME",
            help="Of this server among those that share the folder, for rollouts. Default: host and a hash.",
        ),
    ] = None,
    controller: Annotated[
        bool,
        typer.Option(
            "--controller/--no-controller",
            envvar="VOXREPO_CONTROLLER",
            help="Carry out rollouts of this folder, see `voxrepo controller`.",
        ),
    ] = True,
    log_text: Annotated[bool, typer.Option("--log-text", help="Write request texts to the log.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Return once it serves: code 0 if all is ready, else 3.")
    ] = False,
    state_dir: StateOption = None,
) -> None:
    """Serve every voice and model of a folder through Triton, until Ctrl-C."""
    layout = layout_of(root, state_dir)
    if background:
        _serve_in_background(layout)
        return
    logging.basicConfig(
        level=logging.INFO,
        format="%(message)s",
        handlers=[RichHandler(console=console, show_path=False, rich_tracebacks=False)],
    )
    options = ServeOptions(
        layout=layout,
        host=host,
        http_port=http_port,
        grpc_port=grpc_port,
        metrics_port=metrics_port,
        edge_workers=edge_workers or default_workers(usable_cores()),
        engine=engine,
        device=device,
        worker_python=worker_python,
        emulator_settings=emulator_settings,
        drain_timeout_s=drain_timeout_s,
        callables=callables,
        engine_memory_mib=engine_memory_mib,
        engine_timeout_s=engine_timeout_s,
        load_timeout_s=load_timeout_s,
        limits=AdmissionLimits(max_queue_s, max_streams, max_streams_per_voice, max_utilisation, stall_timeout_s),
        log_text=log_text,
        routing_key_header=routing_key_header,
        replica_name=replica_name,
        controller=controller,
    )
    last_phase = ""

    def tell(state: ServerState) -> None:
        nonlocal last_phase
        if state.phase != last_phase:
            # a start that failed is told by its error alone
            if not (state.phase in {"draining", "stopped"} and last_phase in {"starting", ""}):
                console.rule(state.phase)
                last_phase = state.phase
            if state.phase in _SERVING:
                console.print(_how_to_call(state), soft_wrap=True, markup=False)

    raise typer.Exit(Server(options, tell).run())


def _serve_in_background(layout: Layout) -> None:
    folder = StateFolder(layout)
    folder.create()
    log_file = folder.logs / "server.log"
    arguments = [word for word in sys.argv[1:] if word != "--background"]
    start = log_file.stat().st_size if log_file.exists() else 0
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "voxrepo", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        )
    end = time.monotonic() + BACKGROUND_START_TIMEOUT_S
    with console.status("starting") as shown:
        while time.monotonic() < end:
            if process.poll() is not None:
                said = log_file.read_bytes()[start:].decode("utf-8", "replace").strip()
                errors = [line for line in said.splitlines() if "error:" in line]
                raise fail(errors[-1].split("error:", 1)[1].strip() if errors else f"it ended; see {log_file}")
            state = folder.read_running()
            if state is not None and state.pid == process.pid and state.phase in _SERVING:
                console.print(_how_to_call(state), soft_wrap=True, markup=False)
                console.print(f"pid {state.pid}, logs in {folder.logs}; `voxrepo stop` ends it", soft_wrap=True)
                if state.phase != "ready":
                    raise typer.Exit(3)
                return
            if state is not None and state.pid == process.pid:
                shown.update(state.phase)
            time.sleep(0.1)
    process.terminate()
    raise fail(f"not ready after {BACKGROUND_START_TIMEOUT_S:g} s; see {log_file}")


def _running(layout: Layout) -> ServerState:
    state = StateFolder(layout).read_running()
    if state is None:
        raise NotFound(f"no server is running for {layout.root}; start one with `voxrepo serve`")
    return state


@shows_errors
def status(root: RootOption = Path(), state_dir: StateOption = None, as_json: JsonOption = False) -> None:
    """Show what the server of a folder serves, and why something is not. Exit code 0 only if all is ready."""
    state = _running(layout_of(root, state_dir))
    if as_json:
        print_json(state)
    else:
        console.print(
            f"{state.phase}, pid {state.pid}, engine {state.engine} (restarts {state.engine_restarts}, "
            f"recycled {state.engine_recycles}, stubs replaced {state.stub_restarts}, "
            f"memory {state.engine_memory_bytes / 2**20:.0f} MiB), "
            f"edge workers {sum(worker.serves for worker in state.edge_workers)} of {len(state.edge_workers)} "
            f"(restarts {state.edge_restarts})",
            markup=False,
        )
        table = Table("name", "kind", "state", "versions")
        for model in state.models:
            versions = " ".join(f"{stage}={number}" for stage, number in model.versions.items())
            versions = versions or " ".join(map(str, model.served))
            table.add_row(Text(model.name), model.kind, model.state, versions)
        for arm in state.arms:
            versions = " ".join(f"{stage}={number}" for stage, number in arm.versions.items())
            table.add_row(Text(arm.name), "arm", arm.state, versions)
        console.print(table)
        # below the table, where neither file nor line is cut off
        lines = [complaint for model in state.models for complaint in model.complaints]
        lines += [f"{arm.name} is not served: {arm.reason}" for arm in state.arms if arm.reason]
        lines += [f"{name} is in recovery; requests wait for it" for name in state.held]
        lines += [*_addresses(state), f"logs in  {state.log_folder}"]
        console.print("\n".join(lines), soft_wrap=True, markup=False)
    if state.phase != "ready":
        raise typer.Exit(3)


@shows_errors
def stop(
    root: RootOption = Path(),
    state_dir: StateOption = None,
    timeout_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait for it to end.")] = 90.0,
) -> None:
    """Stop the server of a folder after what is in flight is done."""
    state = _running(layout_of(root, state_dir))
    process = process_of(state)
    if process is None:
        return
    try:
        process.send_signal(signal.SIGTERM)
    except psutil.AccessDenied as error:
        raise PermissionDenied(f"pid {state.pid} belongs to another user; stop it as that user") from error
    except psutil.NoSuchProcess:
        return
    with console.status("waiting for requests in flight"):
        try:
            process.wait(timeout_s)
        except psutil.TimeoutExpired as error:
            raise Unavailable(
                f"pid {state.pid} is still running after {timeout_s:g} s; "
                "repeat `voxrepo stop` to cut off what is in flight"
            ) from error
    console.print("stopped")
