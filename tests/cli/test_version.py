from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.repository.tiny import make_voice, write_stages
from voxrepo.cli.main import app
from voxrepo.repository.layout import Layout


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("COLUMNS", "250")
    layout = Layout.of(tmp_path / "root")
    make_voice(layout)
    write_stages(layout, "tiny", version=2)
    return layout


def run(layout: Layout, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["version", *arguments, "--root", str(layout.root)])


def test_list_shows_each_version_and_its_users(layout: Layout):
    result = run(layout, "list", "tiny.vocoder", "--json")
    assert result.exit_code == 0
    assert [(entry["version"], entry["used_by"]) for entry in json.loads(result.stdout)] == [
        (1, ["voice.yaml"]),
        (2, []),
    ]
    shown = run(layout, "list").stdout
    assert all(f"tiny.{stage}" in shown for stage in ("text_frontend", "acoustic", "vocoder"))


def test_show_prints_the_stage_and_who_uses_it(layout: Layout):
    result = run(layout, "show", "tiny.vocoder@1")
    assert "used by: voice.yaml" in result.stdout
    assert "program: windowed" in result.stdout
    assert json.loads(run(layout, "show", "tiny.vocoder@1", "--json").stdout)["stage_yaml"]["program"] == "windowed"


def test_diff_takes_a_bare_number_for_the_other_side(layout: Layout):
    assert "they are equal" in run(layout, "diff", "tiny.vocoder@1", "2").stderr
    refused = run(layout, "diff", "tiny.vocoder@1", "tiny.acoustic@1")
    assert refused.exit_code == 1
    assert "are different stages" in refused.stderr


def test_remove_takes_what_is_free_and_refuses_what_is_used(layout: Layout):
    assert run(layout, "remove", "tiny.vocoder@2").exit_code == 0
    refused = run(layout, "remove", "tiny.vocoder@1")
    assert refused.exit_code == 1
    assert "is in use (voice.yaml)" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "nobody"), "there is no voice"),
        (("list", "tiny.vocoder@1"), "`voxrepo version show tiny.vocoder@1` shows it"),
        (("show", "tiny.vocoder@9"), "tiny.vocoder has no version 9; there are: 1, 2"),
        (("show", "tiny"), "name a version of a stage"),
        (("add", "tiny.vocoder", "absent.onnx", "--no-smoke"), "there is no such file or folder"),
        (("add", "tiny.vocoder@1", "x.onnx"), "name a stage without a version"),
        (("add", "tiny.vocoder", "x.onnx", "--no-smoke", "--transcribe"), "--no-smoke that it is not"),
        (("add", "tiny.vocoder", "x.onnx", "--texts", "absent.txt"), "absent.txt: cannot be read"),
        (("add", "tiny.vocoder", "x.onnx", "--no-smoke", "--with", "x"), "as stage=version"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(layout: Layout, arguments: tuple[str, ...], message: str):
    result = run(layout, *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
