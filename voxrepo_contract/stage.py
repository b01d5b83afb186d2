"""``stage.yaml``: what one version of one stage is made of.

A version directory ``model_repository/<voice>.<stage>/<version>/`` holds weights, data files and this file; code
lives in the backends. Unknown keys are errors. Every file is listed with its SHA-256, so that a damaged or swapped
file is refused instead of spoken.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from voxrepo_contract import SCHEMA_VERSION, yamlfile
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.tensors import NOISE_SCALE_MAX
from voxrepo_contract.yamlfile import StrictModel

STAGE_FILE = "stage.yaml"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=128)]
Dim = int | str
"""A fixed size, or the name of an axis that varies (``batch``, ``ids``, ``frames``)."""
BATCH_AXIS = "batch"
"""Name of the axis along which requests are joined; it is the first of every tensor then."""


class FileEntry(StrictModel):
    """A data file beside ``stage.yaml``."""

    file: FileName
    sha256: Sha256


class GraphTensor(StrictModel):
    """One input or output of a graph. ``dtype`` is the Open Inference Protocol name."""

    name: str
    dtype: Literal[
        "BOOL",
        "INT8",
        "UINT8",
        "INT16",
        "UINT16",
        "INT32",
        "UINT32",
        "INT64",
        "UINT64",
        "FP16",
        "FP32",
        "FP64",
        "BYTES",
    ]
    dims: list[Dim]


class GraphSpec(StrictModel):
    """A graph file, the device it is meant for, its tensors and its gears.

    Attributes:
        device: ``cpu`` or ``npu``; a graph that asks for an NPU is refused where none works, never moved.
        gears: the sizes that a graph with ``device: npu`` is built for, each one joint choice for all named axes of
            its tensors (``{batch: 4, frames: 64}``); empty where all dims are fixed numbers, or where the graph was
            built for ranges. A graph with ``device: cpu`` takes any size and has none.
    """

    file: FileName
    sha256: Sha256
    device: Literal["cpu", "npu"] = "cpu"
    inputs: list[GraphTensor] = Field(min_length=1)
    outputs: list[GraphTensor] = Field(min_length=1)
    gears: list[dict[str, Annotated[int, Field(ge=1)]]] = Field(default_factory=list, max_length=100)

    @field_validator("gears", mode="before")
    @classmethod
    def _reads_the_first_form(cls, gears: Any) -> Any:
        # versions written before gears were joint choices say `{}` for none
        return [] if gears == {} else gears


class Interface(StrictModel):
    """What must match between two neighbouring stages. ``None`` where the stage does not have that side.

    Attributes:
        inventory_sha256: hash of the phoneme-to-id table (front end out, acoustic in).
        speakers: number of speakers the stage knows (1 for a single-speaker voice).
        feature_kind: e.g. ``vits_latent`` (acoustic out, vocoder in).
        channels: C of ``features``.
        hop_length_samples: audio samples per frame.
        sample_rate_hz: of the audio.
    """

    inventory_sha256: Sha256 | None = None
    speakers: Annotated[int, Field(ge=1)] | None = None
    feature_kind: str | None = None
    channels: Annotated[int, Field(ge=1)] | None = None
    hop_length_samples: Annotated[int, Field(ge=1)] | None = None
    sample_rate_hz: Annotated[int, Field(ge=1)] | None = None


class TextFrontendOptions(StrictModel):
    """Options of the ``text_frontend`` program.

    Attributes:
        language: BCP 47 tag, selects the language module (``en-US``, ``zh-CN``).
        phonemizer: ``cmudict`` (American English from a dictionary and rules, in process, permissive licences),
            ``espeak`` (piper-tts' espeak-ng bridge, out of process, GPL-3.0, optional extra) or ``pinyin``
            (Mandarin, initials and finals with tones).
        phonemizer_voice: the phonemizer's own name of the accent, e.g. ``en-us``; ``pinyin`` has none.
        speakers: speaker names in the order of their ids; the first is the default.
        max_segment_ids: longer sentences are split at a clause, then at a word.
        sentence_pause_ms: silence after a sentence, before division by ``speed``.
        paragraph_pause_ms: silence after a paragraph, before division by ``speed``.
        emoji: pass them over, or say their names.
        on_dropped: what to do with a text of which characters cannot be read: speak the rest and report them, or
            refuse it. Layout, invisible characters and emoji that are passed over by ``emoji`` refuse no text.
    """

    language: str
    phonemizer: Literal["cmudict", "espeak", "pinyin"]
    phonemizer_voice: str = ""
    speakers: list[str] = Field(min_length=1)
    max_segment_ids: Annotated[int, Field(ge=32)] = 400
    sentence_pause_ms: Annotated[int, Field(ge=0, le=5000)] = 150
    paragraph_pause_ms: Annotated[int, Field(ge=0, le=5000)] = 400
    emoji: Literal["skip", "name"] = "skip"
    on_dropped: Literal["report", "reject"] = "report"

    @model_validator(mode="after")
    def _names_a_voice(self) -> TextFrontendOptions:
        if self.phonemizer == "espeak" and not self.phonemizer_voice:
            raise ValueError("phonemizer_voice must be given for the phonemizer espeak, e.g. en-us")
        return self


class LengthRegulatedOptions(StrictModel):
    """Options of the ``length_regulated`` program.

    ``expansion: gaussian`` (VITS): frames are drawn from a prior. Graphs: ``encoder`` (``phoneme_ids`` INT64 [batch,
    ids], ``lengths`` INT64 [batch], ``duration_noise`` FP32 [batch, 2, ids], ``speaker_id`` INT64 [batch] if several
    speakers) -> (``durations`` FP32 [batch, 1, ids], ``mean`` and ``log_scale`` FP32 [batch, C, ids]); ``decoder``
    (``latent`` FP32 [batch, C, frames], ``mask`` FP32 [batch, 1, frames], ``speaker_id``) -> (``features`` FP32
    [batch, C', frames]). Durations are rounded up, each id gets at least one frame.

    ``expansion: repeat`` (FastSpeech 2): each id's hidden state is repeated for its frames; there is no noise. Graphs:
    ``encoder`` (``phoneme_ids``, ``lengths``, ``speaker_id`` as above) -> (``durations`` FP32 [batch, 1, ids],
    ``hidden`` FP32 [batch, C, ids]); ``decoder`` as above. Durations are rounded to the nearest whole number, halves to
    even, as the model itself does; an id may get no frame.

    Attributes:
        expansion: how ids become frames.
        noise_scale: standard deviation of the prior noise, Piper's ``noise_scale``; only for ``gaussian``.
        noise_w_scale: standard deviation of the duration noise, Piper's ``noise_w``; only for ``gaussian``.
        length_scale: frames per predicted frame at speed 1.
        id_count: ids are from 0 to one less; ``None`` if that is not known.
        max_ids_per_segment: longer segments are refused, since attention over ids takes memory by their square.
        max_frames_per_id: durations are clamped to this, since the predictor is unbounded.
        max_frames_per_segment: durations of one segment together are clamped to this.
    """

    expansion: Literal["gaussian", "repeat"] = "gaussian"
    noise_scale: Annotated[float, Field(ge=0, le=NOISE_SCALE_MAX)] = 0.0
    noise_w_scale: Annotated[float, Field(ge=0, le=NOISE_SCALE_MAX)] = 0.0
    length_scale: Annotated[float, Field(gt=0, le=4)]
    id_count: Annotated[int, Field(ge=1)] | None = None
    max_ids_per_segment: Annotated[int, Field(ge=1)] = 2000
    max_frames_per_id: Annotated[int, Field(ge=1)] = 200
    max_frames_per_segment: Annotated[int, Field(ge=1)] = 20_000

    @model_validator(mode="after")
    def _noise_goes_with_the_expansion(self) -> LengthRegulatedOptions:
        for name in ("noise_scale", "noise_w_scale"):
            if self.expansion == "gaussian" and name not in self.model_fields_set:
                raise ValueError(f"{name} must be given for the expansion gaussian")
            if self.expansion == "repeat" and getattr(self, name):
                raise ValueError(f"{name} must be left out for the expansion repeat, which has no noise")
        return self


class WindowedOptions(StrictModel):
    """Options of the ``windowed`` program.

    Graph: ``generator`` (``features`` FP32 [batch, C, frames]) -> (``audio`` FP32 [batch, 1, samples]), where
    samples = frames x hop length.

    Attributes:
        window_frames: frames per call; shorter segments run at their own length where the graph allows it.
        overlap_frames: receptive field to each side, computed and discarded, so that joins are exact.
        first_window_frames: frames of the window that begins a segment, so that its first audio is there soon; a
            segment of up to twice as many, and no more than ``window_frames``, is one window. ``None`` for
            ``window_frames``. A graph with gears has windows of their lengths only and does not use it.
        min_frames: a shorter sequence is lengthened by its last frame for the graph, whose layers reflect more than
            it has, and the audio cut back.
        gain: factor on the waveform before conversion to INT16.
    """

    window_frames: Annotated[int, Field(ge=1)]
    overlap_frames: Annotated[int, Field(ge=0)]
    first_window_frames: Annotated[int, Field(ge=1)] | None = None
    min_frames: Annotated[int, Field(ge=1)] = 1
    gain: Annotated[float, Field(gt=0, le=8)] = 1.0

    @model_validator(mode="after")
    def _leaves_something(self) -> WindowedOptions:
        if self.window_frames <= 2 * self.overlap_frames:
            raise ValueError("window_frames must exceed twice overlap_frames, or a window yields no audio")
        if self.window_frames < self.min_frames:
            raise ValueError("window_frames must not be below min_frames, or a window cannot be run")
        first = self.first_window_frames
        if first is not None and not 2 * self.overlap_frames < first <= self.window_frames:
            raise ValueError("first_window_frames must exceed twice overlap_frames and be at most window_frames")
        if first is not None and first < self.min_frames:
            raise ValueError("first_window_frames must not be below min_frames, or that window cannot be run")
        return self


class DirectOptions(StrictModel):
    """Options of the ``direct`` program: one graph, ``graphs.model``, tensors as they are."""


class _StageBase(StrictModel):
    schema_version: Literal[1] = SCHEMA_VERSION
    stage: Literal["text_frontend", "acoustic", "vocoder", "model"]
    graphs: dict[str, GraphSpec] = Field(default_factory=dict)
    files: dict[str, FileEntry] = Field(default_factory=dict)
    interface: Interface = Field(default_factory=Interface)
    quality: dict[str, Any] = Field(default_factory=dict)
    provenance: dict[str, Any] = Field(default_factory=dict)


class TextFrontendStage(_StageBase):
    """``program: text_frontend``; ``files.inventory`` is the phoneme table.

    Optional files: ``lexicon`` (how words sound), ``rules`` (what is said instead of what is written),
    ``substitutes`` (what is said for phonemes that the voice lacks); all are tab-separated tables.
    """

    program: Literal["text_frontend"]
    options: TextFrontendOptions


class LengthRegulatedStage(_StageBase):
    """``program: length_regulated``; graphs ``encoder`` and ``decoder``."""

    program: Literal["length_regulated"]
    options: LengthRegulatedOptions


class WindowedStage(_StageBase):
    """``program: windowed``; graph ``generator``."""

    program: Literal["windowed"]
    options: WindowedOptions


class DirectStage(_StageBase):
    """``program: direct``; graph ``model``."""

    program: Literal["direct"]
    options: DirectOptions = Field(default_factory=DirectOptions)


AnyStage = TextFrontendStage | LengthRegulatedStage | WindowedStage | DirectStage

REQUIRED_GRAPHS = {
    "text_frontend": (),
    "length_regulated": ("encoder", "decoder"),
    "windowed": ("generator",),
    "direct": ("model",),
}

_MODELS: dict[str, type[_StageBase]] = {
    "text_frontend": TextFrontendStage,
    "length_regulated": LengthRegulatedStage,
    "windowed": WindowedStage,
    "direct": DirectStage,
}


class _Head(StrictModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)
    program: Literal["text_frontend", "length_regulated", "windowed", "direct"]


def read_stage(version_dir: Path) -> AnyStage:
    """Read ``stage.yaml`` of a version directory; files are not opened, see :func:`verify_files`.

    Raises:
        ConfigError: the file is missing or wrong, or a graph that the program needs is not listed.
    """
    file = version_dir / STAGE_FILE
    program = yamlfile.read(file, _Head).program
    stage = yamlfile.read(file, _MODELS[program])
    missing = [name for name in REQUIRED_GRAPHS[program] if name not in stage.graphs]
    if missing:
        raise ConfigError(f"graphs.{missing[0]}: the program {program!r} needs this graph", file=file)
    return stage  # type: ignore[return-value]


def write_stage(version_dir: Path, stage: AnyStage) -> None:
    """Write ``stage.yaml`` atomically."""
    yamlfile.write(version_dir / STAGE_FILE, stage)


def sha256_of(file: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def verify_files(version_dir: Path, stage: AnyStage) -> None:
    """Check that every listed file is there and has the recorded hash.

    Raises:
        ConfigError: naming the file, and both hashes where they differ.
    """
    entries: list[FileEntry | GraphSpec] = [*stage.graphs.values(), *stage.files.values()]
    for entry in entries:
        path = version_dir / entry.file
        if not path.is_file():
            raise ConfigError("the file is missing; import or convert this version again", file=path)
        try:
            actual = sha256_of(path)
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", file=path) from error
        if actual != entry.sha256:
            raise ConfigError(
                f"sha256 is {actual}, {STAGE_FILE} says {entry.sha256}; "
                "the file was damaged or replaced: import or convert this version again",
                file=path,
            )
