"""Writing the three stages of a Piper voice."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from voxrepo.importers.onnx_file import load_graph
from voxrepo.importers.piper_config import PhonemizerName, PiperConfig
from voxrepo.importers.proof import prove
from voxrepo.importers.proof_result import Proof
from voxrepo.importers.proof_texts import proof_texts
from voxrepo.importers.result import Progress, VoiceImport
from voxrepo.importers.stage_files import (
    save_graph,
    stage_folders,
    window_frames_for,
    windowed_options,
)
from voxrepo.importers.vits_pieces import VitsPieces, make_pieces
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
    phonemizer: PhonemizerName


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
                phonemizer=voice.phonemizer,
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
                "encoder": save_graph(folder, "encoder", voice.pieces.encoder),
                "decoder": save_graph(folder, "decoder", voice.pieces.decoder),
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


def _write_vocoder(folder: Path, voice: _Voice) -> None:
    field = voice.pieces.field
    rate_hz, peak = voice.config.audio.sample_rate, voice.proof.peak
    write_stage(
        folder,
        WindowedStage(
            stage="vocoder",
            program="windowed",
            options=windowed_options(
                field.overlap_frames, field.hop_length_samples, rate_hz, voice.window_frames, peak
            ),
            graphs={"generator": save_graph(folder, "generator", voice.pieces.generator)},
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


def phonemizer_notes(phonemizer: PhonemizerName) -> tuple[str, ...]:
    """What to install before a voice with this phonemizer can be served here."""
    if phonemizer != "espeak" or importlib.util.find_spec("piper") is not None:
        return ()
    return (
        "the voice reads with espeak (piper-tts, GPL-3.0), which is not installed here and without which it is not "
        "served; run: pip install 'voxrepo[espeak]'",
    )


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
    phonemizer: PhonemizerName,
    progress: Progress,
) -> VoiceImport:
    """Cut, prove and write; see :func:`voxrepo.importers.piper.import_piper`."""
    folders = stage_folders(out)
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
        window_frames = window_frames_for(overlap_frames)
        progress("proving the cut", 0.2)
        proof = prove(
            pieces.to_prove(options, window_frames),
            proof_texts(config.phoneme_id_map, config.num_speakers),
            lambda message, share: progress(message, 0.2 + 0.75 * share),
        )
    except ConversionRefused as error:
        raise ConversionRefused(f"{onnx_file}: {error}") from error
    progress("writing the stages", 0.95)
    voice = _Voice(
        config,
        language,
        pieces,
        options,
        window_frames,
        proof,
        _provenance(onnx_file, config_file, licence),
        phonemizer,
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
    return VoiceImport(
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
        notes=(*_notes(config), *phonemizer_notes(phonemizer)),
    )
