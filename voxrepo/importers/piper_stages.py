"""Writing the three stages of a Piper voice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import onnx
import onnxruntime as ort

from voxrepo.importers.onnx_file import load_graph
from voxrepo.importers.piper import PiperImport, Progress
from voxrepo.importers.piper_config import PiperConfig
from voxrepo.importers.proof import Pieces, prove
from voxrepo.importers.proof_result import Proof
from voxrepo.importers.proof_texts import proof_texts
from voxrepo.importers.vits_pieces import Piece, VitsPieces, make_pieces
from voxrepo_contract.errors import AlreadyExists, ConfigError, ConversionRefused
from voxrepo_contract.names import VOICE_STAGES
from voxrepo_contract.stage import (
    FileEntry,
    GraphSpec,
    GraphTensor,
    Interface,
    LengthRegulatedOptions,
    LengthRegulatedStage,
    TextFrontendOptions,
    TextFrontendStage,
    WindowedOptions,
    WindowedStage,
    sha256_of,
    write_stage,
)

WINDOW_FRAMES = 128
"""Frames per call of the generator: on a CPU as fast as the whole utterance, with 1/6 of the work in overlaps for
Piper's medium voices (measured with 64 and 128 frames)."""

PROOF_PEAK = 0.6
"""Peak that the loudest of the proof texts gets: -4 dBFS, so that voices are about equally loud and a louder text
than those still does not clip. Piper scales each sentence to full scale, which cannot be done while streaming."""
MAX_GAIN = 4.0
"""A voice that is louder gets a gain below 1, so that its samples stay clear of the end of INT16."""

_DTYPES: dict[int, Literal["INT64", "FP32"]] = {onnx.TensorProto.INT64: "INT64", onnx.TensorProto.FLOAT: "FP32"}


@dataclass(frozen=True)
class _Voice:
    """All that the stages are written from."""

    config: PiperConfig
    language: str
    pieces: VitsPieces
    options: LengthRegulatedOptions
    window_frames: int
    proof: Proof
    provenance: dict[str, Any]


def _check_config(config: PiperConfig, pieces: VitsPieces, config_file: Path) -> None:
    cut = pieces.cut
    if config.num_speakers != cut.speakers:
        has = f"{cut.speakers} speakers" if cut.inputs.speaker is not None else "no speaker input"
        raise ConfigError(
            f"num_speakers is {config.num_speakers}, but the graph has {has}; these files do not belong together",
            file=config_file,
        )
    symbol, highest = max(
        ((symbol, max(ids)) for symbol, ids in config.phoneme_id_map.items() if ids), key=lambda entry: entry[1]
    )
    if highest >= cut.symbols:
        raise ConfigError(
            f"phoneme_id_map: {symbol!r} has the id {highest}, but the graph knows ids below {cut.symbols}; "
            "these files do not belong together",
            file=config_file,
        )
    hop = pieces.field.hop_length_samples
    if config.hop_length is not None and config.hop_length != hop:
        raise ConfigError(
            f"hop_length is {config.hop_length}, but the graph makes {hop} samples per frame; "
            "these files do not belong together",
            file=config_file,
        )


def _window_frames(overlap_frames: int) -> int:
    """At least ``WINDOW_FRAMES``, and so many that at most half of a window is overlap."""
    return max(WINDOW_FRAMES, math.ceil(4 * overlap_frames / 64) * 64)


def _save(folder: Path, name: str, piece: Piece) -> GraphSpec:
    file = folder / f"{name}.onnx"
    file.write_bytes(piece.model.SerializeToString(deterministic=True))
    inputs, outputs = (
        [GraphTensor(name=p.name, dtype=_DTYPES[p.elem_type], dims=list(p.shape)) for p in ports]
        for ports in (piece.inputs, piece.outputs)
    )
    return GraphSpec(file=file.name, sha256=sha256_of(file), inputs=inputs, outputs=outputs)


def _write_text_frontend(folder: Path, voice: _Voice) -> str:
    """Returns the SHA-256 of the inventory."""
    inventory = folder / "inventory.json"
    inventory.write_text(voice.config.inventory(), encoding="utf-8", newline="\n")
    sha256 = sha256_of(inventory)
    write_stage(
        folder,
        TextFrontendStage(
            stage="text_frontend",
            program="text_frontend",
            options=TextFrontendOptions(
                language=voice.language,
                phonemizer="espeak",
                phonemizer_voice=voice.config.espeak.voice,
                speakers=voice.config.speakers(),
            ),
            files={"inventory": FileEntry(file=inventory.name, sha256=sha256)},
            interface=Interface(inventory_sha256=sha256, speakers=voice.config.num_speakers),
            provenance=voice.provenance,
        ),
    )
    return sha256


def _feature_interface(voice: _Voice) -> dict[str, Any]:
    return {
        "feature_kind": voice.pieces.cut.feature_kind,
        "channels": voice.pieces.feature_channels,
        "hop_length_samples": voice.pieces.field.hop_length_samples,
        "sample_rate_hz": voice.config.audio.sample_rate,
    }


def _write_acoustic(folder: Path, voice: _Voice, inventory_sha256: str) -> None:
    write_stage(
        folder,
        LengthRegulatedStage(
            stage="acoustic",
            program="length_regulated",
            options=voice.options,
            graphs={
                "encoder": _save(folder, "encoder", voice.pieces.encoder),
                "decoder": _save(folder, "decoder", voice.pieces.decoder),
            },
            interface=Interface(
                inventory_sha256=inventory_sha256,
                speakers=voice.config.num_speakers,
                **_feature_interface(voice),
            ),
            quality={"proof": voice.proof.table()},
            provenance=voice.provenance,
        ),
    )


def _gain(peak: float) -> float:
    return math.floor(min(PROOF_PEAK / peak, MAX_GAIN) * 1000) / 1000


def _write_vocoder(folder: Path, voice: _Voice) -> None:
    write_stage(
        folder,
        WindowedStage(
            stage="vocoder",
            program="windowed",
            options=WindowedOptions(
                window_frames=voice.window_frames,
                overlap_frames=voice.pieces.field.overlap_frames,
                gain=_gain(voice.proof.peak),
            ),
            graphs={"generator": _save(folder, "generator", voice.pieces.generator)},
            interface=Interface(**_feature_interface(voice)),
            quality={"proof": voice.proof.table(), "loudness": voice.proof.loudness()},
            provenance=voice.provenance,
        ),
    )


def _provenance(onnx_file: Path, config_file: Path, licence: str | None) -> dict[str, Any]:
    entries: dict[str, Any] = {
        "source": onnx_file.name,
        "source_sha256": sha256_of(onnx_file),
        "config": config_file.name,
        "config_sha256": sha256_of(config_file),
        "tools": {
            "voxrepo": version("voxrepo"),
            "onnx": str(onnx.__version__),
            "onnxruntime": str(ort.__version__),
        },
    }
    if licence is not None:
        entries["licence"] = licence
    return entries


def _notes(config: PiperConfig) -> tuple[str, ...]:
    speakers = config.speakers()
    if config.default_speaker_id == 0:
        return ()
    return (
        f"Piper speaks as {speakers[config.default_speaker_id]!r} when no speaker is given; "
        f"here the first speaker, {speakers[0]!r}, is the default",
    )


def build_stages(
    onnx_file: Path,
    config_file: Path,
    config: PiperConfig,
    out: Path,
    *,
    language: str,
    licence: str | None,
    progress: Progress,
) -> PiperImport:
    """Cut, prove and write; see :func:`voxrepo.importers.piper.import_piper`."""
    folders = {stage: out / stage for stage in VOICE_STAGES}
    for folder in folders.values():
        if folder.exists():
            raise AlreadyExists(f"{folder} is there already; give an empty folder")
    progress(f"reading {onnx_file.name}", 0.0)
    graph = load_graph(onnx_file)
    progress("cutting the graph", 0.05)
    try:
        pieces = make_pieces(graph)
        _check_config(config, pieces, config_file)
        options = LengthRegulatedOptions(
            noise_scale=config.inference.noise_scale,
            noise_w_scale=config.inference.noise_w,
            length_scale=config.inference.length_scale,
            id_count=1 + max(max(ids) for ids in config.phoneme_id_map.values()),
        )
        overlap_frames = pieces.field.overlap_frames
        window_frames = _window_frames(overlap_frames)
        progress("proving the cut", 0.2)
        proof = prove(
            Pieces(
                reference=pieces.reference,
                reference_encoder=pieces.reference_encoder,
                encoder=pieces.encoder.model,
                decoder=pieces.decoder.model,
                generator=pieces.generator.model,
                noise_scale=options.noise_scale,
                noise_w_scale=options.noise_w_scale,
                length_scale=options.length_scale,
                max_frames_per_id=options.max_frames_per_id,
                window_frames=window_frames,
                overlap_frames=overlap_frames,
                hop_length_samples=pieces.field.hop_length_samples,
            ),
            proof_texts(config.phoneme_id_map, config.num_speakers),
            lambda message, share: progress(message, 0.2 + 0.75 * share),
        )
    except ConversionRefused as error:
        raise ConversionRefused(f"{onnx_file}: {error}") from error
    progress("writing the stages", 0.95)
    voice = _Voice(
        config, language, pieces, options, window_frames, proof, _provenance(onnx_file, config_file, licence)
    )
    for folder in folders.values():
        folder.mkdir(parents=True)
    inventory_sha256 = _write_text_frontend(folders["text_frontend"], voice)
    _write_acoustic(folders["acoustic"], voice, inventory_sha256)
    _write_vocoder(folders["vocoder"], voice)
    progress(
        f"cut proved on {proof.texts} texts: largest difference of the waveform {proof.max_abs_diff['audio']:.1e} "
        f"of full scale, all {proof.frames} frames equal",
        1.0,
    )
    speakers = config.speakers()
    return PiperImport(
        language=language,
        speakers=tuple(speakers),
        default_speaker=speakers[config.default_speaker_id],
        sample_rate_hz=config.audio.sample_rate,
        channels=pieces.feature_channels,
        hop_length_samples=pieces.field.hop_length_samples,
        feature_kind=pieces.cut.feature_kind,
        window_frames=window_frames,
        overlap_frames=overlap_frames,
        proof=proof.table(),
        loudness=proof.loudness(),
        notes=_notes(config),
    )
