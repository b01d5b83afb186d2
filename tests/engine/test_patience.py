from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from voxrepo.engine.binary import find_in_wheel
from voxrepo.engine.patience import LIBRARY_NAME, PATIENCE_S, UNPATCHED_PATIENCE_S, lengthen_patience

CODE_END = 0xD4000


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (library,) = [file for file in find_in_wheel().python_backend if file.name == LIBRARY_NAME]
    return Path(shutil.copy2(library, tmp_path))


def test_the_library_of_the_wheel_is_known_and_asks_whether_the_process_has_ended(copy: Path):
    before = copy.read_bytes()
    assert lengthen_patience(copy) == PATIENCE_S
    after = copy.read_bytes()
    assert len(after) == len(before)
    changed = [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    jumps = [index for index in changed if index < 0xD3000]
    assert len(jumps) <= 2 * 5
    added = [index for index in changed if index >= 0xD3000]
    # in zeros behind the code, in the same page
    assert not any(before[added[0] : CODE_END])
    assert added[-1] < CODE_END
    assert len(added) <= 80


def test_both_ways_to_give_up_lead_to_the_question(copy: Path):
    lengthen_patience(copy)
    content = copy.read_bytes()

    def target(jump: int, size: int = 5) -> int:
        return jump + size + int.from_bytes(content[jump + size - 4 : jump + size], "little", signed=True)

    assert content[0x7EA8E] == content[0x7E866] == 0xE9
    assert target(0x7EA8E) == target(0x7E866)
    question = target(0x7EA8E)
    wait_on = content.index(b"\x0f\x84", question)
    assert target(wait_on, 6) == 0x7E7D8
    assert content[wait_on + 6 : wait_on + 12] == bytes.fromhex("488d6c2450e9")
    assert target(wait_on + 11) == 0x7EA93


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
