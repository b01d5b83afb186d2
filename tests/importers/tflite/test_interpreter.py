"""The reference of proofs, against formulas written another way."""

from __future__ import annotations

import numpy as np
import pytest

from tests.importers.tflite.models import CONV, VALID, Builder, dilated
from voxrepo.importers.tflite.interpreter import run
from voxrepo.importers.tflite.model import Quantisation
from voxrepo_contract.errors import ConversionRefused

RNG = np.random.default_rng(5)


def test_a_convolution_is_a_sum_over_taps_and_channels():
    weights, bias = RNG.standard_normal((4, 3, 2)).astype(np.float32), RNG.standard_normal(4).astype(np.float32)
    x = RNG.standard_normal((1, 7, 2)).astype(np.float32)
    builder = Builder()
    source = builder.tensor((1, -1, 2))
    made = builder.conv(source, weights, bias, FusedActivationFunction=1)
    found = run(builder.model([source], [made]), {source: x}, {made})[made]
    padded = np.pad(x[0], ((1, 1), (0, 0)))
    for t in range(7):
        expected = np.einsum("okc,kc->o", weights, padded[t : t + 3]) + bias
        np.testing.assert_allclose(found[0, t], np.maximum(expected, 0), atol=1e-5)


@pytest.mark.parametrize("length", [9, 10, 11, 12])
def test_the_detour_through_the_batch_axis_is_a_dilated_convolution(length: int):
    weights, bias = RNG.standard_normal((2, 3, 2)).astype(np.float32), np.zeros(2, np.float32)
    x = RNG.standard_normal((1, length, 2)).astype(np.float32)
    builder = Builder()
    source = builder.tensor((1, -1, 2))
    made = dilated(builder, source, weights, bias, 4)
    found = run(builder.model([source], [made]), {source: x}, {made})[made]
    assert found.shape == (1, length - 8, 2)
    for t in range(length - 8):
        expected = sum(weights[:, tap] @ x[0, t + 4 * tap] for tap in range(3))
        np.testing.assert_allclose(found[0, t], expected, atol=1e-5)


def test_eight_bit_weights_are_real_numbers_by_their_scale_and_zero_point():
    scale = Quantisation(np.array([0.5, 0.25], np.float32), np.array([1, -3]), 0)
    builder = Builder()
    source = builder.tensor((-1, 2))
    weights = builder.tensor(data=[[3, 1], [1, 5]], dtype=np.int8, quantisation=scale)
    made = builder.add("FULLY_CONNECTED", source, weights)
    found = run(builder.model([source], [made]), {source: np.eye(2, dtype=np.float32)}, {made})[made]
    np.testing.assert_array_equal(found, [[1.0, 1.0], [0.0, 2.0]])


def test_halves_are_rounded_to_even():
    builder = Builder()
    source = builder.tensor((-1,))
    made = builder.add("ROUND", source)
    found = run(builder.model([source], [made]), {source: np.array([0.5, 1.5, 2.5], np.float32)}, {made})[made]
    np.testing.assert_array_equal(found, [0, 2, 2])


def test_an_operator_that_is_not_known_is_named():
    builder = Builder()
    source = builder.tensor((-1,))
    made = builder.add("UNIDIRECTIONAL_SEQUENCE_LSTM", source)
    with pytest.raises(ConversionRefused, match=r"UNIDIRECTIONAL_SEQUENCE_LSTM \(t1\) does not run: it is not known"):
        run(builder.model([source], [made]), {source: np.zeros(1, np.float32)})


def test_a_convolution_with_a_stride_is_refused():
    builder = Builder()
    source = builder.tensor((1, -1, 1))
    options = {**CONV, "StrideW": 2, "Padding": VALID}
    made = builder.conv(source, np.ones((1, 1, 1), np.float32), np.zeros(1, np.float32), **options)
    with pytest.raises(ConversionRefused, match="convolution with a stride"):
        run(builder.model([source], [made]), {source: np.zeros((1, 4, 1), np.float32)})
