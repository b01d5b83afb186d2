"""Whether a recogniser hears the words that a voice was given; runs the stages as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

from voxrepo.convert.text_lengths import segments_of
from voxrepo.importers.onnx_run import open_session, run
from voxrepo.importers.proof_host import frames_per_id, regulate
from voxrepo.importers.proof_texts import SEED
from voxrepo.quality.recogniser import Recogniser, error_rates
from voxrepo.versions.texts import TEXTS
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import (
    AnyStage,
    DirectStage,
    LengthRegulatedStage,
    TextFrontendStage,
    WindowedStage,
    read_stage,
)

Array = npt.NDArray[Any]
MAX_TEXTS = 4
TEXT_NUMBERS = (1, 2, 5, 6)
"""Of the everyday texts of a language: no numbers, which are written in two ways, and no tongue twisters."""


def say(folder: Path, ids: Array) -> Array:
    """Audio FP32 [samples] of one segment, by the stages in ``folder``.

    Raises:
        ConfigError: a stage is of a program that is not said here.
    """
    acoustic, vocoder = read_stage(folder / "acoustic"), read_stage(folder / "vocoder")
    if not isinstance(vocoder, WindowedStage):
        raise ConfigError(f"program: {vocoder.program!r} is no vocoder", file=folder / "vocoder")

    def session(stage: AnyStage, name: str, graph: str) -> ort.InferenceSession:
        return open_session(onnx.load(str(folder / name / stage.graphs[graph].file)))

    if isinstance(acoustic, DirectStage):
        feeds: dict[str, Array] = {
            "phoneme_ids": np.asarray(ids, np.int64)[None],
            "segment_lengths": np.array([[len(ids)]], np.int32),
            "pause_ms": np.zeros((1, 1), np.int32),
            "speed": np.ones((1, 1), np.float32),
            "speaker_id": np.zeros((1, 1), np.int64),
            "seed": np.full((1, 1), SEED, np.int64),
        }
        made = run(session(acoustic, "acoustic", "model"), feeds, "the acoustic stage")["features"]
        features = np.ascontiguousarray(made.transpose(0, 2, 1))
    elif isinstance(acoustic, LengthRegulatedStage) and acoustic.options.expansion == "gaussian":
        options = acoustic.options
        noise = np.random.default_rng(SEED)
        drawn = noise.standard_normal((1, 2, len(ids)), dtype=np.float32) * np.float32(options.noise_w_scale)
        one = np.zeros(1, np.int64)
        encoder = session(acoustic, "acoustic", "encoder")
        given: dict[str, Array] = {
            "phoneme_ids": ids[None],
            "lengths": np.array([len(ids)]),
            "duration_noise": drawn,
            "speaker_id": one,
        }
        encoded = run(encoder, given, "the encoder")
        counts = frames_per_id(encoded["durations"][0, 0], options.length_scale, 1.0, options.max_frames_per_id)
        prior = noise.standard_normal((encoded["mean"].shape[1], int(counts.sum())), dtype=np.float32)
        latent = regulate(encoded["mean"][0], encoded["log_scale"][0], counts, prior, options.noise_scale)[None]
        mask = np.ones((1, 1, latent.shape[2]), np.float32)
        decoder = session(acoustic, "acoustic", "decoder")
        features = run(decoder, {"latent": latent, "mask": mask, "speaker_id": one}, "the decoder")["features"]
    else:
        raise ConfigError(f"program: {acoustic.program!r} is not said here", file=folder / "acoustic")
    generator = session(vocoder, "vocoder", "generator")
    audio = run(generator, {"features": features}, "the vocoder")["audio"].reshape(-1)
    return np.asarray(audio * np.float32(vocoder.options.gain), np.float32)


def _sounds(text: str, language: str) -> str:
    """For Mandarin the syllables without tones: of characters that sound alike a recogniser may write any."""
    if not language.lower().startswith("zh"):
        return text
    from pypinyin import lazy_pinyin  # a front end of this language has it

    return " ".join(lazy_pinyin(text))


def heard_words(texts: tuple[str, ...], folder: Path, sample_rate_hz: int) -> dict[str, Any]:
    """What a recogniser hears of some texts, and the share of wrong characters.

    Raises:
        ConfigError: the recogniser of the extra ``asr`` is not installed.
    """
    front_end = read_stage(folder / "text_frontend")
    assert isinstance(front_end, TextFrontendStage)
    language = front_end.options.language
    everyday = TEXTS.get(language.split("-", maxsplit=1)[0].lower(), ())
    said = texts or tuple(everyday[number] for number in TEXT_NUMBERS if number < len(everyday))
    recogniser = Recogniser()
    heard, rates = [], []
    for text in said[:MAX_TEXTS]:
        audio = np.concatenate([say(folder, ids) for ids in segments_of(folder / "text_frontend", [text])])
        pcm = np.clip(np.rint(audio * 32767), -32768, 32767).astype(np.int16)
        heard.append(recogniser.transcribe(pcm, sample_rate_hz, language))
        rates.append(error_rates(_sounds(text, language), _sounds(heard[-1], language), language).characters)
    return {
        "said": list(said[:MAX_TEXTS]),
        "heard": heard,
        "character_error_rate": round(sum(rates) / len(rates), 4),
    }
