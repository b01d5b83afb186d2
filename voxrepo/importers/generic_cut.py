"""An acoustic graph that is a VITS graph up to its features, cut at the length regulator as Piper's voices are."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from onnx import compose

from voxrepo.importers.generic_acoustic import Acoustic
from voxrepo.importers.generic_vocoder import Vocoder
from voxrepo.importers.graph import normalise
from voxrepo.importers.proof import prove
from voxrepo.importers.proof_result import Proof
from voxrepo.importers.proof_texts import proof_texts
from voxrepo.importers.result import Progress
from voxrepo.importers.stage_files import window_frames_for
from voxrepo.importers.vits_pieces import VitsPieces, make_pieces
from voxrepo_contract.errors import ConversionRefused
from voxrepo_contract.stage import LengthRegulatedOptions


@dataclass(frozen=True)
class CutVoice:
    """Pieces of a VITS voice, proved equal to the two files.

    Attributes:
        pieces: encoder and decoder among them.
        options: of the program.
        proof: against the whole graph.
    """

    pieces: VitsPieces
    options: LengthRegulatedOptions
    proof: Proof


def cut_voice(acoustic: Acoustic, vocoder: Vocoder, id_count: int, progress: Progress) -> tuple[CutVoice | None, str]:
    """Join the two graphs and cut them like a Piper voice.

    Returns:
        The pieces and an empty text; or ``None`` and why that cannot be done.
    """
    if acoustic.time_axis != 2 or acoustic.rank != 3 or acoustic.frames is not None:
        return None, "its features are not [batch, channels, frames]"
    scales = acoustic.scales
    try:
        graph = normalise(_joined(acoustic, vocoder))
        pieces = make_pieces(graph)
        options = LengthRegulatedOptions(
            noise_scale=scales.noise_scale,
            noise_w_scale=scales.noise_w,
            length_scale=scales.length_scale,
            id_count=id_count,
        )
        table = {symbol: [number] for number, symbol in enumerate(["_", "^", "$", *map(str, range(3, id_count))])}
        proof = prove(
            pieces.to_prove(options, window_frames_for(pieces.field.overlap_frames)),
            proof_texts(table, pieces.cut.speakers),
            progress,
        )
    except ConversionRefused as error:
        return None, error.message
    return CutVoice(pieces, options, proof), ""


def _joined(acoustic: Acoustic, vocoder: Vocoder) -> onnx.ModelProto:
    first, second = onnx.ModelProto(), onnx.ModelProto()
    first.CopyFrom(acoustic.source.model)
    second.CopyFrom(vocoder.model)
    opsets = {acoustic.source.opset, vocoder.source.opset}
    if len(opsets) > 1:
        raise ConversionRefused(f"the two graphs use different operator sets, {min(opsets)} and {max(opsets)}")
    first.ir_version = second.ir_version = max(first.ir_version, second.ir_version)
    for model in (first, second):
        del model.graph.value_info[:]
    return compose.merge_models(
        first,
        compose.add_prefix(second, "vocoder/"),
        io_map=[(acoustic.features.name, "vocoder/features")],
        outputs=["vocoder/audio"],
    )
