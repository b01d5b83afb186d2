"""A MelGAN generator as one graph, features to audio.

The files pad every convolution by reflection, so a sequence must be longer than the widest reflection. What its ends
need is therefore in the graph itself, and windows that reach to a true end get it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from voxrepo.importers.extract import Port, extract
from voxrepo.importers.graph import Graph, attribute
from voxrepo.importers.receptive_field import ReceptiveField, receptive_field
from voxrepo.importers.static_shapes import static_shapes
from voxrepo.importers.tflite.lift import Lifter
from voxrepo.importers.tflite.model import TfliteModel
from voxrepo.importers.tflite.observed import Observed
from voxrepo.importers.tflite.writer import Value
from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]

_OBSERVED_FRAMES = (40, 43)
"""Long enough for the reflections of any generator in use."""


@dataclass(frozen=True)
class MelGan:
    """A lifted generator.

    Attributes:
        source: the model in the file, for the proof.
        model: the graph ``generator``.
        inputs: ``features`` [batch, C, frames].
        outputs: ``audio`` [batch, 1, samples].
        field: samples per frame, and how far a frame is heard.
        min_frames: a shorter sequence cannot be run, since there is too little to reflect.
    """

    source: TfliteModel
    model: onnx.ModelProto
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    field: ReceptiveField
    min_frames: int

    @property
    def channels(self) -> int:
        """C of the features."""
        return int(self.inputs[0].shape[1])

    def feeds(self, features: Array) -> dict[int, Array]:
        """Inputs of the source for features [C, frames]."""
        return {self.source.inputs[0]: np.ascontiguousarray(features.T[np.newaxis], np.float32)}


def lift_melgan(model: TfliteModel) -> MelGan:
    """Lift a generator.

    Args:
        model: without rounding, see ``without_rounding``.

    Raises:
        ConversionRefused: it is not a generator of convolutions.
    """
    if len(model.inputs) != 1 or len(model.outputs) != 1 or len(model.tensors[model.inputs[0]].shape) != 3:
        raise ConversionRefused("a vocoder has one input [1, frames, channels] and one output")
    source, target = model.inputs[0], model.outputs[0]
    channels = model.tensors[source].shape[2]
    generator = np.random.default_rng(1)
    runs = [{source: generator.standard_normal((1, frames, channels), dtype=np.float32)} for frames in _OBSERVED_FRAMES]
    observed = Observed.of(model, runs[0], runs[1])
    lifter = Lifter(model, observed, {source: Value("features", "sequence", channels)})
    audio = lifter.lift(target)
    if audio.channels != 1:
        raise ConversionRefused(f"the vocoder makes {audio.channels} channels of audio; one is expected")
    features = Port("features", "features", TensorProto.FLOAT, ("batch", channels, "frames"))
    value = helper.make_tensor_value_info("features", TensorProto.FLOAT, list(features.shape))
    graph = lifter.graph([value], [audio.name])
    field = receptive_field(graph, "features", graph.outputs[0])
    frames, samples = observed.first[source].shape[1], observed.first[target].size
    if samples != frames * field.hop_length_samples:
        raise ConversionRefused(
            f"the vocoder makes {samples} samples of {frames} frames; "
            f"its strides say {field.hop_length_samples} per frame"
        )
    port = Port(graph.outputs[0], "audio", TensorProto.FLOAT, ("batch", 1, "samples"))
    made = extract(graph, [features], [port], "generator")
    static_shapes(made, {"batch": 2, "frames": 64})
    return MelGan(model, made, (features,), (port,), field, _min_frames(graph))


def _min_frames(graph: Graph) -> int:
    """Frames from which every reflection has enough to reflect: more positions than it puts before and after."""
    scales = {"features": 1}
    least = 1
    for node in graph.nodes:
        scale = next((scales[name] for name in node.input if name in scales), None)
        if scale is None:
            continue
        if node.op_type == "Pad" and attribute(node, "mode", b"constant") == b"reflect":
            amounts = graph.constant(node.input[1])
            assert amounts is not None  # receptive_field has seen it
            least = max(least, int(amounts.max()) // scale + 1)
        if node.op_type == "ConvTranspose":
            scale *= int(attribute(node, "strides", [1])[0])
        scales.update(dict.fromkeys(node.output, scale))
    return least
