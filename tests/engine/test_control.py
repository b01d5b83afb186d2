from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from google.protobuf import json_format
from tritonclient.grpc import service_pb2
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.utils import InferenceServerException

from tests.repository.tiny import SAMPLE_RATE_HZ, voice_spec
from voxrepo.engine import control as control_module
from voxrepo.engine.control import EngineControl
from voxrepo_contract.errors import Internal, NotFound, Unavailable


class FakeClient:
    """The calls of tritonclient that control makes."""

    def __init__(self) -> None:
        self.live: list[bool] = []
        self.error: InferenceServerException | None = None
        self.ready = True
        self.answer: tuple[Any, Any] | None = None
        self.sent: dict[str, Any] = {}
        self.closed = False
        self.config: str | None = None
        self.time_limits_s: list[float] = []

    def is_server_live(self, client_timeout: float) -> bool:
        return self.live.pop(0) if self.live else False

    def load_model(self, model: str, config: str | None = None, client_timeout: float = 0) -> None:
        self.config = config
        self.time_limits_s.append(client_timeout)
        if self.error is not None:
            raise self.error

    unload_model = load_model

    def is_model_ready(self, model: str, client_timeout: float) -> bool:
        return self.ready

    def async_infer(self, model: str, inputs: list[Any], callback: Callable[[Any, Any], None]) -> None:
        self.callback = callback
        self.sent = {tensor.name(): (tensor.datatype(), tensor.shape()) for tensor in inputs}
        if self.answer is not None:
            callback(*self.answer)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def control(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> EngineControl:
    monkeypatch.setattr(triton, "InferenceServerClient", lambda target: client)
    return EngineControl("unix:/nowhere:1")


def spoken(peak: int, rate: int = SAMPLE_RATE_HZ) -> triton.InferResult:
    response = service_pb2.ModelInferResponse()
    for name, dtype, value in (
        ("audio", "INT16", np.array([[0, peak, -3]], np.int16)),
        ("sample_rate", "INT32", np.array([[rate]], np.int32)),
    ):
        response.outputs.add(name=name, datatype=dtype, shape=value.shape)
        response.raw_output_contents.append(value.tobytes())
    return triton.InferResult(response)


def test_an_engine_that_is_not_there_is_not_live():
    with EngineControl("unix:/nowhere/engine.sock:1") as control:
        assert not control.is_live()


def test_waits_until_the_engine_answers(control: EngineControl, client: FakeClient):
    client.live = [False, False, True]
    control.wait_live(5, lambda: True)


def test_an_engine_that_exits_ends_the_wait_at_once(control: EngineControl):
    start = time.monotonic()
    with pytest.raises(Unavailable, match="the engine exited during start-up; its log says why"):
        control.wait_live(60, lambda: False)
    assert time.monotonic() - start < 1


def test_an_engine_that_never_answers_ends_the_wait(control: EngineControl):
    with pytest.raises(Unavailable, match=r"did not answer within 0\.1 s"):
        control.wait_live(0.1, lambda: True)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: no.;\n",
            "version 1 is at UNAVAILABLE ",
        ),
        ("failed to load 'm', failed to poll from model repository", "failed to load 'm', failed to poll from"),
    ],
)
def test_a_failed_load_says_the_engines_reason(control: EngineControl, client: FakeClient, said: str, reason: str):
    client.error = InferenceServerException(said)
    with pytest.raises(Unavailable) as caught:
        control.load("m")
    assert caught.value.message.startswith(reason)
    assert not caught.value.message.endswith((";", "\n"))


def test_a_load_that_hangs_is_bounded_and_names_the_model(control: EngineControl, client: FakeClient):
    client.error = InferenceServerException("Deadline Exceeded", status="StatusCode.DEADLINE_EXCEEDED")
    with pytest.raises(Unavailable, match=r"m did not load within 180 s \(--load-timeout\)"):
        control.load("m")


def test_loads_and_unloads_carry_the_time_limit(client: FakeClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(triton, "InferenceServerClient", lambda target: client)
    control = EngineControl("unix:/nowhere:1", load_timeout_s=7.0)
    control.load("m")
    control.unload("m")
    assert client.time_limits_s == [7.0, 7.0]


def test_a_load_that_did_nothing_is_noticed(control: EngineControl, client: FakeClient):
    client.ready = False
    with pytest.raises(Unavailable, match="m was loaded and is not ready"):
        control.load("m")


def test_unloading_what_is_not_there_is_not_found(control: EngineControl, client: FakeClient):
    client.error = InferenceServerException("unknown model 'm'")
    with pytest.raises(NotFound, match="unknown model 'm'"):
        control.unload("m")


def test_a_probe_sends_all_inputs_and_returns_the_speech(control: EngineControl, client: FakeClient):
    client.answer = (spoken(20_000), None)
    assert control.probe_voice(voice_spec()).tolist() == [0, 20_000, -3]
    assert client.sent == {
        "text": ("BYTES", [1, 1]),
        "speed": ("FP32", [1, 1]),
        "speaker": ("BYTES", [1, 1]),
        "seed": ("INT64", [1, 1]),
    }


def test_a_silent_probe_is_refused(control: EngineControl, client: FakeClient):
    client.answer = (spoken(100), None)
    with pytest.raises(Internal, match=r"tiny: the probe text came back silent \(peak 0\.0031"):
        control.probe_voice(voice_spec())


def test_a_probe_at_another_sample_rate_is_refused(control: EngineControl, client: FakeClient):
    client.answer = (spoken(20_000, rate=8000), None)
    with pytest.raises(Internal, match=f"tiny: the audio has 8000 Hz, voice.yaml says {SAMPLE_RATE_HZ}"):
        control.probe_voice(voice_spec())


def test_a_failed_probe_says_why(control: EngineControl, client: FakeClient):
    client.answer = (None, InferenceServerException("no such stage"))
    with pytest.raises(Unavailable, match="tiny: the probe text failed: no such stage"):
        control.probe_voice(voice_spec())


def test_a_probe_without_an_answer_ends(control: EngineControl, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control_module, "PROBE_TIMEOUT_S", 0.05)
    with pytest.raises(Unavailable, match=r"no answer to the probe text within 0\.05 s"):
        control.probe_voice(voice_spec())


def test_a_probe_that_was_given_up_is_not_cancelled_by_closing(
    control: EngineControl, client: FakeClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(control_module, "PROBE_TIMEOUT_S", 0.05)
    with control, pytest.raises(Unavailable):
        control.probe_voice(voice_spec())
    assert not client.closed
    client.callback(spoken(20_000), None)
    with control:
        pass
    assert client.closed


def test_a_configuration_is_handed_over_as_json(control: EngineControl, client: FakeClient):
    config = ModelConfig(name="m", backend="ascend_om", max_batch_size=4)
    config.dynamic_batching.SetInParent()
    config.input.add(name="x", dims=[-1])
    control.load("m", config)
    assert client.config is not None
    assert json_format.Parse(client.config, ModelConfig()) == config
    # field names as the engine knows them
    assert '"max_batch_size"' in client.config


def test_without_a_configuration_what_is_on_disk_counts(control: EngineControl, client: FakeClient):
    control.load("m")
    assert client.config is None
