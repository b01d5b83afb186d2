"""An acoustic graph and a vocoder, checked together: by the sound of some texts, and window against whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

from voxrepo.convert.text_lengths import segments_of
from voxrepo.importers.generic_acoustic import Acoustic
from voxrepo.importers.generic_config import VoiceFacts
from voxrepo.importers.generic_frontend import FrontEnd
from voxrepo.importers.generic_request import GenericRequest
from voxrepo.importers.generic_sound import SoundCheck, check_sound
from voxrepo.importers.generic_stage_graph import stage_graph
from voxrepo.importers.generic_vocoder import Vocoder, overlap_of, prove_windows
from voxrepo.importers.onnx_run import open_session, run
from voxrepo.importers.proof_result import Proof
from voxrepo.importers.result import Progress
from voxrepo.importers.stage_files import window_frames_for
from voxrepo.versions.texts import TEXTS
from voxrepo_contract.errors import ConversionRefused, InvalidArgument

Array = npt.NDArray[Any]

TEXT_NUMBERS = (1, 2, 3, 7)
"""Of the everyday texts of a language, those that are spoken for the check by sound: sentences, no single words."""
MAX_TEXTS = 4
SEED = 1


@dataclass(frozen=True)
class CheckedPair:
    """Both graphs, and what was found out by speaking with them.

    Attributes:
        acoustic: the graph of features.
        vocoder: the graph of audio.
        model: the acoustic graph behind the stage's tensors.
        sample_rate_hz: of the audio.
        speakers: names in the order of their ids.
        mel_scale: factor on the features.
        mel_shift: what is added to them then.
        overlap_frames: that a window of the vocoder needs on each side.
        overlap_found: how that was found.
        window_frames: length of a window.
        sound: what was heard.
        proof: figures of windows against whole utterances, and loudness.
        notes: sentences for the user.
    """

    acoustic: Acoustic
    vocoder: Vocoder
    model: onnx.ModelProto
    sample_rate_hz: int
    speakers: list[str]
    mel_scale: float
    mel_shift: float
    overlap_frames: int
    overlap_found: str
    window_frames: int
    sound: SoundCheck
    proof: Proof
    notes: tuple[str, ...]


def check_pair(
    request: GenericRequest,
    facts: VoiceFacts,
    acoustic: Acoustic,
    vocoder: Vocoder,
    front_end: FrontEnd,
    folder: Path,
    sample_rate_hz: int,
    speakers: list[str],
    progress: Progress,
) -> CheckedPair:
    """Speak some texts with both graphs, listen, and find out how far the vocoder hears.

    Args:
        request: what the user says.
        facts: what the files say.
        acoustic: the graph of features.
        vocoder: the graph of audio.
        front_end: that reads the texts.
        folder: of the front end's stage.
        sample_rate_hz: of the audio.
        speakers: names in the order of their ids.
        progress: told a sentence and the share done.

    Raises:
        InvalidArgument: there are no texts in the voice's language.
        ConversionRefused: the graphs do not run, or what they speak is no speech.
    """
    scale, shift = _mel(request, facts)
    model = stage_graph(acoustic, scale, shift)
    language = front_end.stage.options.language.split("-", maxsplit=1)[0].lower()
    known = TEXTS.get(language, ())
    texts = request.texts or tuple(known[n] for n in TEXT_NUMBERS if n < len(known))
    if not texts:
        raise InvalidArgument(
            f"there are no texts of the language {front_end.stage.options.language} to check the voice with; give some "
            "with --texts FILE, one a line"
        )
    segments = segments_of(folder, texts[:MAX_TEXTS])
    session = open_session(model)
    features = [_features(session, segment, request) for segment in segments]
    what = f"{request.acoustic.name} with {request.vocoder.name}"
    speak = vocoder.speaker()
    sound = check_sound(features, speak, sample_rate_hz, what, mel_scale=scale)
    _check_warm_up(session, request)
    progress("finding out how far the vocoder hears", 0.4)
    overlap, found = overlap_of(vocoder, features[0])
    window = max(window_frames_for(overlap), vocoder.min_frames)
    proof = Proof()
    proof.note("windows", prove_windows(vocoder, features, window, overlap))
    for segment, one in zip(segments, features, strict=True):
        proof.texts += 1
        proof.ids += len(segment)
        proof.frames += one.shape[2]
        proof.heard(speak(one))
    notes = () if vocoder.takes_batches else ("the vocoder takes one window per call, since its batch size is fixed",)
    return CheckedPair(
        acoustic,
        vocoder,
        model,
        sample_rate_hz,
        speakers,
        scale,
        shift,
        overlap,
        found,
        window,
        sound,
        proof,
        notes,
    )


def _mel(request: GenericRequest, facts: VoiceFacts) -> tuple[float, float]:
    scale, shift = facts.number("mel_scale", -1000, 1000), facts.number("mel_shift", -1000, 1000)
    return (
        request.mel_scale if request.mel_scale is not None else float(scale.value) if scale else 1.0,
        request.mel_shift if request.mel_shift is not None else float(shift.value) if shift else 0.0,
    )


def stage_feeds(ids: Sequence[int] | Array, seed: int = SEED, speed: float = 1.0, speaker: int = 0) -> dict[str, Array]:
    """Inputs of the acoustic stage for one segment."""
    return {
        "phoneme_ids": np.asarray(ids, np.int64)[None],
        "segment_lengths": np.array([[len(ids)]], np.int32),
        "pause_ms": np.zeros((1, 1), np.int32),
        "speed": np.full((1, 1), speed, np.float32),
        "speaker_id": np.full((1, 1), speaker, np.int64),
        "seed": np.full((1, 1), seed, np.int64),
    }


def _features(session: ort.InferenceSession, ids: Array, request: GenericRequest) -> Array:
    """FP32 [1, C, frames] of a segment."""
    made = run(session, stage_feeds(ids), request.acoustic.name)["features"]
    if not made.shape[1]:
        raise ConversionRefused(f"{request.acoustic.name}: it makes no frames of {len(ids)} ids")
    return np.ascontiguousarray(made.transpose(0, 2, 1), np.float32)


def _check_warm_up(session: ort.InferenceSession, request: GenericRequest) -> None:
    """The server runs the graph on zeros before it takes requests."""
    zeros = {name: np.zeros_like(value) for name, value in stage_feeds([0]).items()}
    run(session, zeros, f"{request.acoustic.name} on a single id")
