"""The smoke test of a new version: in an engine of its own it says some texts beside the current version."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from voxrepo.engine.binary import find_engine
from voxrepo.engine.control import PROBE_MIN_PEAK, EngineControl
from voxrepo.quality.recogniser import Recogniser, error_rates
from voxrepo.repository.arms import CheckedArm
from voxrepo.repository.check import CheckedVoice
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_voice
from voxrepo.supervisor.device import Asked
from voxrepo.versions.scores import Scores, Utterance, score
from voxrepo.versions.trial import private_engine
from voxrepo.versions.trial_device import device_for
from voxrepo_contract.errors import InvalidArgument, VoxrepoError

CANDIDATE = "candidate"
SAY_TIMEOUT_S = 120.0
SEED = 20_240_601

Progress = Callable[[str, float], None]


class SmokeRefused(InvalidArgument):
    """A version does not speak as a voice must; the text gives texts and numbers."""


@dataclass(frozen=True)
class SmokeOptions:
    """How a version is tried.

    Attributes:
        texts: that it says.
        engine: tritonserver to use instead of the wheel's.
        device: what graphs with ``device: npu`` run on; ``auto`` is an NPU, if one works.
        worker_python: Python of device workers; this one if not given.
        emulator_settings: the operator's file for the emulator.
        transcribe: let the recogniser of the extra ``asr`` listen too.
    """

    texts: tuple[str, ...]
    engine: Path | None = None
    device: Asked = "auto"
    worker_python: Path | None = None
    emulator_settings: Path | None = None
    transcribe: bool = False


def try_version(trial: Layout, arm: CheckedArm, options: SmokeOptions, progress: Progress) -> Scores:
    """Let the arm with the new version and the voice as it is say the same texts with the same seeds, in turns.

    Args:
        trial: root that holds both; see :func:`voxrepo.versions.trial.trial_root`.
        arm: of the voice in that root.
        options: of the trial.
        progress: told a sentence and the share done.

    Raises:
        SmokeRefused: the new version does not load, fails, is silent, or has another sample rate.
        Unavailable: the engine does not start.
        ConfigError: there is no engine or no recogniser, or not the device that a graph needs.
    """
    binary = find_engine(options.engine)
    device = device_for(trial, arm, options.device, options.worker_python)
    recogniser = Recogniser() if options.transcribe else None
    voice = arm.voice
    progress("starting an engine for the trial", 0.0)
    with private_engine(trial, binary, device, options.emulator_settings) as engine:
        progress(f"loading {voice.spec.voice} as it is", 0.05)
        _load_current(trial, engine.control, voice)
        progress(f"loading {_described(arm)}", 0.2)
        _load_candidate(trial, engine.control, arm)
        said = _say_all(engine.target, arm, options.texts, progress)
    scores = score([pair[0] for pair in said.pairs], [pair[1] for pair in said.pairs if pair[1] is not None])
    if device.device == "emulator":
        scores.warnings.append("graphs for an NPU ran in the emulator: its times and its precision are no chip's")
    if said.trouble:
        scores.warnings.append(f"the current version failed, so nothing was compared: {said.trouble}")
    if recogniser is not None:
        progress("listening", 0.95)
        _transcribe(recogniser, voice.spec.language, said, scores)
    return scores


@dataclass
class _Said:
    pairs: list[tuple[Utterance, Utterance | None]]
    trouble: str = ""


def _described(arm: CheckedArm) -> str:
    return ", ".join(f"{stage} version {arm.versions[stage]}" for stage in arm.differing)


def _load_current(trial: Layout, control: EngineControl, voice: CheckedVoice) -> None:
    publish_voice(trial, voice, {}, cores=1)
    try:
        for model in voice.spec.stage_models().values():
            control.load(model)
        control.load(voice.spec.voice)
    except VoxrepoError as error:
        raise SmokeRefused(
            f"{voice.spec.voice} as it is does not load, so that the new version cannot be tried beside it: "
            f"{error.message}; repair it, or add the version with --no-smoke"
        ) from error


def _load_candidate(trial: Layout, control: EngineControl, arm: CheckedArm) -> None:
    publish_voice(trial, arm.voice, {arm.arm: arm.versions}, cores=1)
    models = arm.voice.spec.stage_models()
    try:
        for stage in arm.differing:
            control.load(models[stage], versions=[arm.versions[stage]])
        control.load(arm.name)
    except VoxrepoError as error:
        raise SmokeRefused(f"{_described(arm)} does not load: {error.message}") from error


def _say_all(target: str, arm: CheckedArm, texts: Sequence[str], progress: Progress) -> _Said:
    spec = arm.voice.spec
    said = _Said([])
    with triton.InferenceServerClient(target) as client:
        for number, text in enumerate(texts):
            speaker = spec.speakers[number % len(spec.speakers)]
            progress(f"text {number + 1} of {len(texts)}", 0.3 + 0.65 * number / len(texts))
            try:
                new = say(client, arm.name, text, speaker, SEED + number)
            except InferenceServerException as error:
                raise SmokeRefused(f"{_described(arm)} failed at {_quoted(text)}: {_cleaned(error)}") from error
            check_utterance(_described(arm), new, spec.sample_rate_hz)
            current: Utterance | None = None
            if not said.trouble:
                try:
                    current = say(client, spec.voice, text, speaker, SEED + number)
                except InferenceServerException as error:
                    said.trouble = f"at {_quoted(text)}: {_cleaned(error)}"
            said.pairs.append((new, current))
    if said.trouble:
        said.pairs = [(new, None) for new, _ in said.pairs]
    return said


def check_utterance(what: str, said: Utterance, sample_rate_hz: int) -> None:
    """Refuse audio that no voice may send.

    Raises:
        SmokeRefused: with numbers.
    """
    if said.sample_rate_hz != sample_rate_hz:
        raise SmokeRefused(f"{what} answers with {said.sample_rate_hz} Hz, and the voice has {sample_rate_hz}")
    peak = float(np.abs(said.audio.astype(np.float32)).max(initial=0)) / 32767
    if peak < PROBE_MIN_PEAK:
        raise SmokeRefused(
            f"{what} is silent at {_quoted(said.text)}: {said.audio.size} samples, peak {peak:.4f} of full scale, at "
            f"least {PROBE_MIN_PEAK} is speech"
        )


def say(client: triton.InferenceServerClient, model: str, text: str, speaker: str, seed: int) -> Utterance:
    """Have a text said.

    Raises:
        InferenceServerException: the engine's error.
    """
    inputs = []
    values: Mapping[str, tuple[npt.NDArray[np.generic], str]] = {
        "text": (np.array([[text.encode()]], np.object_), "BYTES"),
        "speed": (np.array([[1.0]], np.float32), "FP32"),
        "speaker": (np.array([[speaker.encode()]], np.object_), "BYTES"),
        "seed": (np.array([[seed]], np.int64), "INT64"),
    }
    for name, (value, dtype) in values.items():
        tensor = triton.InferInput(name, list(value.shape), dtype)
        tensor.set_data_from_numpy(value)
        inputs.append(tensor)
    started = time.perf_counter()
    # a time limit may end the engine, which is this trial's own
    result = client.infer(model, inputs, client_timeout=SAY_TIMEOUT_S)
    latency_s = time.perf_counter() - started
    rate = int(result.as_numpy("sample_rate").reshape(-1)[0])
    return Utterance(text, result.as_numpy("audio").reshape(-1), rate, latency_s)


def _transcribe(recogniser: Recogniser, language: str, said: _Said, scores: Scores) -> None:
    for metrics, spoken in (
        (scores.metrics, [new for new, _ in said.pairs]),
        (scores.current, [current for _, current in said.pairs if current is not None]),
    ):
        rates = [
            error_rates(one.text, recogniser.transcribe(one.audio, one.sample_rate_hz, language), language)
            for one in spoken
        ]
        if rates:
            metrics["character_error_rate"] = round(sum(rate.characters for rate in rates) / len(rates), 4)
            words = [rate.words for rate in rates if rate.words is not None]
            if words:
                metrics["word_error_rate"] = round(sum(words) / len(words), 4)


def _cleaned(error: InferenceServerException) -> str:
    return str(error.message()).strip()


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
