from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from voxrepo.convert.gear_proof import GearProof, prove_gears
from voxrepo.convert.proof_cases import Array, Case, open_session
from voxrepo.importers.onnx_run import run
from voxrepo_contract.errors import ConversionRefused
from voxrepo_contract.stage import GraphSpec

from .graphs import CHANNELS, decoder, encoder, graph_spec, model

GEARS = [{"batch": 1, "frames": 16}, {"batch": 3, "frames": 16}, {"batch": 2, "frames": 32}, {"batch": 1, "frames": 4}]


def cases(graph: onnx.ModelProto) -> list[Case]:
    session = open_session(graph.SerializeToString())
    found = []
    for frames in (7, 12, 25):
        latent = np.random.default_rng(frames).standard_normal((1, CHANNELS, frames)).astype(np.float32)
        inputs = {"latent": latent, "mask": np.ones((1, 1, frames), np.float32)}
        found.append(Case({"batch": 1, "frames": frames}, inputs, run(session, inputs, "source")))
    return found


def prove(tmp_path: Path, graph: onnx.ModelProto, source: onnx.ModelProto | None = None) -> GearProof:
    spec: GraphSpec = graph_spec(tmp_path, "decoder", graph).model_copy(update={"gears": GEARS})
    return prove_gears(
        "decoder", graph.SerializeToString(), spec, "frames", cases(source or graph), 3, lambda message, share: None
    )


def test_a_masked_graph_is_proved_in_every_gear(tmp_path: Path):
    proof = prove(tmp_path, decoder())
    table = proof.table()
    # gears: 1 + 2 + 1 + 0 rows, then each case alone
    assert (table["gears"], table["rows"], table["texts"]) == (4, 7, 3)
    assert table["max_diff"]["features"] <= 1e-6


def test_a_graph_in_which_padding_is_heard_is_refused(tmp_path: Path):
    with pytest.raises(ConversionRefused, match=r"'features' differs by .*padding apart from true frames"):
        prove(tmp_path, decoder(masked=False))


def test_another_graph_than_the_source_is_refused(tmp_path: Path):
    changed = decoder()
    changed.graph.initializer[0].raw_data = (
        np.frombuffer(changed.graph.initializer[0].raw_data, np.float32) * np.float32(1.1)
    ).tobytes()
    with pytest.raises(ConversionRefused, match="is not the source"):
        prove(tmp_path, changed, decoder())


def test_an_empty_row_that_turns_into_nan_is_refused(tmp_path: Path):
    f = TensorProto.FLOAT
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axes"], ["per_row"], keepdims=1),
        helper.make_node("Div", ["mask", "per_row"], ["share"]),
        helper.make_node("Mul", ["share", "per_row"], ["again"]),
        helper.make_node("Mul", ["latent", "again"], ["features"]),
    ]
    graph = model(
        nodes,
        {"latent": (f, ["batch", CHANNELS, "frames"]), "mask": (f, ["batch", 1, "frames"])},
        {"features": (f, ["batch", CHANNELS, "frames"])},
        [onnx.numpy_helper.from_array(np.array([2], np.int64), "axes")],
    )
    with pytest.raises(ConversionRefused, match=r"not finite numbers in gear 3 batch x 16 frames"):
        prove(tmp_path, graph)


def test_a_batch_that_is_baked_in_is_refused(tmp_path: Path):
    graph = decoder()
    node = graph.graph.node[-1]
    node.output[0] = "inner"
    graph.graph.node.append(helper.make_node("Reshape", ["inner", "one_row"], ["features"]))
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, CHANNELS, -1], np.int64), "one_row"))
    with pytest.raises(ConversionRefused, match=r"makes 'features' of shape \[1, 4, 48\] in gear 3 batch x 16 frames"):
        prove(tmp_path, graph)


def test_what_is_not_a_number_counts_as_infinite():
    proof = GearProof(1)
    proof.note("audio", float("nan"))
    proof.note("audio", 0.1)
    assert proof.max_diff["audio"] == np.inf


def test_lengths_mask_an_encoder_in_every_gear(tmp_path: Path):
    graph = encoder()
    session = open_session(graph.SerializeToString())
    found = []
    for ids in (5, 9):
        inputs: dict[str, Array] = {
            "phoneme_ids": np.arange(ids, dtype=np.int64)[None],
            "lengths": np.array([ids], np.int64),
            "duration_noise": np.random.default_rng(ids).standard_normal((1, 2, ids)).astype(np.float32),
        }
        found.append(Case({"batch": 1, "ids": ids}, inputs, run(session, inputs, "source")))
    gears = [{"batch": 1, "ids": 12}, {"batch": 4, "ids": 12}]
    spec = graph_spec(tmp_path, "encoder", graph).model_copy(update={"gears": gears})
    proof = prove_gears("encoder", graph.SerializeToString(), spec, "ids", found, 2, lambda message, share: None)
    assert set(proof.max_diff) == {"durations", "mean", "log_scale"}
    assert max(proof.max_diff.values()) <= 1e-6
