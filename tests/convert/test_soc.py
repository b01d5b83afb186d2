from __future__ import annotations

import pytest

from voxrepo.convert.refusal import AtcRefusal
from voxrepo.convert.soc import FOLDER, parse_soc


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Ascend910B3", "ascend910b"),
        ("Ascend910B4-1", "ascend910b"),
        ("Ascend910B2C", "ascend910b"),
        ("Ascend910B", "ascend910"),
        ("Ascend910ProA", "ascend910"),
        ("Ascend910_9392", "ascend910_93"),
        ("Ascend310P3", "ascend310p"),
        ("Ascend310B4", "ascend310b"),
    ],
)
def test_chips_belong_to_families(name, family):
    assert parse_soc(name).family == family


@pytest.mark.parametrize("name", ["", "910B3", "Ascend910B5", "Ascend910C", "ascend910B3", "Ascend910B3 ", "x/../y"])
def test_unknown_chips_are_refused(name):
    with pytest.raises(AtcRefusal, match=r"E10001: .*npu-smi info"):
        parse_soc(name)


def test_the_first_910b_is_told_from_its_namesakes():
    assert "does not load on 910B1" in parse_soc("Ascend910B").note
    assert parse_soc("Ascend910B3").note == ""


def test_every_family_has_a_sound_data_file():
    names = {
        parse_soc(name).family for name in ("Ascend910B1", "Ascend910_9391", "Ascend910A", "Ascend310P1", "Ascend310B1")
    }
    assert names == {file.stem for file in FOLDER.glob("*.yaml")}
    for name in ("Ascend910B1", "Ascend910_9391", "Ascend910A", "Ascend310P1", "Ascend310B1"):
        properties = parse_soc(name).properties()
        assert "INT64" in properties.dtypes and "BF16" not in properties.dtypes
    assert not parse_soc("Ascend310B1").properties().range_graphs
