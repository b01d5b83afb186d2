"""What a geared graph is proved on: real ids and frames, run through the source version at their true lengths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from voxrepo.convert.sources import StageSource
from voxrepo.importers.baker import mandarin_proof_texts
from voxrepo.importers.onnx_run import run
from voxrepo.importers.piper_config import BOS, EOS, PAD
from voxrepo.importers.proof_host import frames_per_id, nearest_frames_per_id, regulate
from voxrepo.importers.proof_texts import SEED, TEXT_LENGTHS_IDS, ProofText, proof_texts
from voxrepo_contract.errors import ConfigError, ConversionRefused
from voxrepo_contract.stage import LengthRegulatedStage, TextFrontendStage, WindowedStage

Array = npt.NDArray[Any]
TEXTS = len(TEXT_LENGTHS_IDS)


@dataclass(frozen=True)
class Case:
    """One row for a graph.

    Attributes:
        sizes: true size of every axis that varies, by its name; ``batch`` is 1.
        inputs: by name, of those sizes.
        outputs: what the source graph makes of them, by name.
    """

    sizes: Mapping[str, int]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def open_session(model: str | bytes) -> ort.InferenceSession:
    """A session of one thread: the stored figures are the same in every run."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime has no public base class for its errors
        raise ConversionRefused(f"the graph cannot be loaded for the proof: {error}") from error


def texts_of(
    front_end_dir: Path, front_end: TextFrontendStage, speakers: int, *, skip: int = 0, count: int = TEXTS
) -> list[ProofText]:
    """Texts from the voice's own phonemes, ten if not said otherwise.

    Args:
        front_end_dir: version of the text front end.
        front_end: its ``stage.yaml``.
        speakers: of the voice.
        skip: texts to leave out before the first.
        count: number of texts.

    Raises:
        ConfigError: the phoneme table is missing or of another form.
    """
    file = front_end_dir / front_end.files["inventory"].file if "inventory" in front_end.files else front_end_dir
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        table = dict(data["phonemes"])
        if front_end.options.phonemizer == "pinyin":
            return list(islice(mandarin_proof_texts(table), skip, skip + count))
        marks = {mark: table[data[key]] for mark, key in ((BOS, "bos"), (EOS, "eos"), (PAD, "pad"))}
    except KeyError as error:
        raise ConfigError(f"the phoneme table of the voice lacks {error}; import the voice again", file=file) from error
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"the phoneme table of the voice cannot be read for the proof: {error!r}", file=file
        ) from error
    return list(islice(proof_texts({**table, **marks}, speakers), skip, skip + count))


class Speaker:
    """Runs texts through the source's graphs as far as they are asked for; every piece is computed once.

    Args:
        acoustic: source version of the acoustic stage.
        texts: to be spoken.
    """

    def __init__(self, acoustic: StageSource, texts: Sequence[ProofText]) -> None:
        spec = acoustic.spec
        if not isinstance(spec, LengthRegulatedStage):
            raise ConfigError(
                f"program: {spec.program!r} cannot be proved; the acoustic stage of a voice must be length_regulated",
                file=acoustic.folder,
            )
        self._options = spec.options
        self.texts = texts
        self._encoder_file = acoustic.graph_file("encoder")
        self._decoder_file = acoustic.graph_file("decoder")
        self._encoded: list[dict[str, Array]] = []
        self._decoded: list[Case] = []

    def encoder_cases(self, longest_ids: int) -> list[Case]:
        """One case per text; ids beyond ``longest_ids`` are left out."""
        session = open_session(str(self._encoder_file))
        return [self._encode(session, number, text, longest_ids) for number, text in enumerate(self.texts)]

    def _encode(self, session: ort.InferenceSession, number: int, text: ProofText, longest: int) -> Case:
        ids = np.asarray([text.ids[:longest]], dtype=np.int64)
        noise = np.random.default_rng([SEED, number]).standard_normal((1, 2, ids.shape[1]), dtype=np.float32)
        inputs = {
            "phoneme_ids": ids,
            "lengths": np.asarray([ids.shape[1]], dtype=np.int64),
            "duration_noise": noise * np.float32(self._options.noise_w_scale),
            "speaker_id": np.asarray([text.speaker_id], dtype=np.int64),
        }
        outputs = run(session, inputs, "the encoder of the source version")
        return Case({"batch": 1, "ids": ids.shape[1]}, inputs, outputs)

    def decoder_cases(self) -> list[Case]:
        """One case per text, all frames of it."""
        if not self._decoded:
            session = open_session(str(self._decoder_file))
            longest = max(len(text.ids) for text in self.texts)
            for number, case in enumerate(self.encoder_cases(longest)):
                latent = self._latent(number, case.outputs)
                frames = latent.shape[2]
                inputs = {
                    "latent": latent,
                    "mask": np.ones((1, 1, frames), dtype=np.float32),
                    "speaker_id": case.inputs["speaker_id"],
                }
                outputs = run(session, inputs, "the decoder of the source version")
                self._decoded.append(Case({"batch": 1, "frames": frames}, inputs, outputs))
        return self._decoded

    def _latent(self, number: int, encoded: Mapping[str, Array]) -> Array:
        options = self._options
        if options.expansion == "repeat":
            counts = nearest_frames_per_id(
                encoded["durations"][0, 0], options.length_scale, 1.0, options.max_frames_per_id
            )
            return np.repeat(encoded["hidden"], counts, axis=2)
        frames = frames_per_id(encoded["durations"][0, 0], options.length_scale, 1.0, options.max_frames_per_id)
        mean = encoded["mean"][0]
        noise = np.random.default_rng([SEED, number, 1])
        prior = noise.standard_normal((mean.shape[0], int(frames.sum())), dtype=np.float32)
        return regulate(mean, encoded["log_scale"][0], frames, prior, options.noise_scale)[None]


def pieces(cases: Sequence[Case], longest: int) -> Iterator[dict[str, Array]]:
    """Inputs of decoder cases, cut into parts of at most ``longest`` frames."""
    for case in cases:
        for start in range(0, case.sizes["frames"], longest):
            yield {
                name: value if value.ndim < 3 else value[:, :, start : start + longest]
                for name, value in case.inputs.items()
            }


def decoder_pieces(source: StageSource, cases: Sequence[Case], longest: int) -> list[Case]:
    """The decoder's cases in parts that fit its longest gear, each run at its own length."""
    if max(case.sizes["frames"] for case in cases) <= longest:
        return list(cases)
    session = open_session(str(source.graph_file("decoder")))
    return [
        Case({"batch": 1, "frames": inputs["latent"].shape[2]}, inputs, run(session, inputs, "the decoder"))
        for inputs in pieces(cases, longest)
    ]


def feature_parts(features: Array, longest: int, least: int) -> list[Array]:
    """Features [1, C, frames] in parts of ``least`` to ``longest`` frames.

    The last part begins earlier if it would be too short; features that are too short as a whole are lengthened by
    their last frame, as the ``windowed`` program does.
    """
    missing = max(0, least - features.shape[2])
    features = np.concatenate([features, np.repeat(features[:, :, -1:], missing, axis=2)], axis=2)
    frames = features.shape[2]
    starts = [min(start, frames - least) for start in range(0, frames, longest)]
    return [np.ascontiguousarray(features[:, :, start : start + longest]) for start in starts]


def generator_cases(source: StageSource, spoken: Sequence[Case], longest: int) -> list[Case]:
    """Features of the decoder, in parts that fit the longest window, each run by the source at its own length.

    Where the source needs a least number of frames, there are parts of that length and just above too, where everything
    is near an end.
    """
    assert isinstance(source.spec, WindowedStage) and source.spec.interface.hop_length_samples is not None
    hop = source.spec.interface.hop_length_samples
    session = open_session(str(source.graph_file("generator")))
    least = min(source.spec.options.min_frames, longest)
    cases: list[Case] = []
    for number, case in enumerate(spoken):
        features = case.outputs["features"]
        parts = feature_parts(features, longest, least)
        if least > 1 and features.shape[2] > least:
            parts.append(np.ascontiguousarray(features[:, :, -min(least + number, longest) :]))
        for part in parts:
            frames = part.shape[2]
            outputs = run(session, {"features": part}, "the generator of the source version")
            inputs = {"features": part, "mask": np.ones((1, 1, frames), dtype=np.float32)}
            cases.append(Case({"batch": 1, "frames": frames, "samples": frames * hop}, inputs, outputs))
    return cases
