"""The graphs that a VITS voice is cut into, and the original prepared for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from voxrepo.importers.dense_spline import rewrite_splines
from voxrepo.importers.extract import Piece, Port, Shape, extract
from voxrepo.importers.graph import Graph, attribute
from voxrepo.importers.proof import Pieces
from voxrepo.importers.receptive_field import ReceptiveField, receptive_field
from voxrepo.importers.static_shapes import static_shapes
from voxrepo.importers.vits_cut import VitsCut, find_cut
from voxrepo_contract.errors import ConversionRefused
from voxrepo_contract.stage import LengthRegulatedOptions

_FLOAT = TensorProto.FLOAT
_INT64 = TensorProto.INT64
_SIZES = {"batch": 2, "ids": 24, "frames": 40}
"""Sizes at which shapes are checked, all different from the sizes in a voice."""


@dataclass(frozen=True)
class VitsPieces:
    """All graphs of a voice.

    Attributes:
        cut: where they were cut.
        reference: the original with noise as inputs and its inner tensors as further outputs.
        reference_encoder: the encoder before its splines were rewritten.
        encoder: ids to durations, mean and log-scale.
        decoder: latent to features.
        generator: features to audio.
        feature_channels: C of ``features``.
        field: receptive field of the generator.
        splines: how many splines were rewritten.
    """

    cut: VitsCut
    reference: onnx.ModelProto
    reference_encoder: onnx.ModelProto
    encoder: Piece
    decoder: Piece
    generator: Piece
    feature_channels: int
    field: ReceptiveField
    splines: int

    def to_prove(self, options: LengthRegulatedOptions, window_frames: int) -> Pieces:
        """What the proof compares, with the numbers of the acoustic stage and the vocoder's window."""
        return Pieces(
            reference=self.reference,
            reference_encoder=self.reference_encoder,
            encoder=self.encoder.model,
            decoder=self.decoder.model,
            generator=self.generator.model,
            noise_scale=options.noise_scale,
            noise_w_scale=options.noise_w_scale,
            length_scale=options.length_scale,
            max_frames_per_id=options.max_frames_per_id,
            window_frames=window_frames,
            overlap_frames=self.field.overlap_frames,
            hop_length_samples=self.field.hop_length_samples,
        )


def _noise_from_input(graph: Graph, random: str, pool: str) -> None:
    """Replace a random node by the head of the input ``pool``, of the shape that the node would have drawn."""
    node = graph.producer[random]
    if attribute(node, "mean", 0.0) != 0.0 or attribute(node, "scale", 1.0) != 1.0:
        raise ConversionRefused("the graph draws noise that is not of mean 0 and deviation 1")
    names = graph.fresh_names(pool)
    shape, starts, axes = (next(names) for _ in range(3))
    graph.constants[starts] = numpy_helper.from_array(np.zeros(3, dtype=np.int64), starts)
    graph.constants[axes] = numpy_helper.from_array(np.arange(3, dtype=np.int64), axes)
    at = graph.nodes.index(node)
    graph.nodes[at : at + 1] = [
        helper.make_node("Shape", [node.input[0]], [shape]),
        helper.make_node("Slice", [pool, starts, shape, axes], [random]),
    ]
    graph.reindex()


def reference_model(source: Graph, cut: VitsCut) -> onnx.ModelProto:
    """The original graph with its noise given by the caller.

    Inputs are ``phoneme_ids``, ``lengths``, ``scales``, ``speaker_id`` (if several), ``duration_random`` FP32
    [1, 2, ids] and ``prior_random`` FP32 [1, C, frames or more]; outputs are the waveform ``audio`` and every
    boundary of the cut.
    """
    graph = source.copy()
    names = graph.fresh_names("noise_pool")
    duration_pool, prior_pool = next(names), next(names)
    _noise_from_input(graph, cut.duration_random, duration_pool)
    _noise_from_input(graph, cut.prior_random, prior_pool)
    speaker = [] if cut.inputs.speaker is None else [Port(cut.inputs.speaker, "speaker_id", _INT64, ("batch",))]
    inputs = [
        Port(cut.inputs.ids, "phoneme_ids", _INT64, ("batch", "ids")),
        Port(cut.inputs.lengths, "lengths", _INT64, ("batch",)),
        Port(cut.inputs.scales, "scales", _FLOAT, (3,)),
        *speaker,
        Port(duration_pool, "duration_random", _FLOAT, ("batch", 2, "ids")),
        Port(prior_pool, "prior_random", _FLOAT, ("batch", "channels", "noise")),
    ]
    by_ids: Shape = ("batch", "channels", "ids")
    by_frames: Shape = ("batch", "channels", "frames")
    outputs = [
        Port(cut.waveform, "audio", _FLOAT, ("batch", 1, "samples")),
        Port(cut.durations, "durations", _FLOAT, ("batch", 1, "ids")),
        Port(cut.frames_per_id, "frames_per_id", _FLOAT, ("batch", 1, "ids")),
        Port(cut.mean, "mean", _FLOAT, by_ids),
        Port(cut.log_scale, "log_scale", _FLOAT, by_ids),
        Port(cut.latent, "latent", _FLOAT, by_frames),
        Port(cut.features, "features", _FLOAT, ("batch", "feature_channels", "frames")),
    ]
    return extract(graph, inputs, outputs, "reference")


def _piece(graph: Graph, inputs: Sequence[Port], outputs: Sequence[Port], name: str) -> Piece:
    """Extract a piece, check its shapes, and put the sizes found into its outputs."""
    shapes = static_shapes(extract(graph, inputs, outputs, name), _SIZES)
    sized = []
    for port in outputs:
        found = shapes[port.name]
        if len(found) != len(port.shape):
            raise ConversionRefused(f"{port.name!r} of the {name} has rank {len(found)}, expected {len(port.shape)}")
        # axes whose size the caller does not know are called "channels"; all others stay as they are
        shape = tuple(size if dim == "channels" else dim for dim, size in zip(port.shape, found, strict=True))
        for dim, size in zip(shape, found, strict=True):
            expected = _SIZES.get(dim, size) if isinstance(dim, str) else dim
            if size != expected:
                raise ConversionRefused(
                    f"{port.name!r} of the {name} has shape {list(found)} at {_SIZES}, expected {list(shape)}"
                )
        sized.append(Port(port.tensor, port.name, port.elem_type, shape))
    return Piece(extract(graph, inputs, sized, name), tuple(inputs), tuple(sized))


def make_pieces(source: Graph) -> VitsPieces:
    """Cut a voice's graph; ``source`` is not changed.

    Raises:
        ConversionRefused: no cut was found, or a piece has shapes that depend on data.
    """
    cut = find_cut(source)
    field = receptive_field(source, cut.features, cut.waveform)
    reference = reference_model(source, cut)
    graph = source.copy()
    splines = rewrite_splines(graph)
    speaker = [] if cut.inputs.speaker is None else [Port(cut.inputs.speaker, "speaker_id", _INT64, ("batch",))]
    encoder = _piece(
        graph,
        [
            Port(cut.inputs.ids, "phoneme_ids", _INT64, ("batch", "ids")),
            Port(cut.inputs.lengths, "lengths", _INT64, ("batch",)),
            Port(cut.duration_noise, "duration_noise", _FLOAT, ("batch", 2, "ids")),
            *speaker,
        ],
        [
            Port(cut.durations, "durations", _FLOAT, ("batch", 1, "ids")),
            Port(cut.mean, "mean", _FLOAT, ("batch", "channels", "ids")),
            Port(cut.log_scale, "log_scale", _FLOAT, ("batch", "channels", "ids")),
        ],
        "encoder",
    )
    latent_channels = encoder.outputs[1].shape[1]
    decoder = _piece(
        graph,
        [
            Port(cut.latent, "latent", _FLOAT, ("batch", latent_channels, "frames")),
            Port(cut.mask, "mask", _FLOAT, ("batch", 1, "frames")),
            *speaker,
        ],
        [Port(cut.features, "features", _FLOAT, ("batch", "channels", "frames"))],
        "decoder",
    )
    feature_channels = decoder.outputs[0].shape[1]
    generator = _piece(
        graph,
        [Port(cut.features, "features", _FLOAT, ("batch", feature_channels, "frames"))],
        [Port(cut.waveform, "audio", _FLOAT, ("batch", 1, "samples"))],
        "generator",
    )
    return VitsPieces(
        cut=cut,
        reference=reference,
        reference_encoder=extract(source, encoder.inputs, encoder.outputs, "reference_encoder"),
        encoder=encoder,
        decoder=decoder,
        generator=generator,
        feature_channels=int(feature_channels),
        field=field,
        splines=splines,
    )
