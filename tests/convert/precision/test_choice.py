from __future__ import annotations

import numpy as np
import pytest

from tests.convert.graphs import generator
from voxrepo.convert.precision.choice import BY_USER, as_given, searched
from voxrepo.convert.precision.damage import Damages, noise, sound
from voxrepo.convert.precision.lowerer import Lowerer, must_be_lowered, noise_db, run_rows
from voxrepo.convert.precision.search import Opinion
from voxrepo_contract.errors import ConversionRefused

from .test_eight_bit import rows
from .test_half import chain, node


@pytest.fixture
def lowerers() -> dict[str, Lowerer]:
    return {"generator": Lowerer(generator(), "int8", rows(), "npu")}


def judge_by_noise(limit_db: float):
    source = next(iter(run_rows(generator(), rows(1), "g")))

    def judge(models) -> Opinion:
        noise = noise_db(source, next(iter(run_rows(models["generator"], rows(1), "g"))))
        return Opinion(noise <= limit_db, (f"{noise:.1f} dB of noise",))

    return judge


def test_everything_is_lowered_but_what_the_user_excludes(lowerers):
    layers = lowerers["generator"].layers
    choice = as_given(lowerers, {"generator": [layers[1]]})
    assert choice.kept == {"generator": {layers[1]: BY_USER}}
    assert choice.lowered == {"generator": len(layers) - 1}


def test_the_search_keeps_what_the_judge_hears(lowerers):
    everything = as_given(lowerers, {})
    source = next(iter(run_rows(generator(), rows(1), "g")))
    worst = noise_db(source, next(iter(run_rows(everything.models["generator"], rows(1), "g"))))
    told: list[str] = []
    judge = judge_by_noise(worst - 6)
    choice = searched(lowerers, {}, judge, judge, {"generator": rows(2)}, {"generator": noise}, told.append)
    kept = choice.kept["generator"]
    assert 0 < len(kept) < len(lowerers["generator"].layers)
    assert all(reason.startswith("lowered alone it makes noise of -") for reason in kept.values())
    assert any("dB of noise" in reason for reason in kept.values())
    assert judge(choice.models).accepted
    assert told[-1] == f"measuring what each layer does alone, {len(told)} of {len(lowerers['generator'].layers)}"
    again = searched(lowerers, {}, judge, judge, {"generator": rows(2)}, {"generator": noise})
    assert again.kept == choice.kept


def test_damage_by_sound_is_a_spectral_distance(lowerers):
    lowerer = lowerers["generator"]
    long = np.random.default_rng(1).standard_normal((1, 4, 2000)).astype(np.float32)
    damages = Damages(lowerer, [{"features": long}], sound(16_000))
    assert damages.of(()).amount == 0.0
    found = damages.of(lowerer.layers)
    assert found.amount > 0
    assert found.words == f"lowered alone it makes a mel-cepstral distance of {found.amount:.3g} dB"
    one, broken = {"audio": np.ones((1, 1, 4000), np.float32)}, {"audio": np.full((1, 1, 4000), np.nan, np.float32)}
    for measure in (sound(16_000), noise):
        assert measure([one], [broken]).words == "lowered alone it makes values of 'audio' that are not finite"


def test_a_judge_who_is_never_content_is_quoted(lowerers):
    with pytest.raises(ConversionRefused, match=r"no layer can be lowered.*dB of noise"):
        judge = judge_by_noise(-300)
        searched(lowerers, {}, judge, judge, {"generator": rows(1)}, {"generator": noise})


def test_a_graph_without_layers_cannot_be_quantised():
    graph = chain(node("Relu", ["x"], "y"))
    lowerer = Lowerer(graph, "int8", [{"x": np.ones(3, np.float32)}], "npu")
    with pytest.raises(ConversionRefused, match="nothing in this stage can be lowered to int8"):
        must_be_lowered({"model": lowerer}, "int8")


def test_a_chip_keeps_what_gets_too_large_and_a_cpu_does_not():
    graph = chain(node("Mul", ["x", "x"], "y"), node("Relu", ["y"], "z"))
    graph.graph.output[0].name = "z"
    row = [{"x": np.array([300.0], np.float32)}]
    assert set(Lowerer(graph, "fp16", row, "npu").fixed) == {"y_node", "z_node"}
    assert Lowerer(graph, "fp16", row, "cpu").fixed == {}
