"""The stages of a voice that was made of an acoustic graph and a vocoder, written into folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voxrepo.importers.generic_check import CheckedPair
from voxrepo.importers.generic_cut import CutVoice
from voxrepo.importers.generic_frontend import FrontEnd
from voxrepo.importers.generic_request import GenericRequest
from voxrepo.importers.generic_stage_graph import STAGE_INPUTS, stage_outputs
from voxrepo.importers.stage_files import save_graph, windowed_options
from voxrepo_contract.stage import (
    DirectStage,
    GraphSpec,
    Interface,
    LengthRegulatedStage,
    WindowedStage,
    sha256_of,
    write_stage,
)


class StageWriter:
    """Writes the acoustic stage and the vocoder of a checked pair.

    Args:
        request: what the user says.
        parts: the pair.
        front_end: written before.
        provenance: for each ``stage.yaml``.

    Attributes:
        feature_kind: name for what goes between the graphs.
    """

    def __init__(
        self, request: GenericRequest, parts: CheckedPair, front_end: FrontEnd, provenance: dict[str, Any]
    ) -> None:
        self._parts = parts
        self._front_end = front_end
        self._provenance = {**provenance, "mel_scale": parts.mel_scale, "mel_shift": parts.mel_shift}
        self.feature_kind = request.feature_kind or f"features{parts.vocoder.channels}_{sha256_of(request.vocoder)[:8]}"

    def _interface(self) -> dict[str, Any]:
        return {
            "feature_kind": self.feature_kind,
            "channels": self._parts.vocoder.channels,
            "hop_length_samples": self._parts.vocoder.hop_length_samples,
            "sample_rate_hz": self._parts.sample_rate_hz,
        }

    def proof_table(self, cut: CutVoice | None) -> dict[str, Any]:
        """Figures of the proof, of the cut where there is one."""
        if cut is not None:
            return cut.proof.table()
        proof = self._parts.proof
        windows = float(f"{proof.max_abs_diff['windows']:.3g}")
        return {
            "texts": proof.texts,
            "ids": proof.ids,
            "frames": proof.frames,
            "max_abs_diff": {"windows": windows},
        }

    def _quality(self, cut: CutVoice | None) -> dict[str, Any]:
        return {"proof": self.proof_table(cut), "sound": self._parts.sound.table()}

    def write_acoustic(self, folder: Path, cut: CutVoice | None) -> None:
        """Write the acoustic stage: the two graphs that it was cut into, or the whole one."""
        parts = self._parts
        interface = Interface(
            inventory_sha256=self._front_end.stage.interface.inventory_sha256,
            speakers=len(parts.speakers),
            **self._interface(),
        )
        common: dict[str, Any] = {
            "stage": "acoustic",
            "interface": interface,
            "quality": self._quality(cut),
            "provenance": self._provenance,
        }
        if cut is not None:
            graphs = {
                "encoder": save_graph(folder, "encoder", cut.pieces.encoder),
                "decoder": save_graph(folder, "decoder", cut.pieces.decoder),
            }
            write_stage(
                folder, LengthRegulatedStage(program="length_regulated", options=cut.options, graphs=graphs, **common)
            )
            return
        file = folder / "acoustic.onnx"
        file.write_bytes(parts.model.SerializeToString(deterministic=True))
        spec = GraphSpec(
            file=file.name,
            sha256=sha256_of(file),
            inputs=list(STAGE_INPUTS),
            outputs=list(stage_outputs(parts.vocoder.channels)),
        )
        write_stage(folder, DirectStage(program="direct", graphs={"model": spec}, **common))

    def write_vocoder(self, folder: Path) -> None:
        """Write the vocoder."""
        parts = self._parts
        vocoder = parts.vocoder
        write_stage(
            folder,
            WindowedStage(
                stage="vocoder",
                program="windowed",
                options=windowed_options(
                    parts.overlap_frames,
                    vocoder.hop_length_samples,
                    parts.sample_rate_hz,
                    parts.window_frames,
                    parts.proof.peak,
                    vocoder.min_frames,
                ),
                graphs={"generator": save_graph(folder, "generator", vocoder)},
                interface=Interface(**self._interface()),
                quality={
                    **self._quality(None),
                    "overlap": parts.overlap_found,
                    "loudness": parts.proof.loudness(),
                },
                provenance=self._provenance,
            ),
        )
