from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.convert.graphs import generator
from voxrepo.convert.masked_generator import add_mask
from voxrepo.convert.precision.eight_bit import calibrate, layers_of, quantise
from voxrepo.convert.precision.lowerer import noise_db
from voxrepo.convert.precision.nodes import plain
from voxrepo.convert.proof_cases import Array, open_session
from voxrepo_contract.errors import ConversionRefused


def rows(count: int = 3) -> list[dict[str, Array]]:
    draw = np.random.default_rng(7)
    return [{"features": draw.standard_normal((1, 4, 20 + 5 * n)).astype(np.float32)} for n in range(count)]


def spoken(graph: onnx.ModelProto, row: dict[str, Array]) -> dict[str, Array]:
    return {"audio": open_session(graph.SerializeToString()).run(["audio"], row)[0]}


def test_layers_are_those_with_constant_weights():
    assert [name.split("_")[0] for name in layers_of(generator())] == [
        "Conv", "ConvTranspose", "Conv", "Conv", "ConvTranspose", "Conv"
    ]  # fmt: skip


@pytest.mark.parametrize("results", [True, False])
def test_a_quantised_graph_is_near_its_source_and_keeps_what_is_excluded(results):
    source = plain(generator())
    ranges = calibrate(source, rows())
    layers = layers_of(source)
    noise = []
    for exclude in ((), layers[:3], layers):
        made = quantise(source, ranges, exclude, results=results)
        onnx.checker.check_model(made)
        weights = {tensor.name for tensor in made.graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
        assert len([name for name in weights if name.startswith("w_")]) >= len(layers) - len(exclude)
        assert {node.name for node in made.graph.node} >= set(exclude)
        noise.append(noise_db(spoken(source, rows()[1]), spoken(made, rows()[1])))
    assert noise[0] < -20
    assert noise[2] == -200


def test_scales_are_per_channel():
    source = plain(generator())
    made = quantise(source, calibrate(source, rows()), results=False)
    scales = {tensor.name: list(tensor.dims) for tensor in made.graph.initializer if "scale" in tensor.name}
    assert scales["w_in_scale"] == [4]


def test_a_masked_graph_has_the_same_scales_for_the_same_layers():
    source = plain(generator())
    masked = add_mask(source)
    full = [{**row, "mask": np.ones((1, 1, row["features"].shape[2]), np.float32)} for row in rows()]
    plain_made = quantise(source, calibrate(source, rows()), results=False)
    masked_made = quantise(masked, calibrate(masked, full), results=False)
    one = open_session(plain_made.SerializeToString()).run(["audio"], rows()[2])[0]
    other = open_session(masked_made.SerializeToString()).run(["audio"], full[2])[0]
    assert np.array_equal(one, other)


def test_the_bytes_do_not_depend_on_the_process():
    program = (
        "from tests.convert.precision.test_eight_bit import *\n"
        "import hashlib\n"
        "source = plain(generator())\n"
        "made = quantise(source, calibrate(source, rows()), results=True)\n"
        "print(hashlib.sha256(made.SerializeToString(deterministic=True)).hexdigest())\n"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_an_old_operator_set_is_refused():
    source = plain(generator())
    ranges = calibrate(source, rows())
    del source.opset_import[:]
    source.opset_import.extend([helper.make_opsetid("", 12)])
    with pytest.raises(ConversionRefused, match="operator set 12, and scales per channel need 13"):
        quantise(source, ranges, results=False)
