"""FastSpeech 2 in two graphs, cut where phonemes become frames.

The length regulator repeats the hidden state of each phoneme for its frames, which makes a shape depend on data. It is
found by what it does, and the host does it instead (:class:`voxrepo_contract.stage.LengthRegulatedOptions` with
``expansion: repeat``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from voxrepo.importers.extract import Piece, Port, Shape, extract
from voxrepo.importers.graph import Graph
from voxrepo.importers.static_shapes import static_shapes
from voxrepo.importers.tflite.lift import Lifter
from voxrepo.importers.tflite.model import Operator, TfliteModel
from voxrepo.importers.tflite.observed import Observed
from voxrepo.importers.tflite.writer import Value
from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]

_IDS_SHAPE: Shape = ("batch", "ids")
_PASSED_ON = frozenset({"EXPAND_DIMS", "IDENTITY", "RESHAPE", "SQUEEZE", "STRIDED_SLICE", "TILE"})
_POSITION_TOLERANCE = 0.01
"""A position table of eight bits is within 1/254 of the formula."""
MAX_POSITIONS = 8192
"""Length of the position tables after extension: 100 s of frames, what slow speech of a long segment may need."""


@dataclass(frozen=True)
class Tensors:
    """Numbers of the tensors that matter in a FastSpeech 2 model.

    Attributes:
        ids: input [1, ids].
        speaker: input [1], if there is one.
        ratios: inputs [1] that scale durations, pitch and energy; 1 leaves them as they are.
        durations: real numbers of frames, one per id, before they are rounded.
        counts: whole numbers of frames.
        hidden: [1, ids, C], what the regulator repeats.
        expanded: [frames, C], what it makes of them.
        id_mask: where ids are not padding.
        frame_mask: where frames are not padding.
        features: [1, frames, C'], the result.
    """

    ids: int
    speaker: int | None
    ratios: tuple[int, ...]
    durations: int
    counts: int
    hidden: int
    expanded: int
    id_mask: int
    frame_mask: int
    features: int


@dataclass(frozen=True)
class FastSpeech2:
    """A cut model.

    Attributes:
        model: the source, for the proof.
        tensors: of the source.
        encoder: ids to durations and hidden states.
        decoder: repeated hidden states to features.
        symbols: ids are below this.
        positions: neither ids nor frames of a segment may be more.
        feature_channels: C'.
    """

    model: TfliteModel
    tensors: Tensors
    encoder: Piece
    decoder: Piece
    symbols: int
    positions: int
    feature_channels: int

    def feeds(self, ids: Array) -> dict[int, Array]:
        """Inputs of the source for ids [n]: first speaker, all ratios 1."""
        return _feeds(self.tensors.ids, self.tensors.speaker, self.tensors.ratios, ids)


def cut_fastspeech2(model: TfliteModel) -> FastSpeech2:
    """Cut a model in two and give both pieces a free batch axis and a mask.

    Args:
        model: without dropout, see ``without_dropout``.

    Raises:
        ConversionRefused: it is not a FastSpeech 2 model as TensorFlowTTS exports it.
    """
    ids, speaker, ratios = _inputs(model)
    symbols = _symbols(model, ids)
    observed = _observe(model, ids, speaker, ratios, symbols)
    tensors = _find(model, observed, ids, speaker, ratios)
    extension = _Extension()
    encoder = _encoder(model, observed, tensors, extension)
    decoder = _decoder(model, observed, tensors, extension)
    for piece, axis in ((encoder, "ids"), (decoder, "frames")):
        static_shapes(piece.model, {"batch": 2, axis: 24})
    channels = int(observed.first[tensors.features].shape[2])
    return FastSpeech2(model, tensors, encoder, decoder, symbols, extension.positions, channels)


def _inputs(model: TfliteModel) -> tuple[int, int | None, tuple[int, ...]]:
    ids = [n for n in model.inputs if model.tensors[n].dtype.kind == "i" and len(model.tensors[n].shape) == 2]
    speakers = [n for n in model.inputs if model.tensors[n].dtype.kind == "i" and len(model.tensors[n].shape) == 1]
    ratios = [n for n in model.inputs if model.tensors[n].dtype.kind == "f" and len(model.tensors[n].shape) == 1]
    if len(ids) != 1 or len(speakers) > 1 or len(ids) + len(speakers) + len(ratios) != len(model.inputs):
        raise ConversionRefused(
            "the graph's inputs are not those of FastSpeech 2: ids [1, n], a speaker, and ratios for speed, pitch and "
            "energy"
        )
    return ids[0], speakers[0] if speakers else None, tuple(ratios)


def _feeds(ids_input: int, speaker: int | None, ratios: tuple[int, ...], ids: Array) -> dict[int, Array]:
    feeds: dict[int, Array] = {ids_input: np.asarray(ids, np.int32)[np.newaxis]}
    feeds.update({ratio: np.ones(1, np.float32) for ratio in ratios})
    if speaker is not None:
        feeds[speaker] = np.zeros(1, np.int32)
    return feeds


def _symbols(model: TfliteModel, ids: int) -> int:
    """Rows of the table that the ids look up."""
    for operator in model.consumers().get(ids, []):
        table = model.tensors[operator.inputs[0]]
        if operator.kind == "GATHER" and table.data is not None and table.data.ndim == 2:
            return int(table.data.shape[0])
    raise ConversionRefused("the graph does not look its ids up in a table; it is not a FastSpeech 2 model")


def _observe(model: TfliteModel, ids: int, speaker: int | None, ratios: tuple[int, ...], symbols: int) -> Observed:
    def some(length: int, seed: int) -> dict[int, Array]:
        chosen = np.random.default_rng(seed).integers(1, symbols, length)
        return _feeds(ids, speaker, ratios, chosen)

    return Observed.of(model, some(11, 1), some(13, 2))


def _only(found: list[Operator], what: str) -> Operator:
    if len(found) != 1:
        raise ConversionRefused(f"the graph has {len(found)} {what}; it is not a FastSpeech 2 model as is known here")
    return found[0]


def _find(model: TfliteModel, observed: Observed, ids: int, speaker: int | None, ratios: tuple[int, ...]) -> Tensors:
    producers = model.producers()
    rounding = _only(model.of_kind("ROUND"), "operators that round durations")
    counts = [o.output for o in model.operators if o.kind == "CAST" and o.inputs[0] == rounding.output]
    where = _only(model.of_kind("WHERE"), "length regulators (operators WHERE)")
    repeat = _only(
        [o for o in model.of_kind("GATHER") if _origin(producers, o.inputs[1]) == where.output],
        "length regulators (operators GATHER of what WHERE finds)",
    )
    id_mask = _only([o for o in model.of_kind("NOT_EQUAL") if ids in o.inputs], "masks of ids")
    leads_to_where = _ancestors(model, where.output)
    frame_mask = _only([o for o in model.of_kind("LESS") if o.output not in leads_to_where], "masks of frames")
    results = [n for n in model.outputs if len(observed.first[n].shape) == 3]
    # with a postnet, the features before it are an output too
    last = [n for n in results if all(n == other or other in _ancestors(model, n) for other in results)]
    if len(counts) != 1 or len(last) != 1:
        raise ConversionRefused("the graph's outputs are not those of FastSpeech 2: features and whole durations")
    return Tensors(
        ids=ids,
        speaker=speaker,
        ratios=ratios,
        durations=rounding.inputs[0],
        counts=counts[0],
        hidden=_origin(producers, repeat.inputs[0]),
        expanded=repeat.output,
        id_mask=id_mask.output,
        frame_mask=frame_mask.output,
        features=last[0],
    )


def _origin(producers: Mapping[int, Operator], tensor: int) -> int:
    """The tensor of which this one is another shape or a repetition."""
    while (above := producers.get(tensor)) is not None and above.kind in _PASSED_ON:
        tensor = above.inputs[0]
    return tensor


def _ancestors(model: TfliteModel, tensor: int) -> set[int]:
    seen = {tensor}
    for operator in reversed(model.operators):
        if seen.intersection(operator.outputs):
            seen.update(operator.inputs)
    return seen


class _Extension:
    """Makes position tables longer, where they follow the formula of sines and cosines.

    "Attention Is All You Need" (Vaswani et al. 2017), 3.5, sines at even and cosines at odd channels; row 0 is zero and
    stands for padding.
    """

    def __init__(self) -> None:
        self.positions = MAX_POSITIONS

    def __call__(self, table: Array) -> Array:
        rows, channels = table.shape
        wanted = max(rows, MAX_POSITIONS + 1)
        angles = np.arange(wanted)[:, np.newaxis] / 10000.0 ** (2 * (np.arange(channels) // 2) / channels)
        formula = np.where(np.arange(channels) % 2 == 0, np.sin(angles), np.cos(angles)).astype(np.float32)
        if np.abs(table[1:] - formula[1:rows]).max() > _POSITION_TOLERANCE:
            # learnt positions cannot be continued
            self.positions = min(self.positions, rows - 1)
            return table
        return np.concatenate([table, formula[rows:]])


def _piece(graph: Graph, inputs: list[Port], outputs: list[Port], name: str) -> Piece:
    return Piece(extract(graph, inputs, outputs, name), tuple(inputs), tuple(outputs))


def _graph(lifter: Lifter, inputs: list[Port], outputs: list[str]) -> Graph:
    values = [helper.make_tensor_value_info(p.tensor, p.elem_type, list(p.shape)) for p in inputs]
    return lifter.graph(values, outputs)


def _encoder(model: TfliteModel, observed: Observed, tensors: Tensors, extension: _Extension) -> Piece:
    mask = "id_mask"
    lifter = Lifter(
        model,
        observed,
        {tensors.id_mask: Value(mask, "sequence", 1)},
        ids=(tensors.ids, "phoneme_ids"),
        mask=mask,
        length_of=("phoneme_ids", 1),
        extended=extension,
    )
    _add_mask(lifter, mask)
    durations = lifter.lift(tensors.durations)
    hidden = lifter.lift(tensors.hidden)
    if durations.kind != "sequence" or hidden.kind != "sequence" or durations.channels != 1:
        raise ConversionRefused("the graph's durations are not one number for each id")
    inputs = [
        Port("phoneme_ids", "phoneme_ids", TensorProto.INT64, _IDS_SHAPE),
        Port("lengths", "lengths", TensorProto.INT64, ("batch",)),
    ]
    graph = _graph(lifter, inputs, [durations.name, hidden.name])
    outputs = [
        Port(graph.outputs[0], "durations", TensorProto.FLOAT, ("batch", 1, "ids")),
        Port(graph.outputs[1], "hidden", TensorProto.FLOAT, ("batch", hidden.channels, "ids")),
    ]
    return _piece(graph, inputs, outputs, "encoder")


def _add_mask(lifter: Lifter, name: str) -> None:
    """``mask[b, 0, i] = i < lengths[b]`` as numbers."""
    shape = lifter.node("Shape", ["phoneme_ids"])
    length = lifter.node("Gather", [shape, lifter.constant(1, np.int64)], axis=0)
    positions = lifter.node("Range", [lifter.constant(0, np.int64), length, lifter.constant(1, np.int64)])
    ends = lifter.node("Unsqueeze", ["lengths", lifter.constant([1, 2], np.int64)])
    inside = lifter.node("Less", [positions, ends])
    lifter.nodes.append(helper.make_node("Cast", [inside], [name], name=name, to=TensorProto.FLOAT))


def _decoder(model: TfliteModel, observed: Observed, tensors: Tensors, extension: _Extension) -> Piece:
    channels = int(observed.first[tensors.expanded].shape[1])
    given = {
        tensors.expanded: Value("latent", "sequence", channels),
        tensors.frame_mask: Value("mask", "sequence", 1),
    }
    padded = _padded(model, tensors.expanded)
    if padded is not None:
        given[padded] = given[tensors.expanded]
    lifter = Lifter(model, observed, given, mask="mask", length_of=("latent", 2), extended=extension)
    features = lifter.lift(tensors.features)
    inputs = [
        Port("latent", "latent", TensorProto.FLOAT, ("batch", channels, "frames")),
        Port("mask", "mask", TensorProto.FLOAT, ("batch", 1, "frames")),
    ]
    graph = _graph(lifter, inputs, [lifter.node("Mul", [features.name, "mask"])])
    outputs = [Port(graph.outputs[0], "features", TensorProto.FLOAT, ("batch", features.channels, "frames"))]
    return _piece(graph, inputs, outputs, "decoder")


def _padded(model: TfliteModel, expanded: int) -> int | None:
    """What the file pads the frames of one utterance to in a batch: nothing more, as it knows batches of one only."""
    for operator in model.consumers().get(expanded, []):
        if operator.kind == "PAD":
            return operator.output
    return None
