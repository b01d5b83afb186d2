"""The real engine with small models, and the edge as a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as rpc

from voxrepo.edge.table import EdgeTable, Problem, VoiceEntry, write_table

MODELS = Path(__file__).parent / "models"

STAGE_CONFIG = """
name: "{name}"
backend: "python"
max_batch_size: 8
input [
  {{ name: "text" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "speed" data_type: TYPE_FP32 dims: [ 1 ] }},
  {{ name: "speaker" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "seed" data_type: TYPE_INT64 dims: [ 1 ] }}
]
output [
  {{ name: "audio" data_type: TYPE_INT16 dims: [ -1 ] }},
  {{ name: "sample_rate" data_type: TYPE_INT32 dims: [ 1 ] }},
  {{ name: "dropped" data_type: TYPE_STRING dims: [ 1 ] }}
]
instance_group [ {{ count: {instances} kind: KIND_CPU }} ]
{extra}
"""

ENSEMBLE_CONFIG = """
name: "{name}"
platform: "ensemble"
max_batch_size: 1
input [
  {{ name: "text" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "speed" data_type: TYPE_FP32 dims: [ 1 ] }},
  {{ name: "speaker" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "seed" data_type: TYPE_INT64 dims: [ 1 ] }}
]
output [
  {{ name: "audio" data_type: TYPE_INT16 dims: [ -1 ] }},
  {{ name: "sample_rate" data_type: TYPE_INT32 dims: [ 1 ] }},
  {{ name: "dropped" data_type: TYPE_STRING dims: [ 1 ] }}
]
ensemble_scheduling {{ step [ {{
  model_name: "{stage}" model_version: 1
  {maps}
}} ] }}
"""

DOUBLE_CONFIG = """
name: "double"
backend: "python"
max_batch_size: 0
input [
  { name: "x" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "name" data_type: TYPE_STRING dims: [ -1 ] }
]
output [
  { name: "y" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "eman" data_type: TYPE_STRING dims: [ -1 ] }
]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""

QUEUE_OF_ONE = "dynamic_batching { default_queue_policy { max_queue_size: 1 } }"

_INPUTS = ("text", "speed", "speaker", "seed")
_OUTPUTS = ("audio", "sample_rate", "dropped")


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """Poll until ``condition`` holds."""
    ends_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends_s, f"{what} did not happen within {timeout_s:g} s"
        time.sleep(0.02)


def _write_model(repository: Path, name: str, config: str, source: Path | None) -> None:
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config, encoding="utf-8")
    if source is not None:
        shutil.copy(source, version / "model.py")


def _write_voice(repository: Path, name: str, instances: int, extra: str = "") -> None:
    stage = f"{name}.echo"
    config = STAGE_CONFIG.format(name=stage, instances=instances, extra=extra)
    _write_model(repository, stage, config, MODELS / "echo_model.py")
    maps = [f'input_map {{ key: "{tensor}" value: "{tensor}" }}' for tensor in _INPUTS]
    maps += [f'output_map {{ key: "{tensor}" value: "{tensor}" }}' for tensor in _OUTPUTS]
    ensemble = ENSEMBLE_CONFIG.format(name=name, stage=stage, maps="\n  ".join(maps))
    _write_model(repository, name, ensemble, None)


class Engine:
    """tritonserver of the installed wheel on a unix socket."""

    LOADED = ("en-test", "en-narrow", "double")

    def __init__(self, folder: Path) -> None:
        import pytriton

        self.folder = folder
        self.target = f"unix:{folder}/engine:1"
        self._server = Path(pytriton.__file__).parent / "tritonserver"
        self._process: subprocess.Popen[bytes] | None = None
        self.metrics_port = 0
        repository = folder / "repository"
        _write_voice(repository, "en-test", instances=2)
        _write_voice(repository, "en-narrow", instances=1, extra=QUEUE_OF_ONE)
        _write_model(repository, "double", DOUBLE_CONFIG, MODELS / "double_model.py")
        shutil.copytree(self._server / "backends", folder / "backends")
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        stub = self._server / "python_backend_stubs" / python / "triton_python_backend_stub"
        shutil.copy(stub, folder / "backends" / "python")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, metrics_port: int) -> None:
        self.metrics_port = metrics_port
        folder = self.folder
        (folder / "engine:1").unlink(missing_ok=True)
        libraries = [str(self._server.parent.parent / "nvidia_pytriton.libs"), sysconfig.get_config_var("LIBDIR")]
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(libraries),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        command = [
            str(self._server / "bin" / "tritonserver"),
            f"--model-repository={folder}/repository",
            f"--backend-directory={folder}/backends",
            f"--grpc-address=unix:{folder}/engine",
            "--grpc-port=1",
            "--allow-http=false",
            "--metrics-address=127.0.0.1",
            f"--metrics-port={metrics_port}",
            "--model-control-mode=explicit",
            *[f"--load-model={name}" for name in self.LOADED],
            "--disable-auto-complete-config",
            "--strict-readiness=false",
            "--exit-on-error=false",
            f"--backend-config=python,shm-region-prefix-name=vxt{os.getpid()}_",
            f"--log-file={folder}/engine.log",
        ]
        with (folder / "engine.out").open("ab") as output:
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        wait_until(self._is_ready, "the engine's start", timeout_s=60)

    def _is_ready(self) -> bool:
        assert self.is_alive(), (self.folder / "engine.log").read_text(encoding="utf-8")[-3000:]
        with grpc.insecure_channel(self.target) as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            try:
                return all(stub.ModelReady(pb.ModelReadyRequest(name=name), timeout=5).ready for name in self.LOADED)
            except grpc.RpcError:
                return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def voice(name: str, **changes: object) -> VoiceEntry:
    fields: dict[str, object] = {
        "name": name,
        "language": "en-US",
        "sample_rate_hz": 22050,
        "speakers": ["default"],
        "max_text_chars": 200,
        "speed_min": 0.25,
        "speed_max": 4.0,
        "versions": {"text_frontend": 1, "acoustic": 3, "vocoder": 2},
        "channels": 4,
        "hop_length_samples": 10,
        "window_frames": 32,
        "overlap_frames": 4,
        "first_window_frames": 12,
    }
    return VoiceEntry.model_validate({**fields, **changes})


def sample_table() -> EdgeTable:
    voices = [voice("en-test", speakers=["joe", "ann"]), voice("en-narrow"), voice("en-absent")]
    problem = Problem(model="en-bad.acoustic", reason="encoder.onnx: sha256 differs")
    calls = {"en-test.echo": 4, "en-narrow.echo": 2}  # models of their own, or they would be taken for arms
    return EdgeTable(generation=1, voices={v.name: v for v in voices}, engine_calls=calls, problems=[problem])


class EdgeProcess:
    """``python -m voxrepo.edge``."""

    def __init__(self, engine_target: str, folder: Path, *arguments: str, table: EdgeTable | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.table_file = folder / "table.json"
        self.log_file = folder / "edge.log"
        write_table(self.table_file, table or sample_table())
        ready_file = folder / "ready.json"
        command = [
            *(sys.executable, "-m", "voxrepo.edge", "--engine", engine_target),
            *("--table", str(self.table_file), "--ready-file", str(ready_file)),
            *("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *arguments),
        ]
        with self.log_file.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        wait_until(lambda: ready_file.exists() or self.process.poll() is not None, "the edge's start")
        assert ready_file.exists(), self.log()
        ports = json.loads(ready_file.read_text(encoding="utf-8"))
        assert ports["pid"] == self.process.pid
        self.http_port, self.grpc_port = ports["http_port"], ports["grpc_port"]
        self.metrics_port = ports["metrics_port"]
        self.http = f"127.0.0.1:{self.http_port}"
        self.grpc = f"127.0.0.1:{self.grpc_port}"

    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8")

    def metrics_text(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as page:
            text: str = page.read().decode("utf-8")
        return text

    def metric(self, name: str, **labels: str) -> float:
        """Sum of all samples of a series that have these labels."""
        total = 0.0
        for line in self.metrics_text().splitlines():
            series, _, number = line.rpartition(" ")
            wanted = all(f'{key}="{value}"' in series for key, value in labels.items())
            if wanted and series.partition("{")[0] == name:
                total += float(number)
        return total

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)
