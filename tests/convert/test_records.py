from __future__ import annotations

from pathlib import Path

import pytest

from voxrepo.convert.records import MAX_LENGTH, read_record
from voxrepo_contract.errors import ConfigError


@pytest.mark.parametrize("row", [f"10,{MAX_LENGTH + 1}", "10,99999999999999999999", "9" * 5000 + ",10"])
def test_a_segment_longer_than_any_speech_is_refused(tmp_path: Path, row: str):
    file = tmp_path / "lengths.csv"
    file.write_text(f"ids,frames\n10,20\n{row}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="at most"):
        read_record(file)


@pytest.mark.parametrize("row", ["0,5", "00,5", "nan,5", "-1,5", "1e3,5", "5", "5,5,5", "\u0663,5"])
def test_what_is_no_positive_number_is_refused(tmp_path: Path, row: str):
    file = tmp_path / "lengths.csv"
    file.write_text(f"ids,frames\n{row}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="positive numbers"):
        read_record(file)


def test_the_longest_segment_is_read(tmp_path: Path):
    file = tmp_path / "lengths.csv"
    file.write_text(f"ids,frames\n010,{MAX_LENGTH}\n", encoding="utf-8")
    assert read_record(file).frames == (MAX_LENGTH,)
