"""Proof of a cut: the original graph against the stages, on the same ids and the same noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

from voxrepo.importers.onnx_run import max_diff, open_session, run
from voxrepo.importers.proof_host import Array, frames_per_id, regulate, windows
from voxrepo.importers.proof_result import BOUNDARIES, WIDE_NOISE_SCALE, Proof, compare_texts, judge
from voxrepo.importers.proof_texts import SEED, TEXT_LENGTHS_IDS, ProofText
from voxrepo.importers.result import Progress
from voxrepo_contract.errors import ConversionRefused


@dataclass(frozen=True)
class Pieces:
    """The graphs of a voice and the numbers that tie them together.

    Attributes:
        reference: the original with its two random nodes turned into inputs, see ``reference_model``.
        reference_encoder: the original's encoder, with the inputs and outputs of ``encoder``.
        encoder: ids to durations, mean and log-scale.
        decoder: latent to features.
        generator: features to audio.
        noise_scale: of the prior.
        noise_w_scale: of the duration predictor.
        length_scale: frames per predicted frame.
        max_frames_per_id: durations are clamped to this.
        window_frames: frames per call of the generator.
        overlap_frames: frames computed and discarded on each side.
        hop_length_samples: samples per frame.
    """

    reference: onnx.ModelProto
    reference_encoder: onnx.ModelProto
    encoder: onnx.ModelProto
    decoder: onnx.ModelProto
    generator: onnx.ModelProto
    noise_scale: float
    noise_w_scale: float
    length_scale: float
    max_frames_per_id: int
    window_frames: int
    overlap_frames: int
    hop_length_samples: int


def _max_relative(a: Array, b: Array) -> float:
    """Largest difference of ``a`` relative to ``b``; infinite where only one of them is finite."""
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    finite = np.isfinite(b)
    reference = b[finite].astype(np.float64)
    return float(np.max(np.abs(a[finite] - reference) / np.maximum(np.abs(reference), 1e-6), initial=0.0))


@dataclass
class _Spoken:
    """What the stages made of one text."""

    text: ProofText
    encoded: dict[str, Array]
    latent: Array
    features: Array


class _Prover:
    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.reference = open_session(pieces.reference)
        self.encoder = open_session(pieces.encoder)
        self.decoder = open_session(pieces.decoder)
        self.generator = open_session(pieces.generator)
        self.proof = Proof()

    def encode(self, text: ProofText, noise: Array) -> tuple[dict[str, Array], npt.NDArray[np.int64]]:
        ids = np.asarray([text.ids], dtype=np.int64)
        feeds = {
            "phoneme_ids": ids,
            "lengths": np.asarray([ids.shape[1]], dtype=np.int64),
            "duration_noise": noise * np.float32(self.pieces.noise_w_scale),
            "speaker_id": np.asarray([text.speaker_id], dtype=np.int64),
        }
        encoded = run(self.encoder, feeds, "the encoder")
        p = self.pieces
        return encoded, frames_per_id(encoded["durations"][0, 0], p.length_scale, 1.0, p.max_frames_per_id)

    def wide_noise(self, number: int, text: ProofText) -> None:
        """Compare the durations of original and rewritten encoder at noise that leaves the spline's interval."""
        generator = np.random.default_rng([SEED, number])
        ids = np.asarray([text.ids], dtype=np.int64)
        feeds = {
            "phoneme_ids": ids,
            "lengths": np.asarray([ids.shape[1]], dtype=np.int64),
            "duration_noise": generator.standard_normal((1, 2, ids.shape[1]), dtype=np.float32)
            * np.float32(WIDE_NOISE_SCALE),
            "speaker_id": np.asarray([text.speaker_id], dtype=np.int64),
        }
        original = run(open_session(self.pieces.reference_encoder), feeds, "the original encoder")["durations"]
        rewritten = run(self.encoder, feeds, "the encoder")["durations"]
        self.proof.wide_noise_max_rel_diff = _max_relative(rewritten, original)

    def generate(self, features: Array) -> Array:
        """Audio by windows, [samples]; notes the difference to the whole utterance."""
        p = self.pieces
        hop = p.hop_length_samples
        kept: list[Array] = []
        for w in windows(features.shape[2], p.window_frames, p.overlap_frames):
            audio = run(self.generator, {"features": features[:, :, w.start : w.stop]}, "the generator")["audio"]
            if audio.shape[2] != (w.stop - w.start) * hop:
                raise ConversionRefused(
                    f"the generator makes {audio.shape[2]} samples of {w.stop - w.start} frames; its upsampling "
                    f"strides say {hop} per frame"
                )
            kept.append(audio[0, 0, (w.keep_from - w.start) * hop : (w.keep_to - w.start) * hop])
        audio = np.concatenate(kept)
        whole = run(self.generator, {"features": features}, "the generator")["audio"]
        self.proof.note("windows", max_diff(audio, whole[0, 0]))
        return audio

    def compare(self, number: int, text: ProofText) -> _Spoken | None:
        """Prove one text; ``None`` if a duration was clamped, which the original does not do."""
        p = self.pieces
        generator = np.random.default_rng([SEED, number])
        duration_noise = generator.standard_normal((1, 2, len(text.ids)), dtype=np.float32)
        encoded, frames = self.encode(text, duration_noise)
        if int(frames.max()) >= p.max_frames_per_id:
            return None
        total = int(frames.sum())
        channels = encoded["mean"].shape[1]
        # more noise than needed, so that an original with other durations runs to its end and can be compared
        noise = generator.standard_normal((1, channels, 2 * total + 1024), dtype=np.float32)
        original = run(
            self.reference,
            {
                "phoneme_ids": np.asarray([text.ids], dtype=np.int64),
                "lengths": np.asarray([len(text.ids)], dtype=np.int64),
                "scales": np.asarray([p.noise_scale, p.length_scale, p.noise_w_scale], dtype=np.float32),
                "speaker_id": np.asarray([text.speaker_id], dtype=np.int64),
                "duration_random": duration_noise,
                "prior_random": noise,
            },
            "the original graph",
        )
        relative = _max_relative(encoded["durations"], original["durations"])
        self.proof.durations_max_rel_diff = max(self.proof.durations_max_rel_diff, relative)
        expected = original["frames_per_id"].reshape(-1).astype(np.int64)
        differ = np.flatnonzero(expected != frames)
        if differ.size:
            at = int(differ[0])
            raise ConversionRefused(
                f"the cut is not exact at the durations: in proof text {number + 1}, {differ.size} of {frames.size} "
                f"ids get another number of frames (id {at}: {expected[at]} in the original, {frames[at]} after the "
                f"cut; largest relative difference {relative:.2g})"
            )
        latent = regulate(encoded["mean"][0], encoded["log_scale"][0], frames, noise[0, :, :total], p.noise_scale)
        mask = np.ones((1, 1, total), dtype=np.float32)
        speaker = np.asarray([text.speaker_id], dtype=np.int64)
        feeds = {"latent": latent[None], "mask": mask, "speaker_id": speaker}
        features = run(self.decoder, feeds, "the decoder")["features"]
        audio = self.generate(features)
        made = {**encoded, "latent": latent[None], "features": features, "audio": audio[None, None]}
        for boundary in BOUNDARIES:
            if made[boundary].shape != original[boundary].shape:
                raise ConversionRefused(
                    f"the cut is not exact at {boundary!r}: shape {list(original[boundary].shape)} in the original, "
                    f"{list(made[boundary].shape)} after the cut"
                )
            self.proof.note(boundary, max_diff(made[boundary], original[boundary]))
        self.proof.heard(audio)
        self.proof.texts += 1
        self.proof.ids += len(text.ids)
        self.proof.frames += total
        return _Spoken(text, encoded, latent, features)

    def batch(self, pair: tuple[_Spoken, _Spoken]) -> None:
        """Run two texts as one padded batch: the batch axis must be real and padding must not be heard."""
        ids = np.zeros((2, max(len(s.text.ids) for s in pair)), dtype=np.int64)
        longest = max(s.latent.shape[1] for s in pair)
        latent = np.zeros((2, pair[0].latent.shape[0], longest), dtype=np.float32)
        mask = np.zeros((2, 1, longest), dtype=np.float32)
        for row, s in enumerate(pair):
            ids[row, : len(s.text.ids)] = s.text.ids
            latent[row, :, : s.latent.shape[1]] = s.latent
            mask[row, :, : s.latent.shape[1]] = 1.0
        feeds: dict[str, Array] = {
            "phoneme_ids": ids,
            "lengths": np.asarray([len(s.text.ids) for s in pair], dtype=np.int64),
            "duration_noise": np.zeros((2, 2, ids.shape[1]), dtype=np.float32),
            "latent": latent,
            "mask": mask,
            "speaker_id": np.asarray([s.text.speaker_id for s in pair], dtype=np.int64),
        }
        encoded = run(self.encoder, feeds, "the encoder at a batch of two")
        features = run(self.decoder, feeds, "the decoder at a batch of two")["features"]
        audio = run(self.generator, {"features": features[:, :, :16]}, "the generator at a batch of two")["audio"]
        if audio.shape[0] != 2:
            raise ConversionRefused("the generator has its batch size baked in; export it with a dynamic batch axis")
        for row, s in enumerate(pair):
            count, frames = len(s.text.ids), s.latent.shape[1]
            self.proof.note("batch_of_two", max_diff(encoded["mean"][row, :, :count], s.encoded["mean"][0]))
            self.proof.note("batch_of_two", max_diff(features[row, :, :frames], s.features[0]))


def prove(
    pieces: Pieces, texts: Iterator[ProofText], progress: Progress, *, count: int = len(TEXT_LENGTHS_IDS)
) -> Proof:
    """Prove that the stages compute what the original computes.

    Args:
        pieces: original and stages.
        texts: a stream of texts; one whose durations would be clamped is skipped.
        progress: is told a sentence and the share done, 0 to 1, after each text.
        count: number of texts, at least 2.

    Raises:
        ConversionRefused: saying which boundary differed and by how much.
    """
    prover = _Prover(pieces)
    spoken = compare_texts(
        texts, prover.compare, prover.proof, progress, count=count, frames=lambda one: one.latent.shape[1]
    )
    if len(spoken) < count:
        raise ConversionRefused(
            f"only {len(spoken)} of {count} proof texts have durations below {pieces.max_frames_per_id} frames per "
            "id; the duration predictor of this voice does not work"
        )
    prover.batch((spoken[0], spoken[1]))
    prover.wide_noise(count, max((s.text for s in spoken), key=lambda text: len(text.ids)))
    judge(prover.proof)
    return prover.proof
