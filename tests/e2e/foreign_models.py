"""Small models that really do something, as ONNX files: what a user would drop into ``model_repository/``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from voxrepo_contract import emulated_om

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

TOPICS = ("weather", "food", "travel")
SENTENCES = {
    "weather": (
        "It will rain in the evening with strong wind.",
        "Tomorrow will be sunny and warm.",
        "Snow and cold wind are expected in the mountains.",
        "A storm is coming from the sea tonight.",
        "The forecast says clouds and a little rain.",
        "Fog in the morning, then sunny and dry.",
    ),
    "food": (
        "Boil the pasta and add salt to the water.",
        "She baked a loaf of bread with butter.",
        "The soup needs more salt and pepper.",
        "We ate apples, cheese and fresh bread.",
        "He cooked rice with vegetables for dinner.",
        "Pour the milk into the bowl and add sugar.",
    ),
    "travel": (
        "The train to the coast leaves at ten.",
        "Our flight was late, so we missed the bus.",
        "Take the bus from the station to the airport.",
        "They booked a hotel near the station.",
        "My ticket for the train is in the suitcase.",
        "The ferry sails from the harbour every hour.",
    ),
}
UNSEEN = {
    "Cold rain and wind tonight.": "weather",
    "It is sunny and dry in the mountains.": "weather",
    "Add butter, sugar and milk to the dinner.": "food",
    "Bread with cheese and a bowl of soup.": "food",
    "The bus to the airport leaves from the hotel.": "travel",
    "I lost my suitcase and ticket at the station.": "travel",
}
BUCKETS = 512
MAX_WORDS = 16


def word_ids(sentence: str, length: int = MAX_WORDS) -> Ids:
    """INT64 [length]: each word hashed to 1..BUCKETS-1, zeros behind."""
    words = "".join(c if c.isalpha() else " " for c in sentence.lower()).split()[:length]
    ids = np.zeros(length, np.int64)
    ids[: len(words)] = [1 + zlib.crc32(word.encode()) % (BUCKETS - 1) for word in words]
    return ids


def regress(features: Floats, labels: Ids, classes: int, steps: int = 400) -> tuple[Floats, Floats]:
    """Weights [features, classes] and biases of a logistic regression, by gradient descent."""
    weights = np.zeros((features.shape[1], classes))
    biases = np.zeros(classes)
    target = np.eye(classes)[labels]
    for _ in range(steps):
        scores = features @ weights + biases
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        slope = (chances - target) / len(labels)
        weights -= features.T @ slope + 1e-4 * weights
        biases -= slope.sum(0)
    return weights.astype(np.float32), biases.astype(np.float32)


def make_model(
    inputs: Sequence[Any], outputs: Sequence[Any], nodes: Sequence[Any], weights: dict[str, npt.NDArray[Any]], **kw: Any
) -> Any:
    """An ONNX model; tensors as (name, element type, dims)."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(*tensor) for tensor in inputs],
        [helper.make_tensor_value_info(*tensor) for tensor in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = kw.pop("opsets", [helper.make_opsetid("", 17)])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    return model


def place(root: Path, name: str, model: Any, version: int = 1) -> Path:
    """Drop a model into a root as ``model.onnx``, with nothing beside it; returns the version's folder."""
    folder = root / "model_repository" / name / str(version)
    folder.mkdir(parents=True)
    onnx.save(model, str(folder / "model.onnx"))
    return folder


def text_classifier() -> Any:
    """``ids`` INT64 [batch, words] -> ``chances`` FP32 [batch, 3], ``topic`` INT64 [batch]: a bag of hashed words."""
    texts = [(sentence, TOPICS.index(topic)) for topic, sentences in SENTENCES.items() for sentence in sentences]
    bags = np.zeros((len(texts), BUCKETS), np.float32)
    for row, (sentence, _) in enumerate(texts):
        for word in word_ids(sentence):
            bags[row, word] += word > 0
    weights, biases = regress(bags, np.array([label for _, label in texts]), len(TOPICS))
    weights[0] = 0  # padding
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["scores_of_words"]),
        helper.make_node("ReduceSum", ["scores_of_words", "axis"], ["sums"], keepdims=0),
        helper.make_node("Add", ["sums", "biases"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["chances"], axis=1),
        helper.make_node("ArgMax", ["scores"], ["topic"], axis=1, keepdims=0),
    ]
    return make_model(
        [("ids", TensorProto.INT64, ["batch", "words"])],
        [("chances", TensorProto.FLOAT, ["batch", len(TOPICS)]), ("topic", TensorProto.INT64, ["batch"])],
        nodes,
        {"words": weights, "biases": biases, "axis": np.array([1], np.int64)},
    )


STRIPES = ("horizontal", "vertical", "rising", "falling")


def stripes(kind: int, size: tuple[int, int], seed: int) -> Floats:
    """FP32 [1, height, width]: noisy stripes of one of four directions."""
    random = np.random.default_rng(seed)
    row, column = np.mgrid[: size[0], : size[1]]
    across = (row, column, row + column, row - column)[kind]
    image = np.sin(across * random.uniform(0.8, 1.4) + random.uniform(0, 6)) + random.normal(0, 0.3, size)
    return np.asarray(image[None], np.float32)


def vision_model() -> Any:
    """``image`` FP32 [batch, 1, height, width] -> ``chances`` FP32 [batch, 4]: edge filters, pooling, regression."""
    edges = np.array(
        [
            [[-1, -2, -1], [0, 0, 0], [1, 2, 1]],
            [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]],
            [[-2, -1, 0], [-1, 0, 1], [0, 1, 2]],
            [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]],
        ],
        np.float32,
    )[:, None]
    nodes = [
        helper.make_node("Conv", ["image", "edges"], ["filtered"], kernel_shape=[3, 3]),
        helper.make_node("Abs", ["filtered"], ["strength"]),
        helper.make_node("GlobalAveragePool", ["strength"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    shape = ["batch", 1, "height", "width"]
    features = make_model(
        [("image", TensorProto.FLOAT, shape)], [("features", TensorProto.FLOAT, ["batch", 4])], nodes, {"edges": edges}
    )
    labels = np.arange(200) % 4
    images = np.stack([stripes(int(kind), (24, 24), seed) for seed, kind in enumerate(labels)])
    (measured,) = session(features).run(None, {"image": images})
    weights, biases = regress(measured, labels, 4, steps=3000)
    nodes += [
        helper.make_node("Gemm", ["features", "weights", "biases"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["chances"], axis=1),
    ]
    return make_model(
        [("image", TensorProto.FLOAT, shape)],
        [("chances", TensorProto.FLOAT, ["batch", 4])],
        nodes,
        {"edges": edges, "weights": weights, "biases": biases},
    )


def string_model() -> Any:
    """``word`` BYTES [n, 1] -> ``number`` INT64 [n, 1]: looks a word up; needs string tensors."""
    node = helper.make_node(
        "LabelEncoder",
        ["word"],
        ["number"],
        domain="ai.onnx.ml",
        keys_strings=["one", "two", "dr\u00fcben"],
        values_int64s=[1, 2, 3],
        default_int64=-1,
    )
    return make_model(
        [("word", TensorProto.STRING, ["n", 1])],
        [("number", TensorProto.INT64, ["n", 1])],
        [node],
        {},
        opsets=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)],
    )


def running_sum() -> Any:
    """``image`` FP32 [k, 3] -> ``sums`` FP32 [k, 3]: the first axis is a time, although nothing says so."""
    return make_model(
        [("image", TensorProto.FLOAT, ["k", 3])],
        [("sums", TensorProto.FLOAT, ["k", 3])],
        [helper.make_node("CumSum", ["image", "axis"], ["sums"])],
        {"axis": np.array(0, np.int32)},
    )


def place_om(root: Path, name: str, model: Any, size: tuple[int, int], soc: str = "Ascend910B3") -> Path:
    """Drop the vision model into a root as ``model.om`` of the emulator, in gears of 1, 2 and 4 images.

    Returns:
        the version's folder.
    """
    folder = root / "model_repository" / name / "1"
    folder.mkdir(parents=True)
    shape, gears = (1, *size), (1, 2, 4)
    header = emulated_om.OmHeader(
        name=name,
        soc=soc,
        kind=emulated_om.BATCH_GEARS,
        inputs=(emulated_om.OmTensor("image", "FP32", (-1, *shape)),),
        outputs=(emulated_om.OmTensor("chances", "FP32", (-1, 4)),),
        gears=tuple({"image": (batch, *shape)} for batch in gears),
        outputs_by_gear=tuple({"chances": (batch, 4)} for batch in gears),
        weights_bytes=4096,
        work_bytes=1 << 20,
    )
    emulated_om.write(folder / "model.om", header, model.SerializeToString())
    return folder


def session(model: Any) -> Any:
    """onnxruntime itself, to compare with."""
    import onnxruntime as ort

    source = model if isinstance(model, str | bytes) else model.SerializeToString()
    return ort.InferenceSession(source, providers=["CPUExecutionProvider"])
