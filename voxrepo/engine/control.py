"""Control calls to the engine: load, unload, index, readiness and probe."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from types import TracebackType

import grpc
import numpy as np
import numpy.typing as npt
import tritonclient.grpc as triton
from google.protobuf import json_format
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.utils import InferenceServerException

from voxrepo.repository.voice import VoiceSpec
from voxrepo_contract.errors import Internal, NotFound, Unavailable

LOAD_TIMEOUT_S = 180.0
PROBE_TIMEOUT_S = 60.0
READY_TIMEOUT_S = 5.0
PROBE_MIN_PEAK = 0.01
"""-40 dBFS; spoken words peak far above it."""


class EngineControl:
    """A control connection to the engine.

    Only calls that are safe to give up carry a time limit: the engine dies of cancelled inferences, not of
    cancelled loads.

    Args:
        target: the engine's gRPC address.
        load_timeout_s: for each load and unload. The engine itself never gives one up.
    """

    def __init__(self, target: str, load_timeout_s: float = LOAD_TIMEOUT_S) -> None:
        self._load_timeout_s = load_timeout_s
        self._client = triton.InferenceServerClient(target)
        self._probing: set[str] = set()

    def __enter__(self) -> EngineControl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # closing cancels what still runs; a probe that was given up holds the client by its callback until it ends
        if not self._probing:
            self._client.close()

    def is_live(self) -> bool:
        """Whether the engine answers at all."""
        try:
            return bool(self._client.is_server_live(client_timeout=5.0))
        except (InferenceServerException, grpc.RpcError):
            return False

    def wait_live(self, timeout_s: float, still_running: Callable[[], bool]) -> None:
        """Wait until the engine answers.

        Raises:
            Unavailable: it exited, or did not answer in time.
        """
        end = time.monotonic() + timeout_s
        while not self.is_live():
            if not still_running():
                raise Unavailable("the engine exited during start-up; its log says why")
            if time.monotonic() > end:
                raise Unavailable(f"the engine did not answer within {timeout_s:g} s; its log says why")
            time.sleep(0.05)

    def load(self, model: str, config: ModelConfig | None = None, *, versions: Collection[int] = ()) -> None:
        """Load a model and make sure that it is ready: the engine answers 200 to a load that did nothing.

        Args:
            model: its name.
            config: the whole configuration, instead of what is on disk. It replaces that, and the engine keeps it
                until what is on disk changes; a load after an unload or a restart must bring it again.
            versions: that must be ready, each.

        Raises:
            Unavailable: it did not load; the text is the engine's reason.
        """
        text = None if config is None else json_format.MessageToJson(config, preserving_proto_field_name=True)
        try:
            self._client.load_model(model, config=text, client_timeout=self._load_timeout_s)
            ready = self._client.is_model_ready(model, client_timeout=READY_TIMEOUT_S)
            absent = [number for number in versions if not self.is_ready(model, number)]
        except InferenceServerException as error:
            if "DEADLINE_EXCEEDED" in str(error.status()):
                raise Unavailable(
                    f"{model} did not load within {self._load_timeout_s:g} s (--load-timeout); the engine's log may "
                    "say how far it came"
                ) from error
            raise Unavailable(_reason(error, model)) from error
        if not ready:
            raise Unavailable(f"{model} was loaded and is not ready; the engine's log says why")
        if absent:
            raise Unavailable(f"{model} was loaded and its version {absent[0]} is not ready; the engine's log says why")

    def is_ready(self, model: str, version: int | None = None) -> bool:
        """Whether a model, or one version of it, can be called.

        Raises:
            Unavailable: the engine does not say.
        """
        number = "" if version is None else str(version)
        try:
            return bool(self._client.is_model_ready(model, number, client_timeout=READY_TIMEOUT_S))
        except InferenceServerException as error:
            raise Unavailable(_reason(error, model)) from error

    def pinned_versions(self, ensemble: str) -> dict[str, int]:
        """Version of each model that an ensemble calls, as the engine has it loaded.

        Raises:
            Unavailable: it is not loaded.
        """
        try:
            answer = self._client.get_model_config(ensemble, client_timeout=READY_TIMEOUT_S)
        except InferenceServerException as error:
            raise Unavailable(_reason(error, ensemble)) from error
        return {step.model_name: int(step.model_version) for step in answer.config.ensemble_scheduling.step}

    def wait_unloaded(self, model: str, timeout_s: float) -> bool:
        """Wait until no version of a model holds memory any more.

        Returns:
            whether that is so; requests that still run in it keep it.

        Raises:
            Unavailable: the engine does not say.
        """
        end = time.monotonic() + timeout_s
        while True:
            try:
                index = self._client.get_model_repository_index(client_timeout=READY_TIMEOUT_S)
            except InferenceServerException as error:
                raise Unavailable(_reason(error, model)) from error
            states = {entry.state for entry in index.models if entry.name == model}
            if not states & {"READY", "LOADING", "UNLOADING"}:
                return True
            if time.monotonic() > end:
                return False
            time.sleep(0.05)

    def unload(self, model: str) -> None:
        """Ask for a model to be unloaded; returns before that is done."""
        try:
            self._client.unload_model(model, client_timeout=self._load_timeout_s)
        except InferenceServerException as error:
            raise NotFound(_reason(error, model)) from error

    def probe_voice(self, spec: VoiceSpec, model: str | None = None, text: str | None = None) -> npt.NDArray[np.int16]:
        """Let a voice speak its probe text and check that speech comes back.

        Args:
            spec: of the voice.
            model: ensemble that speaks, if not the voice's own.
            text: to be spoken, if not the voice's probe text.

        Returns:
            INT16 [N] audio.

        Raises:
            Unavailable: the call failed.
            Internal: the audio is silent or its sample rate is not the voice's.
        """
        name = model or spec.voice
        inputs = []
        for tensor_name, value, dtype in (
            ("text", np.array([[(text or spec.probe_text).encode()]], np.object_), "BYTES"),
            ("speed", np.array([[1.0]], np.float32), "FP32"),
            ("speaker", np.array([[b""]], np.object_), "BYTES"),
            ("seed", np.array([[0]], np.int64), "INT64"),
        ):
            tensor = triton.InferInput(tensor_name, list(value.shape), dtype)
            tensor.set_data_from_numpy(value)
            inputs.append(tensor)
        answers: list[tuple[object, InferenceServerException | None]] = []

        def answered(result: object, error: InferenceServerException | None) -> None:
            self._probing.discard(name)
            answers.append((result, error))

        # never cancelled: on expiry the call is left to finish
        self._probing.add(name)
        self._client.async_infer(name, inputs, answered)
        end = time.monotonic() + PROBE_TIMEOUT_S
        while not answers:
            if time.monotonic() > end:
                raise Unavailable(f"{name}: no answer to the probe text within {PROBE_TIMEOUT_S:g} s")
            time.sleep(0.005)
        result, error = answers[0]
        if error is not None or not isinstance(result, triton.InferResult):
            raise Unavailable(f"{name}: the probe text failed: {error}")
        audio: npt.NDArray[np.int16] = result.as_numpy("audio").reshape(-1)
        rate = int(result.as_numpy("sample_rate").reshape(-1)[0])
        peak = float(np.abs(audio.astype(np.float32)).max(initial=0)) / 32767
        if rate != spec.sample_rate_hz:
            raise Internal(f"{name}: the audio has {rate} Hz, voice.yaml says {spec.sample_rate_hz}")
        if peak < PROBE_MIN_PEAK:
            raise Internal(f"{name}: the probe text came back silent (peak {peak:.4f} of full scale)")
        return audio


def _reason(error: InferenceServerException, model: str) -> str:
    text = str(error.message()).strip()
    return text.removeprefix(f"load failed for model '{model}': ").removesuffix(";").strip()
