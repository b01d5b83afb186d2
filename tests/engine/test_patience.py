from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from voxrepo.engine.binary import find_in_wheel
from voxrepo.engine.patience import LIBRARY_NAME, PATIENCE_S, UNPATCHED_PATIENCE_S, lengthen_patience


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (library,) = [file for file in find_in_wheel().python_backend if file.name == LIBRARY_NAME]
    return Path(shutil.copy2(library, tmp_path))


def test_the_library_of_the_wheel_is_known_and_gets_another_constant(copy: Path):
    before = copy.read_bytes()
    assert lengthen_patience(copy) == PATIENCE_S
    after = copy.read_bytes()
    assert len(after) == len(before)
    changed = [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    # three bytes differ between 1 and 5 million; one wait has the constant twice
    assert 5 <= len(changed) <= 5 * 4
    assert max(changed) - min(changed) < 2048


def test_a_library_that_is_patched_already_is_left_alone(copy: Path):
    lengthen_patience(copy)
    patched = copy.read_bytes()
    assert lengthen_patience(copy) == UNPATCHED_PATIENCE_S
    assert copy.read_bytes() == patched


def test_a_library_of_another_engine_is_left_alone(tmp_path: Path):
    library = tmp_path / LIBRARY_NAME
    library.write_bytes(b"\x7fELF of another build" * 1000)
    before = library.read_bytes()
    assert lengthen_patience(library) == UNPATCHED_PATIENCE_S
    assert library.read_bytes() == before
