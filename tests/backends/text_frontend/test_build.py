"""A Mandarin stage version from its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pypinyin")
pytest.importorskip("wetext")

from text_backend.build import build_front_end
from text_backend.explain import explain

from tests.text.voices import mandarin_symbols
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import FileEntry, TextFrontendOptions, TextFrontendStage, sha256_of, write_stage


def version_of(folder: Path, files: dict[str, str] | None = None, **options: Any) -> Path:
    table = {symbol: [number] for number, symbol in enumerate(mandarin_symbols())}
    inventory = {"phonemes": table, "bos": "sil", "eos": ["sil", "eos"], "pad": ""}
    contents = {"inventory": json.dumps(inventory), **(files or {})}
    entries = {}
    for name, content in contents.items():
        file = folder / (f"{name}.json" if name == "inventory" else f"{name}.tsv")
        file.write_bytes(content.encode("utf-8"))
        entries[name] = FileEntry(file=file.name, sha256=sha256_of(file))
    values = {"language": "zh-CN", "phonemizer": "pinyin", "speakers": ["reader"], **options}
    stage = TextFrontendStage(
        program="text_frontend",
        stage="text_frontend",
        files=entries,
        options=TextFrontendOptions.model_validate(values),
    )
    write_stage(folder, stage)
    return folder


def steps_of(folder: Path, text: str) -> dict[str, str]:
    steps, _ = explain(build_front_end(folder).front_end, text)
    return {step.name: step.text for step in steps}


def test_a_mandarin_version_needs_no_process(tmp_path):
    built = build_front_end(version_of(tmp_path))
    assert built.phonemizer is None
    assert built.description == "Mandarin, pinyin, 1 speakers"
    assert built.front_end.run("你好", 1.0, "").segment_lengths.tolist() == [8]
    built.close()


def test_lexicon_and_rules_of_the_version_hold(tmp_path):
    version_of(tmp_path, {"lexicon": "\ufeff和\the2\r\n", "rules": "\ufeff# own\r\nkpi\t考核指标\tnocase\r\n"})
    assert steps_of(tmp_path, "KPI")["sentence"] == "考核指标"
    version_of(tmp_path, {"lexicon": "行长\thang2 chang2\r\n"})
    assert steps_of(tmp_path, "行长")["pinyin"] == "hang2 chang2"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"lexicon": "好\thao9\n"}, r"lexicon\.tsv:1: 好: 'hao9' is no pinyin syllable"),
        ({"rules": "\na b\n"}, r"rules\.tsv:2: needs a tab"),
        ({"substitutes": "x\n"}, r"substitutes\.tsv:1: needs a symbol"),
    ],
)
def test_a_mistake_in_a_file_is_named_at_load(tmp_path, files, message):
    with pytest.raises(ConfigError, match=message):
        build_front_end(version_of(tmp_path, files))


def test_pinyin_reads_mandarin_only(tmp_path):
    with pytest.raises(ConfigError, match="pinyin reads Mandarin only, the language is 'en-US'"):
        build_front_end(version_of(tmp_path, language="en-US"))


def test_espeak_needs_the_name_of_an_accent(tmp_path):
    with pytest.raises(ValueError, match="phonemizer_voice must be given"):
        version_of(tmp_path, phonemizer="espeak")


def test_names_of_emoji_need_their_package(tmp_path, monkeypatch):
    version_of(tmp_path, emoji="name")
    build_front_end(tmp_path).close()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"stage.yaml.*options.emoji.*voxrepo\[emoji\]"):
        build_front_end(tmp_path)
