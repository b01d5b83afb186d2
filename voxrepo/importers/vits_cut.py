"""Where a VITS graph is cut: at the length regulator and at the generator's input.

A VITS inference graph (Kim, Kong, Son: "Conditional Variational Autoencoder with Adversarial Learning for End-to-End
Text-to-Speech", 2021) computes, in this order::

    ids -> text encoder -> mean m, log-scale s        [batch, C, ids]
        -> stochastic duration predictor -> w         [batch, 1, ids]
    d = ceil(w * length_scale)
    z_p = expand(m, d) + noise * exp(expand(s, d)) * noise_scale   [batch, C, frames]
        -> flow -> z -> HiFi-GAN generator -> audio   [batch, 1, samples]

The expansion is a product with a 0/1 matrix made from the cumulated durations: ``Ceil -> CumSum -> ... -> MatMul``.
Everything here is found by that dataflow; names in the file are not looked at, since exporters give even graph inputs
misleading ones (a single-speaker export may call its embedding table ``sid``).
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from onnx import TensorProto

from voxrepo.importers.graph import RANDOM, Graph, attribute
from voxrepo_contract.errors import ConversionRefused

_SHAPE_ONLY = ("Unsqueeze", "Squeeze", "Reshape", "Flatten", "Cast")
_ACTIVATIONS = ("LeakyRelu", "Relu", "Elu")


@dataclass(frozen=True)
class VitsInputs:
    """Graph inputs by role; ``speaker`` is ``None`` for a single-speaker graph."""

    ids: str
    lengths: str
    scales: str
    speaker: str | None


@dataclass(frozen=True)
class VitsCut:
    """Tensors of the source graph at the cuts.

    Attributes:
        inputs: graph inputs by role.
        symbols: rows of the phoneme embedding table.
        speakers: rows of the speaker embedding table, 1 if there is none.
        duration_random: output of the random node of the duration predictor, FP32 [batch, 2, ids].
        duration_noise: the same times noise_w.
        durations: float durations before length scale and ceil, FP32 [batch, 1, ids].
        frames_per_id: durations after length scale and ceil.
        mean: FP32 [batch, C, ids].
        log_scale: FP32 [batch, C, ids].
        prior_random: output of the random node of the prior, FP32 [batch, C, frames].
        latent: input of the flow, FP32 [batch, C, frames].
        mask: 1.0 where a frame belongs to the text, FP32 [batch, 1, frames].
        features: input of the vocoder stage, FP32 [batch, C', frames].
        feature_kind: ``vits_latent`` or, behind the generator's first convolution and its speaker term,
            ``vits_hidden``.
        waveform: output of the last activation, FP32 [batch, 1, samples].
    """

    inputs: VitsInputs
    symbols: int
    speakers: int
    duration_random: str
    duration_noise: str
    durations: str
    frames_per_id: str
    mean: str
    log_scale: str
    prior_random: str
    latent: str
    mask: str
    features: str
    feature_kind: str
    waveform: str


def _not_vits(problem: str) -> ConversionRefused:
    return ConversionRefused(f"this is not a VITS graph as Piper exports it: {problem}")


def _embedding_rows(graph: Graph, indices: str) -> int | None:
    """Rows of the constant table that ``indices`` select from, ``None`` if they do not."""
    for node in graph.used_by(indices, "Gather"):
        table = graph.constants.get(node.input[0])
        if (
            node.input[1] == indices
            and table is not None
            and table.data_type == TensorProto.FLOAT
            and len(table.dims) == 2
            and attribute(node, "axis", 0) == 0
        ):
            return int(table.dims[0])
    return None


def _inputs(graph: Graph) -> tuple[VitsInputs, int, int]:
    ids: list[tuple[str, int]] = []
    speakers: list[tuple[str, int]] = []
    lengths: list[str] = []
    scales: list[str] = []
    for value in graph.inputs:
        kind = value.type.tensor_type.elem_type
        rank = len(value.type.tensor_type.shape.dim)
        rows = _embedding_rows(graph, value.name)
        if kind == TensorProto.FLOAT and rank == 1:
            scales.append(value.name)
        elif kind == TensorProto.INT64 and rows is not None and rank == 2:
            ids.append((value.name, rows))
        elif kind == TensorProto.INT64 and rows is not None and rank == 1:
            speakers.append((value.name, rows))
        elif kind == TensorProto.INT64 and rank == 1:
            lengths.append(value.name)
        else:
            raise _not_vits(
                f"its input {value.name!r} ({TensorProto.DataType.Name(kind)}, rank {rank}) is neither phoneme ids, "
                "lengths, scales nor speaker ids"
            )
    counts = {"phoneme ids": len(ids), "lengths": len(lengths), "scales": len(scales)}
    for role, count in counts.items():
        if count != 1:
            raise _not_vits(f"{count} inputs look like {role}, there must be one")
    if len(speakers) > 1:
        raise _not_vits(f"{len(speakers)} inputs look like speaker ids, there may be one")
    speaker, rows = speakers[0] if speakers else (None, 1)
    return VitsInputs(ids[0][0], lengths[0], scales[0], speaker), ids[0][1], rows


def _generator(graph: Graph, inputs: VitsInputs) -> tuple[str, str, str]:
    """(features, feature kind, waveform)."""
    waveform = None
    for output in graph.outputs:
        candidate = graph.up(output, _SHAPE_ONLY)
        if graph.made_by(candidate, "Tanh"):
            waveform = candidate
    if waveform is None:
        raise _not_vits("no output comes from a Tanh, so there is no HiFi-GAN generator")
    above = graph.ancestors([waveform])
    ups = [node for node in graph.of_type("ConvTranspose") if node.output[0] in above]
    first = [
        node for node in ups if not any(graph.made_by(t, "ConvTranspose") for t in graph.ancestors([node.input[0]]))
    ]
    if len(first) != 1:
        raise _not_vits(
            f"{len(first)} first upsampling convolutions (ConvTranspose) lead to the audio, there must be one"
        )
    tensor = graph.up(first[0].input[0], _ACTIVATIONS)
    conv = graph.made_by(tensor, "Conv")
    if conv is not None:
        return conv.input[0], "vits_latent", waveform
    add = graph.made_by(tensor, "Add")
    if add is not None and inputs.speaker is not None:
        roots = [graph.ancestors([side]).intersection(graph.input_names()) for side in add.input]
        from_speaker = [side == {inputs.speaker} for side in roots]
        if sorted(from_speaker) == [False, True]:
            if graph.made_by(add.input[from_speaker.index(False)], "Conv") is None:
                raise _not_vits("what the generator adds to its speaker term does not come from a convolution")
            return add.output[0], "vits_hidden", waveform
    raise _not_vits("the generator does not begin with a convolution, with or without a speaker term added to it")


def _from_scales(graph: Graph, tensor: str, inputs: VitsInputs) -> bool:
    """Whether ``tensor`` is computed from the scales input and constants only."""
    roots = graph.ancestors([tensor]).intersection(graph.input_names())
    return roots == {inputs.scales}


def _scaled(graph: Graph, product: onnx.NodeProto | None, inputs: VitsInputs) -> str | None:
    """The operand that ``product`` multiplies with a scale given by the caller."""
    if product is None:
        return None
    sides = list(product.input)
    scaled = [_from_scales(graph, side, inputs) for side in sides]
    return sides[scaled.index(False)] if sorted(scaled) == [False, True] else None


def _durations(graph: Graph, inputs: VitsInputs) -> tuple[str, str]:
    """(float durations, frames per id)."""
    found: list[tuple[str, str]] = []
    for ceil in graph.of_type("Ceil"):
        below = graph.descendants(ceil.output[0])
        if not all(any(graph.made_by(t, op) for t in below) for op in ("CumSum", "MatMul")):
            continue
        durations = _scaled(graph, graph.made_by(ceil.input[0], "Mul"), inputs)
        if durations is not None:
            found.append((durations, ceil.output[0]))
    if len(found) != 1:
        raise _not_vits(
            f"{len(found)} length regulators were found (durations times a scale -> Ceil -> CumSum -> MatMul), "
            "there must be one"
        )
    return found[0]


def _duration_noise(graph: Graph, durations: str, inputs: VitsInputs) -> tuple[str, str]:
    """(random tensor, the same times noise_w)."""
    above = graph.ancestors([durations])
    randoms = [node.output[0] for node in graph.of_type(*RANDOM) if node.output[0] in above]
    if len(randoms) != 1:
        raise _not_vits(f"{len(randoms)} random nodes feed the durations; a stochastic duration predictor has one")
    uses = graph.consumers.get(randoms[0], [])
    product = uses[0] if len(uses) == 1 and uses[0].op_type == "Mul" else None
    if _scaled(graph, product, inputs) != randoms[0] or product is None:
        raise _not_vits("the random input of the duration predictor is not multiplied by noise_w")
    return randoms[0], product.output[0]


def _factors(graph: Graph, tensor: str) -> list[str]:
    """Operands of a tree of multiplications."""
    node = graph.made_by(tensor, "Mul")
    return [tensor] if node is None else [f for side in node.input for f in _factors(graph, side)]


def _expanded(graph: Graph, tensor: str) -> str | None:
    """For ``tensor`` = transpose(attention x transpose(source)): ``source`` [batch, C, ids]."""
    outer = graph.made_by(tensor, "Transpose")
    product = graph.made_by(outer.input[0], "MatMul") if outer is not None else None
    inner = graph.made_by(product.input[1], "Transpose") if product is not None else None
    if outer is None or product is None or inner is None:
        return None
    if attribute(outer, "perm") != [0, 2, 1] or attribute(inner, "perm") != [0, 2, 1]:
        return None
    return inner.input[0] if any(graph.made_by(t, "CumSum") for t in graph.ancestors([product.input[0]])) else None


def _prior(graph: Graph, frames_per_id: str, inputs: VitsInputs) -> tuple[str, str, str, str]:
    """(mean, log-scale, random tensor, latent)."""
    below = graph.descendants(frames_per_id)
    found: list[tuple[str, str, str, str]] = []
    for add in graph.of_type("Add"):
        if add.output[0] not in below:
            continue
        for index in (0, 1):
            mean = _expanded(graph, add.input[index])
            if mean is None:
                continue
            factors = _factors(graph, add.input[1 - index])
            randoms = [f for f in factors if graph.made_by(f, *RANDOM)]
            exps = [e for f in factors if (e := graph.made_by(f, "Exp")) is not None]
            scales = [f for f in factors if _from_scales(graph, f, inputs)]
            log_scale = _expanded(graph, exps[0].input[0]) if len(exps) == 1 else None
            if len(factors) == 3 and len(randoms) == 1 and len(scales) == 1 and log_scale is not None:
                found.append((mean, log_scale, randoms[0], add.output[0]))
    if len(found) != 1:
        raise _not_vits(
            f"{len(found)} places look like expanded mean + noise x exp(expanded log-scale) x noise_scale, "
            "there must be one"
        )
    return found[0]


def _mask(graph: Graph, features: str, latent: str, frames_per_id: str, inputs: VitsInputs) -> str:
    """The frame mask: a comparison with the lengths in frames, cast to float, that closes the decoder."""
    above = graph.ancestors([features], stop=[latent])
    below = graph.descendants(frames_per_id)
    comparisons = {o for node in graph.of_type("Less", "Greater", "LessOrEqual") for o in node.output}
    allowed = {name for name in (inputs.speaker,) if name is not None}
    for node in graph.of_type("Cast"):
        mask = str(node.output[0])
        if mask not in above or mask not in below or attribute(node, "to") != TensorProto.FLOAT:
            continue
        if not comparisons.intersection(graph.ancestors([mask], stop=[frames_per_id])):
            continue
        needs = graph.ancestors([features], stop=[latent, mask])
        if needs.intersection(graph.input_names()) <= allowed and frames_per_id not in needs:
            return mask
    raise _not_vits("the flow reads more than its latent input, a frame mask and the speaker")


def _check_closed(graph: Graph, piece: str, outputs: list[str], given: list[str], allowed: list[str]) -> None:
    above = graph.ancestors(outputs, stop=given)
    extra = sorted(above.intersection(graph.input_names()) - set(allowed) - set(given))
    if extra:
        raise _not_vits(f"the {piece} also reads the graph input {extra[0]!r}")
    for node in graph.of_type(*RANDOM):
        if node.output[0] in above and node.output[0] not in given:
            raise _not_vits(f"the {piece} draws random numbers of its own ({node.op_type})")


def find_cut(graph: Graph) -> VitsCut:
    """Find the cuts of a VITS graph by its structure.

    Raises:
        ConversionRefused: saying which part of a VITS graph was not found.
    """
    inputs, symbols, speakers = _inputs(graph)
    features, feature_kind, waveform = _generator(graph, inputs)
    durations, frames_per_id = _durations(graph, inputs)
    duration_random, duration_noise = _duration_noise(graph, durations, inputs)
    mean, log_scale, prior_random, latent = _prior(graph, frames_per_id, inputs)
    if latent not in graph.ancestors([features]):
        raise _not_vits("the generator does not depend on the length regulator")
    mask = _mask(graph, features, latent, frames_per_id, inputs)
    speaker = [inputs.speaker] if inputs.speaker is not None else []
    _check_closed(
        graph,
        "text encoder",
        [durations, mean, log_scale],
        [duration_noise],
        [inputs.ids, inputs.lengths, *speaker],
    )
    _check_closed(graph, "flow", [features], [latent, mask], speaker)
    _check_closed(graph, "generator", [waveform], [features], [])
    return VitsCut(
        inputs=inputs,
        symbols=symbols,
        speakers=speakers,
        duration_random=duration_random,
        duration_noise=duration_noise,
        durations=durations,
        frames_per_id=frames_per_id,
        mean=mean,
        log_scale=log_scale,
        prior_random=prior_random,
        latent=latent,
        mask=mask,
        features=features,
        feature_kind=feature_kind,
        waveform=waveform,
    )
