"""Proof of a FastSpeech 2 voice: its files, run literally, against the stages, on the same ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voxrepo.importers.fastspeech2 import FastSpeech2
from voxrepo.importers.melgan import MelGan
from voxrepo.importers.onnx_run import Array, max_diff, open_session, run
from voxrepo.importers.proof_host import nearest_frames_per_id, windows
from voxrepo.importers.proof_result import Proof, compare_texts, judge
from voxrepo.importers.proof_texts import TEXT_LENGTHS_IDS, ProofText
from voxrepo.importers.result import Progress
from voxrepo.importers.tflite import interpreter
from voxrepo.importers.tflite.model import TfliteModel
from voxrepo_contract.errors import ConversionRefused

BOUNDARIES = ("hidden", "features", "audio")
ROUNDING_MARGIN_FRAMES = 2e-4
"""A duration this near to a half may be rounded either way by another order of additions; such a text proves nothing
and is drawn again."""
_PADDING = 7


@dataclass(frozen=True)
class Pair:
    """What is proved.

    Attributes:
        acoustic: the cut model.
        vocoder: the lifted generator.
        rounded_vocoder: its source with the rounding that was taken out, to say how much that changes.
        max_frames_per_id: durations are clamped to this.
        window_frames: frames per call of the generator.
        overlap_frames: frames computed and discarded on each side.
    """

    acoustic: FastSpeech2
    vocoder: MelGan
    rounded_vocoder: TfliteModel
    max_frames_per_id: int
    window_frames: int
    overlap_frames: int


@dataclass
class _Spoken:
    text: ProofText
    durations: Array
    hidden: Array
    latent: Array
    features: Array


class _Prover:
    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.encoder = open_session(pair.acoustic.encoder.model)
        self.decoder = open_session(pair.acoustic.decoder.model)
        self.generator = open_session(pair.vocoder.model)
        self.proof = Proof()

    def compare(self, number: int, text: ProofText) -> _Spoken | None:
        """Prove one text; ``None`` if it proves nothing."""
        ids = np.asarray([text.ids], dtype=np.int64)
        feeds = {"phoneme_ids": ids, "lengths": np.asarray([ids.shape[1]], dtype=np.int64)}
        encoded = run(self.encoder, feeds, "the encoder")
        durations = encoded["durations"][0, 0]
        if np.abs(np.mod(durations, 1) - 0.5).min() < ROUNDING_MARGIN_FRAMES:
            return None
        frames = nearest_frames_per_id(durations, 1.0, 1.0, self.pair.max_frames_per_id)
        if int(frames.max()) >= self.pair.max_frames_per_id:
            return None
        original = self._original(ids[0])
        expected = original["counts"].reshape(-1)
        relative = float(np.max(np.abs(durations - original["durations"][0]) / np.maximum(original["durations"][0], 1)))
        self.proof.durations_max_rel_diff = max(self.proof.durations_max_rel_diff, relative)
        differ = np.flatnonzero(expected != frames)
        if differ.size:
            at = int(differ[0])
            raise ConversionRefused(
                f"the cut is not exact at the durations: in proof text {number + 1}, {differ.size} of {frames.size} "
                f"ids get another number of frames (id {at}: {expected[at]} in the original, {frames[at]} after it)"
            )
        latent = np.repeat(encoded["hidden"], frames, axis=2)
        mask = np.ones((1, 1, latent.shape[2]), dtype=np.float32)
        features = run(self.decoder, {"latent": latent, "mask": mask}, "the decoder")["features"]
        audio = self._generate(features)
        for boundary, made, wanted in (
            ("hidden", encoded["hidden"][0].T, original["hidden"][0]),
            ("features", features[0].T, original["features"][0]),
            ("audio", audio, original["audio"].reshape(-1)),
        ):
            if made.shape != wanted.shape:
                raise ConversionRefused(
                    f"the cut is not exact at {boundary!r}: shape {list(wanted.shape)} in the original, "
                    f"{list(made.shape)} after the cut"
                )
            self.proof.note(boundary, max_diff(made, wanted))
        self.proof.heard(audio)
        self.proof.texts += 1
        self.proof.ids += ids.shape[1]
        self.proof.frames += latent.shape[2]
        return _Spoken(text, durations, encoded["hidden"], latent, features)

    def _original(self, ids: npt.NDArray[np.int64]) -> dict[str, Array]:
        acoustic, vocoder = self.pair.acoustic, self.pair.vocoder
        named = {
            "durations": acoustic.tensors.durations,
            "counts": acoustic.tensors.counts,
            "hidden": acoustic.tensors.hidden,
            "features": acoustic.tensors.features,
        }
        values = interpreter.run(acoustic.model, acoustic.feeds(ids), set(named.values()))
        made = {name: values[number] for name, number in named.items()}
        output = vocoder.source.outputs[0]
        feeds = vocoder.feeds(made["features"][0].T)
        return {**made, "audio": interpreter.run(vocoder.source, feeds, {output})[output]}

    def _generate(self, features: Array) -> Array:
        """Audio by windows, [samples]; notes the difference to the whole utterance."""
        hop = self.pair.vocoder.field.hop_length_samples
        kept: list[Array] = []
        for w in windows(features.shape[2], self.pair.window_frames, self.pair.overlap_frames):
            audio = run(self.generator, {"features": features[:, :, w.start : w.stop]}, "the generator")["audio"]
            kept.append(audio[0, 0, (w.keep_from - w.start) * hop : (w.keep_to - w.start) * hop])
        joined = np.concatenate(kept)
        whole = run(self.generator, {"features": features}, "the generator")["audio"]
        self.proof.note("windows", max_diff(joined, whole[0, 0]))
        return joined

    def batch(self, pair: tuple[_Spoken, _Spoken]) -> None:
        """Run two texts as one padded batch beside an empty row: padding must not be heard."""
        ids = np.zeros((3, max(len(s.text.ids) for s in pair) + _PADDING), dtype=np.int64)
        longest = max(s.latent.shape[2] for s in pair) + _PADDING
        latent = np.zeros((3, pair[0].latent.shape[1], longest), dtype=np.float32)
        mask = np.zeros((3, 1, longest), dtype=np.float32)
        for row, s in enumerate(pair):
            ids[row, : len(s.text.ids)] = s.text.ids
            latent[row, :, : s.latent.shape[2]] = s.latent[0]
            mask[row, :, : s.latent.shape[2]] = 1.0
        lengths = np.asarray([*(len(s.text.ids) for s in pair), 0], dtype=np.int64)
        encoded = run(self.encoder, {"phoneme_ids": ids, "lengths": lengths}, "the encoder at a batch of three")
        features = run(self.decoder, {"latent": latent, "mask": mask}, "the decoder at a batch of three")["features"]
        least = self.pair.vocoder.min_frames
        audio = run(self.generator, {"features": features[:, :, :least]}, "the generator at a batch of three")["audio"]
        if audio.shape[0] != 3 or not all(np.isfinite(made).all() for made in (*encoded.values(), features)):
            raise ConversionRefused(
                "the batch axis is not free, or an empty row turns into values that are not numbers"
            )
        for row, s in enumerate(pair):
            count, frames = len(s.text.ids), s.latent.shape[2]
            self.proof.note("batch_of_two", max_diff(encoded["durations"][row, 0, :count], s.durations))
            self.proof.note("batch_of_two", max_diff(encoded["hidden"][row, :, :count], s.hidden[0]))
            self.proof.note("batch_of_two", max_diff(features[row, :, :frames], s.features[0]))

    def rounding_snr_db(self, spoken: _Spoken) -> float:
        """Level of the audio above what the file's rounding to eight bits would add, in dB."""
        audio = self._generate(spoken.features).astype(np.float64)
        output = self.pair.rounded_vocoder.outputs[0]
        feeds = self.pair.vocoder.feeds(spoken.features[0])
        rounded = interpreter.run(self.pair.rounded_vocoder, feeds, {output})[output].reshape(-1)
        noise = np.mean(np.square(rounded - audio))
        return float("inf") if noise == 0 else float(10 * np.log10(np.mean(np.square(audio)) / noise))


def prove_pair(
    pair: Pair, texts: Iterator[ProofText], progress: Progress, *, count: int = len(TEXT_LENGTHS_IDS)
) -> tuple[Proof, float]:
    """Prove that the stages compute what the files compute.

    Args:
        pair: files and stages.
        texts: a stream of texts; some are passed over, see ``ROUNDING_MARGIN_FRAMES``.
        progress: is told a sentence and the share done, 0 to 1, after each text.
        count: number of texts, at least 2.

    Returns:
        The proof, and how many dB the audio is above the noise of the rounding that was taken out.

    Raises:
        ConversionRefused: saying which boundary differed and by how much.
    """
    prover = _Prover(pair)
    spoken = compare_texts(
        texts, prover.compare, prover.proof, progress, count=count, frames=lambda one: one.latent.shape[2]
    )
    if len(spoken) < count:
        raise ConversionRefused(
            f"only {len(spoken)} of {count} proof texts have durations that are clear of a half and below "
            f"{pair.max_frames_per_id} frames; the duration predictor of this voice does not work"
        )
    prover.batch((spoken[0], spoken[1]))
    judge(prover.proof, BOUNDARIES)
    return prover.proof, prover.rounding_snr_db(spoken[0])
