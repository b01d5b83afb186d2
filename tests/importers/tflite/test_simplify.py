from __future__ import annotations

import numpy as np
import pytest

from tests.importers.tflite.models import Builder, generator
from voxrepo.importers.tflite.interpreter import run
from voxrepo.importers.tflite.model import TfliteModel
from voxrepo.importers.tflite.simplify import without_dropout, without_rounding
from voxrepo_contract.errors import ConversionRefused


def dropout(*, factor: float = 2.0, threshold: float = 0.5, compared: bool = True) -> tuple[TfliteModel, int]:
    builder = Builder()
    source = builder.tensor((1, -1, 3))
    shape = builder.add("SHAPE", source, dtype=np.int32)
    random = builder.add("FlexRandomUniform", shape)
    scaled = builder.add("MUL", source, builder.tensor(data=factor), FusedActivationFunction=0)
    if compared:
        kept = builder.add("GREATER_EQUAL", random, builder.tensor(data=threshold), dtype=np.bool_)
        kept = builder.add("CAST", kept)
    else:
        kept = random
    made = builder.add("MUL", scaled, kept, FusedActivationFunction=0)
    return builder.model([source], [made]), source


def test_dropout_becomes_its_expected_value():
    model, source = dropout()
    simpler = without_dropout(model)
    x = np.random.default_rng(0).standard_normal((1, 4, 3)).astype(np.float32)
    assert [operator.kind for operator in simpler.operators] == ["IDENTITY"]
    np.testing.assert_array_equal(run(simpler, {source: x}, simpler.outputs)[simpler.outputs[0]], x)


def test_refuses_dropout_whose_scale_does_not_match():
    with pytest.raises(ConversionRefused, match="drops values at random and does not scale the rest to match"):
        without_dropout(dropout(factor=3.0)[0])


def test_refuses_random_numbers_that_are_no_dropout():
    with pytest.raises(ConversionRefused, match="random numbers for something else than dropout"):
        without_dropout(dropout(compared=False)[0])


def test_rounding_of_a_signal_is_taken_out_and_nothing_else():
    rounded, plain = generator(rounded=True), generator()
    x = np.random.default_rng(0).standard_normal((1, 12, 5)).astype(np.float32)
    outputs = [
        run(model, {model.inputs[0]: x}, model.outputs)[model.outputs[0]]
        for model in (rounded, without_rounding(rounded), plain)
    ]
    np.testing.assert_array_equal(outputs[1], outputs[2])
    assert 1e-4 < np.abs(outputs[0] - outputs[1]).max() < 0.1
