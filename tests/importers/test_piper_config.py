from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from voxrepo.importers.piper_config import default_phonemizer, language_tag, read_config
from voxrepo_contract.errors import ConfigError

SMALLEST: dict[str, Any] = {
    "audio": {"sample_rate": 16000},
    "espeak": {"voice": "de"},
    "num_speakers": 1,
    "phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": [3], "ç": [4, 5]},
}


def write(folder: Path, **changes: Any) -> Path:
    file = folder / "voice.onnx.json"
    data = {key: value for key, value in {**SMALLEST, **changes}.items() if value is not None}
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def test_an_old_configuration_gets_pipers_own_defaults(tmp_path: Path):
    config = read_config(write(tmp_path))
    assert (config.inference.noise_scale, config.inference.length_scale, config.inference.noise_w) == (0.667, 1.0, 0.8)
    assert config.phoneme_type == "espeak"
    assert config.speakers() == ["default"]


def test_the_inventory_is_canonical(tmp_path: Path):
    first = read_config(write(tmp_path)).inventory()
    shuffled = dict(reversed(list(SMALLEST["phoneme_id_map"].items())))
    assert read_config(write(tmp_path, phoneme_id_map=shuffled)).inventory() == first
    assert first == ('{"bos":"^","eos":"$","pad":"_","phonemes":{"$":[2],"^":[1],"_":[0],"a":[3],"ç":[4,5]}}\n')


def test_speakers_come_in_the_order_of_their_ids(tmp_path: Path):
    config = read_config(write(tmp_path, num_speakers=3, speaker_id_map={"z": 0, "a": 2}))
    assert config.speakers() == ["z", "1", "a"]


@pytest.mark.parametrize(
    ("code", "given", "tag"),
    [("en_US", None, "en-US"), ("de", None, "de"), ("en_US", "pt-br", "pt-BR"), ("es_419", None, "es-419")],
)
def test_the_language_is_a_bcp_47_tag(tmp_path: Path, code: str, given: str | None, tag: str):
    file = write(tmp_path, language={"code": code})
    assert language_tag(read_config(file), given, file) == tag


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"phoneme_id_map": None}, "phoneme_id_map: required key is missing"),
        ({"phoneme_id_map": {"_": [0], "^": [1], "a": [3]}}, r"the symbol '\$' \(end of sentence\) is missing"),
        ({"phoneme_id_map": {"_": [0], "^": [1], "$": [2]}}, "no phoneme besides the control symbols"),
        ({"phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": [-1]}}, "phoneme_id_map.a.0"),
        ({"phoneme_type": "text"}, "phoneme_type is 'text'; only voices trained on espeak phonemes"),
        ({"audio": {"sample_rate": "loud"}}, "audio.sample_rate"),
        ({"inference": {"noise_scale": 9}}, "inference.noise_scale"),
        ({"inference": {"length_scale": 0}}, "inference.length_scale"),
        ({"num_speakers": 0}, "num_speakers"),
        ({"num_speakers": 2, "speaker_id_map": {"a": 5}}, "'a' has the id 5, but num_speakers is 2"),
        ({"num_speakers": 2, "speaker_id_map": {"a": 1, "b": 1}}, "'a' and 'b' have the same id 1"),
        ({"num_speakers": 2, "speaker_id_map": {"1": 0}}, "also the number of a speaker"),
        ({"default_speaker_id": 1}, "default_speaker_id is 1"),
        ({"vowel_clusters": [["a", "i"]]}, "vowel_clusters"),
    ],
)
def test_refuses_a_wrong_configuration_and_names_the_key(tmp_path: Path, changes: dict[str, Any], says: str):
    file = write(tmp_path, **changes)
    with pytest.raises(ConfigError, match=says) as refusal:
        read_config(file)
    assert refusal.value.file == file


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"{\n nonsense", "not valid JSON"), (b"\xff\xfe", "not valid JSON"), (b"[1, 2]", "must hold a JSON object")],
)
def test_refuses_a_file_that_is_not_json(tmp_path: Path, content: bytes, says: str):
    file = tmp_path / "voice.onnx.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        read_config(file)


def test_refuses_a_missing_file(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"the file is missing; a Piper voice needs its \.onnx\.json"):
        read_config(tmp_path / "voice.onnx.json")


@pytest.mark.parametrize(("code", "given"), [(None, None), ("en-us-x-funny", None), ("en", "English")])
def test_refuses_a_voice_whose_language_is_not_known(tmp_path: Path, code: str | None, given: str | None):
    file = write(tmp_path, language=None if code is None else {"code": code})
    with pytest.raises(ConfigError, match=r"language.*en-US"):
        language_tag(read_config(file), given, file)


@pytest.mark.parametrize(
    ("espeak_voice", "tag", "phonemizer"),
    [
        ("en-us", "en-US", "cmudict"),
        ("en-us", "en", "cmudict"),
        ("en-gb", "en-GB", "espeak"),
        ("en-us", "de-DE", "espeak"),
        ("de", "de-DE", "espeak"),
    ],
)
def test_american_english_is_read_without_espeak(tmp_path: Path, espeak_voice: str, tag: str, phonemizer: str):
    config = read_config(write(tmp_path, espeak={"voice": espeak_voice}))
    assert default_phonemizer(config, tag) == phonemizer


def test_a_voice_that_needs_espeak_says_so_where_it_is_missing(monkeypatch: pytest.MonkeyPatch):
    from voxrepo.importers.piper_stages import phonemizer_notes

    assert phonemizer_notes("espeak") == ()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (note,) = phonemizer_notes("espeak")
    assert "GPL-3.0" in note and "voxrepo[espeak]" in note
    assert phonemizer_notes("cmudict") == ()
