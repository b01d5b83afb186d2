"""Pairs of an acoustic graph and a vocoder, as projects of different kinds would export them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, numpy_helper

from voxrepo.importers.extract import Port, extract
from voxrepo.importers.onnx_file import load_graph
from voxrepo.importers.vits_cut import find_cut

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@dataclass(frozen=True)
class PairFiles:
    """Files of a pair, and what ``voice create`` needs besides them."""

    acoustic: Path
    vocoder: Path
    frontend: str
    sample_rate_hz: int
    tokens: Path | None = None


def vits_pair(onnx_file: Path, frontend: Path, folder: Path, sample_rate_hz: int = 22_050) -> PairFiles:
    """A Piper voice in two files: all up to the latent features, and the generator."""
    graph = load_graph(onnx_file)
    cut = find_cut(graph)
    latent = ("batch", 192, "frames")
    acoustic = extract(
        graph,
        [
            Port(cut.inputs.ids, "input", INT64, ("batch", "phonemes")),
            Port(cut.inputs.lengths, "input_lengths", INT64, ("batch",)),
            Port(cut.inputs.scales, "scales", FLOAT, (3,)),
        ],
        [Port(cut.features, "z", FLOAT, latent)],
        "vits",
    )
    vocoder = extract(
        graph,
        [Port(cut.features, "z", FLOAT, latent)],
        [Port(cut.waveform, "wav", FLOAT, ("batch", 1, "samples"))],
        "gan",
    )
    return _saved(acoustic, vocoder, folder, str(frontend), sample_rate_hz)


def _saved(
    acoustic: Any, vocoder: Any, folder: Path, frontend: str, rate: int, tokens: Path | None = None
) -> PairFiles:
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "acoustic.onnx", folder / "vocoder.onnx"
    for model, file in zip((acoustic, vocoder), files, strict=True):
        onnx.save(model, str(file))
    return PairFiles(*files, frontend, rate, tokens)


class _Maker:
    """Writes a graph; tensors are named by the caller or numbered."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def constant(self, value: Any, dtype: Any) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def __call__(self, op: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        name = out or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def model(self, inputs: list[Any], outputs: list[Any], opset: int = 17) -> Any:
        graph = helper.make_graph(self.nodes, "made", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def info(name: str, kind: int, *dims: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, list(dims))


def _path(make: _Maker, counts: str) -> str:
    """FP32 [ids, frames]: which id a frame belongs to, from counts FP32 [ids]."""
    ends = make("CumSum", counts, make.constant(0, np.int64))
    total = make("Cast", make("ReduceSum", counts, keepdims=0), to=INT64)
    frames = make("Range", make.constant(0, np.int64), total, make.constant(1, np.int64))
    frames = make("Unsqueeze", make("Cast", frames, to=FLOAT), make.constant([0], np.int64))
    starts = make("Unsqueeze", make("Sub", ends, counts), make.constant([1], np.int64))
    stops = make("Unsqueeze", ends, make.constant([1], np.int64))
    inside = make("And", make("Less", frames, stops), make("GreaterOrEqual", frames, starts))
    return make("Cast", inside, to=FLOAT)


def fastspeech2_pair(root: Path, voice: str, folder: Path, mel_factor: float = 1.0) -> PairFiles:
    """A FastSpeech 2 voice of the repository with its regulator in the graph again; mel [batch, frames, bands]."""
    models = root / "model_repository"
    encoder = compose.add_prefix(onnx.load(str(models / f"{voice}.acoustic/1/encoder.onnx")), "encoder/")
    decoder = compose.add_prefix(onnx.load(str(models / f"{voice}.acoustic/1/decoder.onnx")), "decoder/")
    make = _Maker()
    make("Identity", "input_ids", out="encoder/phoneme_ids")
    count = make("Gather", make("Shape", "input_ids"), make.constant([1], np.int64))
    make("Identity", count, out="encoder/lengths")
    make.nodes += encoder.graph.node
    durations = make("Reshape", "encoder/durations", make.constant([-1], np.int64))
    path = _path(make, make("Round", make("Mul", durations, "alpha")))
    latent = make("MatMul", "encoder/hidden", path)
    make("Identity", latent, out="decoder/latent")
    mask = make("ReduceMax", latent, axes=[1], keepdims=1)
    make("Add", make("Mul", mask, make.constant(0, np.float32)), make.constant(1, np.float32), out="decoder/mask")
    make.nodes += decoder.graph.node
    mel = make("Mul", "decoder/features", make.constant(mel_factor, np.float32))
    make("Transpose", mel, out="mel", perm=[0, 2, 1])
    make.weights += [*encoder.graph.initializer, *decoder.graph.initializer]
    opset = next(e.version for e in encoder.opset_import if e.domain in {"", "ai.onnx"})
    acoustic = make.model(
        [info("input_ids", INT64, 1, "n"), info("alpha", FLOAT, 1)], [info("mel", FLOAT, 1, "t", 80)], opset
    )
    generator = onnx.load(str(models / f"{voice}.vocoder/1/generator.onnx"))
    return _saved(acoustic, generator, folder, str(models / f"{voice}.text_frontend/1"), 24_000)


BANDS, HOP, RATE_HZ = 20, 256, 22_050
SYMBOLS = [
    "_",
    "^",
    "$",
    " ",
    ".",
    ",",
    "?",
    "!",
    *"abdefhijklmnopqrstuvwxyzæðŋɐɑɔəɚɛɜɡɪɫɹɾʃʊʌʒˈˌːθᵻ",
    "\u0329",
    ";",
    ":",
    "ɝ",
]


def matcha_pair(
    folder: Path, bands: int = BANDS, hop: int = HOP, *, mel_factor: float = 1.0, seed: int = 3, opset: int = 17
) -> PairFiles:
    """A made-up Matcha-type pair: ids to a log mel through two steps of a flow that starts at noise, and a bank of
    sines that a log mel switches on and off.
    """
    random = np.random.default_rng(seed)
    count = len(SYMBOLS)
    # voiced symbols are loud below, others quiet; blanks and padding are pauses
    shape = np.linspace(0, -3, bands)[None, :]
    table = random.normal(-2.6, 0.8, (count, bands)) + shape
    pauses = [SYMBOLS.index(symbol) for symbol in "_^$ .,?!"]
    table[pauses] = -9
    lengths = random.uniform(3.2, 7.8, count)
    lengths[0] = 0.4
    make = _Maker()
    duration_table = make.constant(np.log(lengths), np.float32)
    flat = make("Reshape", "x", make.constant([-1], np.int64))
    mean = make("Gather", make.constant(table * mel_factor, np.float32), flat)
    durations = make("Ceil", make("Exp", make("Gather", duration_table, flat)))
    part = [make.constant([value], np.int64) for value in (0, 1, 2)]
    counts = make("Round", make("Mul", durations, make("Slice", "scales", part[1], part[2])))
    path = _path(make, counts)
    mu = make("Unsqueeze", make("MatMul", make("Transpose", mean, perm=[1, 0]), path), part[0])
    noise = make("RandomNormalLike", mu)
    state = make("Mul", noise, make("Slice", "scales", part[0], part[1]))
    for share in (0.5, 0.9):
        step = make("Mul", make("Sub", mu, state), make.constant(share, np.float32))
        state = make("Add", state, step)
    frames = make("Gather", make("Shape", mu), make.constant([2], np.int64), out="mel_lengths")
    assert frames
    make("Identity", state, out="mel")
    acoustic = make.model(
        [info("x", INT64, 1, "t"), info("x_lengths", INT64, 1), info("scales", FLOAT, 2)],
        [info("mel", FLOAT, 1, bands, "f"), info("mel_lengths", INT64, 1)],
        opset,
    )
    tokens = folder / "tokens.txt"
    folder.mkdir(parents=True, exist_ok=True)
    tokens.write_text("".join(f"{symbol} {number}\n" for number, symbol in enumerate(SYMBOLS)), encoding="utf-8")
    return _saved(acoustic, sine_vocoder(bands, hop, opset), folder, "en-us", RATE_HZ, tokens)


def sine_vocoder(bands: int = BANDS, hop: int = HOP, opset: int = 17) -> Any:
    """exp(mel) through an upsampling convolution whose kernels are windowed sines of whole cycles per frame."""
    make = _Maker()
    size = 2 * hop
    time = np.arange(size)
    kernels = [
        np.hanning(size) * np.sin(2 * np.pi * (1 + 2 * band) * time / hop + band * band) for band in range(bands)
    ]
    weights = make.constant(np.stack(kernels)[:, None, :], np.float32)
    amplitudes = make("Exp", "mel")
    raw = make("ConvTranspose", amplitudes, weights, strides=[hop], pads=[hop // 2, hop - hop // 2])
    make("Squeeze", raw, make.constant([1], np.int64), out="waveform")
    return make.model([info("mel", FLOAT, "b", bands, "t")], [info("waveform", FLOAT, "b", "s")], opset)
