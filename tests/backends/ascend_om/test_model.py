"""Triton's entry, with stand-ins for the classes that only exist inside Triton's stub process.

The real engine is used by the end-to-end tests; here it is about what ``model.py`` does between Triton and a program.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest
from onnx import helper

from tests.emulator import makers
from voxrepo_contract import errors
from voxrepo_contract.stage import DirectStage, write_stage

from .conftest import BACKEND
from .graphs import describe, place_direct

FINAL = 1


@dataclass
class Tensor:
    name: str
    array: Any

    def as_numpy(self) -> Any:
        return self.array


@dataclass
class TritonError:
    message: str
    code: str
    INVALID_ARG: ClassVar[str] = "INVALID_ARG"
    NOT_FOUND: ClassVar[str] = "NOT_FOUND"
    INTERNAL: ClassVar[str] = "INTERNAL"
    UNAVAILABLE: ClassVar[str] = "UNAVAILABLE"
    UNSUPPORTED: ClassVar[str] = "UNSUPPORTED"
    CANCELLED: ClassVar[str] = "CANCELLED"


@dataclass
class InferenceResponse:
    output_tensors: list[Tensor] = field(default_factory=list)
    error: TritonError | None = None


class TritonModelException(Exception):
    pass


class Logger:
    lines: ClassVar[list[str]] = []

    @classmethod
    def log_info(cls, line: str) -> None:
        cls.lines.append(line)

    log_error = log_warn = log_info


@dataclass
class Sender:
    sent: list[tuple[InferenceResponse, int]] = field(default_factory=list)
    breaks: bool = False

    def send(self, response: InferenceResponse, flags: int) -> None:
        self.sent.append((response, flags))
        if self.breaks:
            raise RuntimeError("the client is gone")


class Request:
    def __init__(self, parameters: str = "", **tensors: Any) -> None:
        self.tensors = {name: Tensor(name, value) for name, value in tensors.items()}
        self.sender = Sender()
        self._parameters = parameters

    def get_response_sender(self) -> Sender:
        return self.sender

    def parameters(self) -> str:
        return self._parameters

    @property
    def answer(self) -> InferenceResponse:
        ((response, flags),) = self.sender.sent
        assert flags == FINAL
        return response


@pytest.fixture
def model_file(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    # as in the stub: most classes appear in the module only after model.py has been imported
    stub = types.ModuleType("triton_python_backend_utils")
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", stub)
    spec = importlib.util.spec_from_file_location("ascend_om_model", BACKEND / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for thing in (Tensor, TritonError, InferenceResponse, TritonModelException, Logger):
        setattr(stub, thing.__name__, thing)
    stub.TRITONSERVER_RESPONSE_COMPLETE_FINAL = FINAL  # type: ignore[attr-defined]
    stub.get_input_tensor_by_name = lambda request, name: request.tensors.get(name)  # type: ignore[attr-defined]
    Logger.lines.clear()
    yield module


@pytest.fixture
def start(model_file: Any, tmp_path: Path) -> Callable[..., Any]:
    """Starts the backend on a model that negates ``x``."""

    def start(**parameters: str) -> Any:
        version = tmp_path / "3"
        version.mkdir()
        nodes = [helper.make_node("Neg", ["x"], ["y"])]
        place_direct(version, nodes, [("x", "FP32", ["batch", 2])], [("y", "FP32", ["batch", 2])])
        return initialize(model_file, tmp_path, ("x",), **parameters)

    return start


def initialize(model_file: Any, repository: Path, inputs: tuple[str, ...] = ("x",), **parameters: str) -> Any:
    model = model_file.TritonPythonModel()
    config = {
        "input": [{"name": name} for name in inputs],
        "parameters": {name: {"string_value": value} for name, value in parameters.items()},
    }
    model.initialize(
        {
            "model_config": json.dumps(config),
            "model_repository": str(repository),
            "model_version": "3",
            "model_instance_name": "negate_0",
        }
    )
    return model


def test_answers_each_request_through_its_own_sender(start: Callable[..., Any]):
    requests = [Request(x=np.array([[n, -n]], np.float32)) for n in range(3)]
    start().execute(requests)
    for number, request in enumerate(requests):
        (tensor,) = request.answer.output_tensors
        assert tensor.name == "y"
        assert tensor.array.tolist() == [[-number, number]]


def test_says_at_the_start_what_it_runs_with(start: Callable[..., Any]):
    start(threads="2", unit_batch="auto")
    assert Logger.lines == [
        "negate_0 version 3: model.onnx runs in onnxruntime on the CPU, 2 threads",
        "negate_0 version 3: 2 threads, requests share calls",
    ]


def test_a_bad_request_does_not_touch_its_neighbours(start: Callable[..., Any]):
    good, bad, last = (Request(x=np.ones(shape, np.float32)) for shape in ((1, 2), (1, 3), (1, 2)))
    start().execute([good, bad, last])
    assert bad.answer.error is not None
    assert bad.answer.error.code == "INVALID_ARG"
    assert good.answer.error is None
    assert last.answer.error is None


class Left(BaseException):
    """The process would have ended here."""


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that gives stubs up."""

    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setenv("VOXREPO_STUB_PATIENCE_S", "30")
    monkeypatch.setattr("os._exit", leave)


def test_a_stub_that_may_have_been_given_up_ends_before_it_answers(start: Callable[..., Any], patience: None):
    model = start()
    first, second = (Request(x=np.ones((1, 2), np.float32)) for _ in range(2))

    def run(jobs: list[Any]) -> None:
        jobs[0].finish({"y": np.zeros((1, 2), np.float32)})
        # a gap between the answers
        model._heartbeat._last = (model._heartbeat._last[0] - 40, model._heartbeat._last[1])
        jobs[1].finish({"y": np.zeros((1, 2), np.float32)})

    model._program.run = run
    with pytest.raises(Left, match="70"):
        model.execute([first, second])
    assert first.answer.error is None
    assert second.sender.sent == []
    model.finalize()


def test_a_gap_after_the_last_answer_ends_the_stub_too(start: Callable[..., Any], patience: None):
    model = start()
    request = Request(x=np.ones((1, 2), np.float32))

    def report() -> None:
        model._heartbeat._last = (model._heartbeat._last[0], model._heartbeat._last[1] - 40)

    model._report = report
    with pytest.raises(Left, match="70"):
        model.execute([request])
    assert request.answer.error is None
    model.finalize()


def test_a_stub_that_ran_all_the_time_answers(start: Callable[..., Any], patience: None):
    model = start()
    request = Request(x=np.ones((1, 2), np.float32))
    model.execute([request])
    assert request.answer.error is None
    model.finalize()


def test_unreadable_parameters_fail_their_own_request_only(start: Callable[..., Any]):
    bad, good = Request("{not json", x=np.ones((1, 2), np.float32)), Request("{}", x=np.ones((1, 2), np.float32))
    start().execute([bad, good])
    assert bad.answer.error is not None
    assert "unreadable request" in bad.answer.error.message
    assert good.answer.error is None


def test_parameters_reach_the_job(start: Callable[..., Any]):
    model = start()
    seen: list[Any] = []
    model._program.run = lambda jobs: seen.extend(job.parameters for job in jobs)
    model.execute([Request('{"noise_scale": 0.5}', x=np.ones((1, 2), np.float32))])
    assert seen == [{"noise_scale": 0.5}]


def test_an_exception_of_the_program_answers_everybody_once(start: Callable[..., Any]):
    model = start()

    def run(jobs: list[Any]) -> None:
        jobs[0].finish({"y": np.zeros((1, 2), np.float32)})
        raise ZeroDivisionError("by nobody")

    model._program.run = run
    requests = [Request(x=np.ones((1, 2), np.float32)) for _ in range(3)]
    model.execute(requests)
    assert requests[0].answer.error is None
    for request in requests[1:]:
        assert request.answer.error is not None
        assert request.answer.error.code == "INTERNAL"
        assert "ZeroDivisionError" in request.answer.error.message


def test_a_request_that_the_program_forgets_is_answered(start: Callable[..., Any]):
    model = start()
    model._program.run = lambda jobs: None
    request = Request(x=np.ones((1, 2), np.float32))
    model.execute([request])
    assert request.answer.error is not None
    assert "unanswered" in request.answer.error.message


def test_a_client_that_is_gone_disturbs_nobody(start: Callable[..., Any]):
    gone, here = (Request(x=np.ones((1, 2), np.float32)) for _ in range(2))
    gone.sender.breaks = True
    start().execute([gone, here])
    assert len(gone.sender.sent) == 1
    assert here.answer.error is None
    assert any("could not be sent" in line for line in Logger.lines)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidArgument("x"), "INVALID_ARG"),
        (errors.ConfigError("x"), "INVALID_ARG"),
        (errors.NotFound("x"), "NOT_FOUND"),
        (errors.Unavailable("x"), "UNAVAILABLE"),
        (errors.Unimplemented("x"), "UNSUPPORTED"),
        (errors.Cancelled("x"), "CANCELLED"),
        (errors.Internal("x"), "INTERNAL"),
        (errors.AlreadyExists("x"), "INTERNAL"),
    ],
)
def test_errors_keep_their_code(model_file: Any, error: errors.VoxrepoError, code: str):
    assert model_file.triton_error(error) == TritonError("x", code)


def test_a_broken_version_is_a_clean_refusal_to_load(model_file: Any, start: Callable[..., Any], tmp_path: Path):
    start()
    (tmp_path / "3" / "model.onnx").write_bytes(b"damaged")
    with pytest.raises(TritonModelException, match=r"model\.onnx: sha256 is"):
        initialize(model_file, tmp_path)


@pytest.mark.parametrize("parameters", [{"threads": "none"}, {"device_ids": "a"}, {"unit_batch": "0"}])
def test_a_parameter_without_sense_is_a_clean_refusal_to_load(start: Callable[..., Any], parameters: dict[str, str]):
    with pytest.raises(TritonModelException, match="the parameter "):
        start(**parameters)


def test_a_server_that_does_not_know_its_device_loads_nothing(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("VOXREPO_DEVICE", "gpu")
    with pytest.raises(TritonModelException, match="VOXREPO_DEVICE is 'gpu'; it must be one of cpu, npu, emulator"):
        start()


@pytest.fixture
def start_on_emulator(model_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Starts the backend on a model for the emulator: ``y = x * scale``."""
    monkeypatch.setenv("VOXREPO_DEVICE", "emulator")
    monkeypatch.setenv("VOXREPO_EMULATOR_DIR", str(makers.EMULATOR_DIR))
    monkeypatch.setenv("VOXREPO_WORKER_PYTHON", sys.executable)

    def start(soc: str = makers.SOC, **parameters: str) -> Any:
        version = tmp_path / "3"
        version.mkdir()
        file = makers.write_static(version / "model.om", soc=soc)
        spec = describe(
            file,
            [("x", "FP32", [2, 8]), ("scale", "FP32", [2, 1])],
            [("y", "FP32", [2, 8])],
            device="npu",
        )
        write_stage(version, DirectStage(program="direct", stage="model", graphs={"model": spec}))
        return initialize(model_file, tmp_path, ("x", "scale"), **parameters)

    return start


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "om_backend" in " ".join(child.cmdline())]


def test_a_graph_for_the_device_runs_in_a_worker_that_ends_with_the_model(start_on_emulator: Callable[..., Any]):
    model = start_on_emulator()
    assert len(children()) == 1
    assert model.is_ready()
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    request = Request(x=x, scale=np.full((2, 1), 3, np.float32))
    model.execute([request])
    (tensor,) = request.answer.output_tensors
    assert (tensor.array == x * 3).all()
    assert any("model.om runs in acl on emulator device 0" in line for line in Logger.lines)
    model.finalize()
    assert children() == []
    model.finalize()


def test_a_model_whose_worker_restarts_says_so_and_is_not_ready(start_on_emulator: Callable[..., Any]):
    model = start_on_emulator()
    (worker,) = model._workers.all
    worker._repeat_within_s = 0.0
    (child,) = children()
    child.send_signal(signal.SIGSTOP)
    child.kill()
    request = Request(x=np.ones((2, 8), np.float32), scale=np.ones((2, 1), np.float32))
    model.execute([request])
    assert request.answer.error is not None
    assert request.answer.error.code == "UNAVAILABLE"
    end = time.monotonic() + 10
    while not model.is_ready() and time.monotonic() < end:
        time.sleep(0.02)
    assert model.is_ready()
    request = Request(x=np.ones((2, 8), np.float32), scale=np.ones((2, 1), np.float32))
    model.execute([request])
    assert request.answer.error is None
    model.finalize()


def test_a_refused_graph_leaves_no_worker_behind(start_on_emulator: Callable[..., Any]):
    with pytest.raises(TritonModelException, match=r"model\.om: .*Ascend310P3.*this device is Ascend910B3"):
        start_on_emulator(soc="Ascend310P3")
    assert children() == []
