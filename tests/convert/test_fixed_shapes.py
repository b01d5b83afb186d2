from __future__ import annotations

import resource

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from voxrepo.convert.fixed_shapes import ShapeFinder
from voxrepo.convert.refusal import AtcRefusal
from voxrepo_contract.errors import ConfigError

from .graphs import CHANNELS, HOP, encoder, generator, model, nonzero


def test_every_shape_follows_from_the_inputs():
    shapes = ShapeFinder(generator()).at({"features": (2, CHANNELS, 10)})
    assert shapes.outputs == {"audio": (2, 1, 10 * HOP)}
    assert shapes.dynamic == ""


def test_computed_shapes_are_folded():
    sizes = {"phoneme_ids": (3, 7), "lengths": (3,), "duration_noise": (3, 2, 7)}
    shapes = ShapeFinder(encoder()).at(sizes)
    assert shapes.outputs["mean"] == (3, CHANNELS, 7)
    assert shapes.dynamic == ""


def test_a_shape_that_depends_on_values_is_named():
    shapes = ShapeFinder(nonzero()).at({"x": (2, 4)})
    assert shapes.dynamic.startswith("NonZero")
    assert shapes.outputs == {"y": (2, None)}


def test_more_work_takes_more_memory():
    finder = ShapeFinder(generator())
    small, large = (finder.at({"features": (1, CHANNELS, frames)}).work_bytes for frames in (10, 100))
    # at the end stand two tensors of CHANNELS x HOP x frames FP32
    assert small >= 2 * 4 * CHANNELS * HOP * 10
    assert large == pytest.approx(10 * small, rel=0.01)


def test_sizes_that_contradict_the_graph_are_refused():
    f = TensorProto.FLOAT
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (f, ["n", "k"])}, {"y": (f, ["n", 64])}, [weight]
    )
    with pytest.raises(AtcRefusal, match="E19999: the graph cannot be built at the sizes x:2,9"):
        ShapeFinder(graph).at({"x": (2, 9)})


def test_the_graph_is_not_changed():
    graph = generator()
    before = graph.SerializeToString(deterministic=True)
    ShapeFinder(graph).at({"features": (1, CHANNELS, 4)})
    assert graph.SerializeToString(deterministic=True) == before


def test_a_full_disk_is_called_one():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        with pytest.raises(ConfigError, match="disk full"):
            ShapeFinder(generator()).at({"features": (2, CHANNELS, 10)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
