"""``voxrepo say --explain``, with the real voice and no server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import VOICE, clone_root, edit_yaml, voxrepo
from voxrepo_contract.stage import sha256_of


def explain(root: Path, text: str, *arguments: str) -> dict[str, object]:
    result = voxrepo("say", text, "--explain", "--voice", VOICE, "--root", str(root), "--json", *arguments)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    answer: dict[str, object] = json.loads(result.stdout)
    return answer


def test_tells_each_step_and_what_is_left_out(voice_root: Path) -> None:
    answer = explain(voice_root, "It costs $5 😀.")
    assert answer["voice"] == VOICE and answer["dropped"] == {"emoji": 1}
    steps = [(step["name"], step["text"]) for step in answer["steps"]]  # type: ignore[attr-defined]
    assert steps[0] == ("input", "It costs $5 😀.")
    assert ("money", "It costs five dollars .") in steps
    assert ("dropped", "1 emoji") in steps
    assert [name for name, _ in steps].index("phonemes") < [name for name, _ in steps].index("ids")


def test_without_normalisation_no_rule_is_applied(voice_root: Path) -> None:
    answer = explain(voice_root, "It costs $5.", "--no-normalise")
    assert "money" not in {step["name"] for step in answer["steps"]}  # type: ignore[attr-defined]


def test_prints_a_table_and_takes_the_only_voice(voice_root: Path) -> None:
    result = voxrepo("say", "It costs [b]$5[/b].", "--explain", "--root", str(voice_root))
    assert result.returncode == 0, result.stderr
    assert "phonemes" in result.stdout and "It costs [b]$5[/b]." in result.stdout


def test_what_the_voice_cannot_read_is_told_in_a_sentence(voice_root: Path) -> None:
    result = voxrepo("say", "你好", "--explain", "--root", str(voice_root))
    assert result.returncode == 1
    assert "this English voice has no reading for the letters '你好'" in result.stderr


def test_a_refused_text_shows_the_steps_up_to_the_refusal(voice_root: Path) -> None:
    result = voxrepo("say", "\u3000你好！", "--explain", "--root", str(voice_root), "--json")
    answer = json.loads(result.stdout)
    assert result.returncode == 1
    names = [step["name"] for step in answer["steps"]]
    assert names[0] == "input" and names[-1] == "refused" and "unicode" in names
    assert answer["refused"] in result.stderr.replace("\n", " ")


def test_errors_of_the_lexicon_name_file_and_line(voice_root: Path, tmp_path: Path) -> None:
    root = clone_root(voice_root, tmp_path / "root")
    version = root / "model_repository" / f"{VOICE}.text_frontend" / "1"
    (version / "words.tsv").write_bytes("\ufeff# words\r\nvoxrepo v\r\n".encode())
    entry = {"file": "words.tsv", "sha256": sha256_of(version / "words.tsv")}
    edit_yaml(version / "stage.yaml", files__lexicon=entry)
    result = voxrepo("say", "Hi.", "--explain", "--root", str(root))
    assert result.returncode == 1
    assert "words.tsv" in result.stderr and "line 2" in result.stderr.replace(":2:", " line 2"), result.stderr
    assert "needs a tab" in result.stderr


@pytest.mark.parametrize("arguments", [("-o", "a.wav"), ("--format", "mp3")])
def test_options_for_audio_do_not_go_with_it(voice_root: Path, arguments: tuple[str, str]) -> None:
    result = voxrepo("say", "Hi.", "--explain", "--root", str(voice_root), *arguments)
    assert result.returncode == 2
    assert f"leave {arguments[0]} out" in result.stderr


def test_a_root_without_a_voice_is_refused(tmp_path: Path) -> None:
    result = voxrepo("say", "Hi.", "--explain", "--root", str(tmp_path))
    assert result.returncode == 1
    assert "there is no voice" in result.stderr
