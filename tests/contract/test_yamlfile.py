from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from voxrepo_contract import yamlfile
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.yamlfile import StrictModel

FILE = Path("repository/thing.yaml")


class Part(StrictModel):
    size: int
    share: float = 0.5
    kind: Literal["small", "large"] = "small"
    count: int | Literal["auto"] = "auto"


class Thing(StrictModel):
    name: str
    parts: dict[str, Part] = Field(default_factory=dict)
    numbers: list[int] = Field(default_factory=list)
    extra: dict[str, Any] = Field(default_factory=dict)
    note: str | None = None


def refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        yamlfile.parse(text, Thing, FILE)
    return caught.value


def test_reads_what_the_schema_describes():
    thing = yamlfile.parse("name: a\nparts:\n  x: {size: 3, kind: large, count: 2}\nnumbers: [1, 2]\n", Thing, FILE)
    assert thing == Thing(name="a", parts={"x": Part(size=3, kind="large", count=2)}, numbers=[1, 2])


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: a\nname: b\n", 2, "the key 'name' is given twice"),
        ("name: a\nparts:\n  x: {size: 1}\n  y: {size: 1}\n  x: {size: 2}\n", 5, "the key 'x' is given twice"),
        ("name: a\nparts: {x: {size: 1, size: 2}}\n", 2, "the key 'size' is given twice"),
        ("name: a\n1: x\n'1': y\n", 3, "the key '1' is given twice"),
        ("name: a\n\ncolour: red\n", 3, "colour: unknown key"),
        ("name: a\nparts:\n  x:\n    size: 1\n    sise: 2\n", 5, "parts.x.sise: unknown key"),
        ("parts: {}\n", 1, "name: required key is missing"),
        ("name: a\nparts:\n  x:\n    share: 1.0\n", 3, "parts.x.size: required key is missing"),
        ("name: 7\n", 1, "name: Input should be a valid string (got 7)"),
        ("name: yes\n", 1, "name: Input should be a valid string (got True)"),
        ("name: a\nparts:\n  x:\n    size: '3'\n", 4, "parts.x.size: Input should be a valid integer (got '3')"),
        ("name: a\nparts:\n  x:\n    size: 3.0\n", 4, "parts.x.size: Input should be a valid integer (got 3.0)"),
        ("name: a\nparts:\n  x:\n    size: true\n", 4, "parts.x.size: Input should be a valid integer (got True)"),
        ("name: a\nparts:\n  x: {size: 1, share: 1e3}\n", 3, "parts.x.share"),
        ("name: a\nparts:\n  x:\n    size: 1\n    kind: huge\n", 5, "parts.x.kind: Input should be 'small' or 'large'"),
        ("name: a\nparts:\n  x:\n    size: 1\n    count: some\n", 5, "parts.x.count"),
        ("name: a\nnumbers:\n- 1\n- two\n- 3\n", 4, "numbers.1: Input should be a valid integer (got 'two')"),
        ("name: a\nparts: [x]\n", 2, "parts: Input should be a valid dictionary"),
        ("name: a\nnumbers: 5\n", 2, "numbers: Input should be a valid list"),
        ("- name\n", 1, "the file must hold a mapping"),
        ("", 1, "the file must hold a mapping"),
        ("just text\n", 1, "the file must hold a mapping"),
        ("name: a\n\tnote: b\n", 2, "not valid YAML"),
        ("name: a\nnote: 'open\n", 3, "not valid YAML"),
        ("name: a\nnumbers: [1, 2\n", 3, "not valid YAML"),
        ("name: a\n---\nname: b\n", 2, "not valid YAML"),
        ("name: a\n? [1, 2]\n: 3\n", 2, "unhashable key"),
        ("name: a\nnote: 2020-99-99\n", 2, "month must be in 1..12"),
        ("name: a\nnumbers: [!!int x]\n", 2, "invalid literal for int()"),
        (f"name: a\nnumbers: [{'9' * 5000}]\n", 2, "not valid YAML"),
        ("name: a\nnote: b\x00c\n", 2, "holds the character 0x00"),
        ("name: a\r\n\r\ncolour: red\r\n", 3, "colour: unknown key"),
    ],
)
def test_names_file_line_and_key_of_the_mistake(text: str, line: int, says: str):
    error = refusal(text)
    assert (error.file, error.line) == (FILE, line)
    assert error.message.startswith(f"{FILE}:{line}: ")
    assert says in error.message


def test_counts_further_mistakes():
    assert refusal("colour: red\nsize: 3\n").message.endswith("(and 2 more)")


def test_shortens_long_values():
    message = refusal(f"name: a\nnumbers: {'x' * 5000}\n").message
    assert "..." in message
    assert len(message) < 250


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch owned']",
        "!!python/name:os.system",
        "!!python/object/new:subprocess.Popen [['touch', 'owned']]",
        "!unknown x",
    ],
)
def test_refuses_tags_that_build_objects(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    error = refusal(f"name: a\nnote: {value}\n")
    assert error.line == 2
    assert "tag" in error.message
    assert list(tmp_path.iterdir()) == []


def test_refuses_an_alias_bomb_at_once():
    lines = ["name: a", f"a0: &a0 [{', '.join(['x'] * 9)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    start = time.monotonic()
    error = refusal("\n".join(lines))
    assert time.monotonic() - start < 1
    assert error.line == 3
    assert "the alias *a0 is not allowed here; write the value out" in error.message


def test_refuses_a_value_that_holds_itself():
    assert "alias" in refusal("name: a\nextra: &e\n  again: *e\n").message


def test_refuses_merge_keys():
    error = refusal("name: a\n<<: {name: b}\n")
    assert error.line == 2
    assert "merge key" in error.message


@pytest.mark.parametrize("opening", ["[", "{", "{a: "])
def test_refuses_bottomless_nesting_in_one_sentence(opening: str):
    assert "nested too deeply" in refusal("name: a\nextra: " + opening * 20_000).message


def test_reads_a_file_with_byte_order_mark_and_windows_line_ends(tmp_path: Path):
    file = tmp_path / "thing.yaml"
    file.write_bytes(b"\xef\xbb\xbfname: caf\xc3\xa9\r\nnumbers:\r\n- 4\r\n")
    assert yamlfile.read(file, Thing) == Thing(name="caf\u00e9", numbers=[4])


def test_refuses_what_is_not_utf8_with_the_line(tmp_path: Path):
    file = tmp_path / "thing.yaml"
    file.write_bytes(b"name: a\nnote: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"thing\.yaml:2: not valid UTF-8"):
        yamlfile.read(file, Thing)


def test_refuses_a_missing_file(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: the file is missing"):
        yamlfile.read(tmp_path / "nowhere.yaml", Thing)


def test_refuses_a_folder(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        yamlfile.read(tmp_path, Thing)


def test_refuses_a_huge_file_without_reading_it(tmp_path: Path):
    file = tmp_path / "thing.yaml"
    with file.open("wb") as stream:
        stream.truncate(1 << 36)  # sparse: 64 GiB that nobody has
    start = time.monotonic()
    with pytest.raises(ConfigError, match=f"larger than {yamlfile.MAX_FILE_BYTES} bytes"):
        yamlfile.read(file, Thing)
    assert time.monotonic() - start < 1


def test_the_largest_file_accepted_is_read_in_seconds(tmp_path: Path):
    file = tmp_path / "thing.yaml"
    speaker = "a_speaker_name_of_usual_length"
    entries = yamlfile.MAX_FILE_BYTES // (len(speaker) + 8)
    file.write_text("name: a\nextra:\n  list:\n" + f"  - {speaker}\n" * entries, encoding="utf-8")
    start = time.monotonic()
    assert len(yamlfile.read(file, Thing).extra["list"]) == entries
    assert time.monotonic() - start < 20


def test_what_is_written_reads_back_equal(tmp_path: Path):
    shared = ["one", "two"]
    thing = Thing(
        name="caf\u00e9: #1 'quoted' \u4f60\u597d",
        parts={"b": Part(size=1), "a": Part(size=2, share=1e-7)},
        numbers=[3, 1, 2],
        extra={"first": shared, "second": shared, "text": "a\nb\n", "yes": "no", "0o7": None},
    )
    file = tmp_path / "thing.yaml"
    yamlfile.write(file, thing)
    assert yamlfile.read(file, Thing) == thing
    text = file.read_text(encoding="utf-8")
    assert "\u4f60\u597d" in text
    assert text.index("name:") < text.index("parts:") < text.index("numbers:")
    assert "note" not in text  # None is left out


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "thing.yaml"
    yamlfile.write(file, Thing(name="old"))

    def no_room(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="No space left"):
        yamlfile.write(file, Thing(name="new"))
    assert yamlfile.read(file, Thing).name == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_text_that_cannot_be_encoded_leaves_the_old_file(tmp_path: Path):
    file = tmp_path / "thing.yaml"
    yamlfile.write_text_atomically(file, "old")
    with pytest.raises(UnicodeEncodeError):
        yamlfile.write_text_atomically(file, "new \udcff")
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_written_file_may_be_read_by_others(tmp_path: Path):
    file = tmp_path / "thing.yaml"
    yamlfile.write(file, Thing(name="a"))
    assert file.stat().st_mode & 0o777 == 0o644


def test_values_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        Thing(name="a").name = "b"
