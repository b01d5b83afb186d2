from __future__ import annotations

from typing import Any

import pytest

from tests.harness import edit_yaml
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice, write_voice
from voxrepo_contract.errors import ConfigError

from .tiny import voice_spec

MINIMAL = """\
voice: tiny
language: en-US
sample_rate_hz: 16000
speakers: [joe]
stages:
  text_frontend: {version: 1}
  acoustic: {version: 2}
  vocoder: {version: 3}
"""


def write(layout: Layout, text: str) -> None:
    file = layout.voice_file("tiny")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def refusal(layout: Layout) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_voice(layout, "tiny")
    return caught.value


def test_a_minimal_file_gets_the_documented_defaults(layout: Layout):
    write(layout, MINIMAL)
    spec = read_voice(layout, "tiny")
    assert spec.versions == {"text_frontend": 1, "acoustic": 2, "vocoder": 3}
    assert spec.limits.max_text_chars == 4096
    assert (spec.limits.speed_min, spec.limits.speed_max) == (0.25, 4.0)
    settings = spec.stages.vocoder
    assert (settings.instances, settings.threads, settings.unit_batch) == ("auto", "auto", "auto")
    assert settings.max_batch_size == 1
    assert spec.stage_models()["acoustic"] == "tiny.acoustic"


def test_what_is_written_reads_back_equal(layout: Layout):
    spec = voice_spec(speakers=["joe", "\u5c0f\u660e"])
    assert write_voice(layout, spec) == layout.voice_file("tiny")
    assert read_voice(layout, "tiny") == spec


@pytest.mark.parametrize(
    ("changes", "line", "says"),
    [
        ({"voice": "other"}, None, "voice: is 'other' in a folder named 'tiny'; make them equal"),
        ({"voice": "a b"}, 1, "voice: use letters, digits"),
        ({"voice": "../tiny"}, 1, "voice: use letters, digits"),
        ({"sample_rate_hz": 100}, 3, "sample_rate_hz: Input should be greater than or equal to 4000"),
        ({"sample_rate_hz": "16000"}, 3, "sample_rate_hz: Input should be a valid integer (got '16000')"),
        ({"speakers": []}, 4, "speakers: List should have at least 1 item"),
        ({"speakers": ["a", "b", "a"]}, 1, "speakers: every name may stand once"),
        ({"probe_text": ""}, None, "probe_text"),
        ({"probe_text": "x" * 201}, None, "probe_text"),
        ({"schema_version": 2}, None, "schema_version: Input should be 1"),
        ({"model": "x"}, None, "model: unknown key"),
        ({"limits": {"max_text_chars": 0}}, None, "limits.max_text_chars"),
        ({"limits": {"speed_min": 1.5}}, None, "limits.speed_min"),
        ({"limits": {"speed_min": 0.2}}, None, "limits.speed_min"),
        ({"limits": {"speed_max": 0.5}}, None, "limits.speed_max"),
        ({"limits": {"speed_max": 4.5}}, None, "limits.speed_max"),
        ({"stages__acoustic__version": 0}, None, "stages.acoustic.version"),
        ({"stages__acoustic__version": 1_000_000_000}, None, "stages.acoustic.version"),
        ({"stages__acoustic__version": "latest"}, None, "stages.acoustic.version"),
        ({"stages__acoustic__instances": 0}, None, "stages.acoustic.instances"),
        ({"stages__acoustic__instances": "many"}, None, "stages.acoustic.instances"),
        ({"stages__acoustic__max_batch_size": 0}, None, "stages.acoustic.max_batch_size"),
        ({"stages__acoustic__max_queue_size": 0}, None, "stages.acoustic.max_queue_size"),
        ({"stages__acoustic__queue_timeout_ms": -1}, None, "stages.acoustic.queue_timeout_ms"),
        ({"stages__acoustic__instance": 1}, None, "stages.acoustic.instance: unknown key"),
        ({"stages__encoder": {"version": 1}}, None, "stages.encoder: unknown key"),
    ],
)
def test_says_what_is_wrong(layout: Layout, changes: dict[str, Any], line: int | None, says: str):
    write(layout, MINIMAL)
    edit_yaml(layout.voice_file("tiny"), **changes)
    error = refusal(layout)
    assert error.file == layout.voice_file("tiny")
    assert says in error.message
    if line is not None:
        assert error.line == line


def test_names_the_line_of_a_mistake_deep_in_the_file(layout: Layout):
    write(layout, MINIMAL.replace("acoustic: {version: 2}", "acoustic:\n    version: 2\n    threads: none"))
    error = refusal(layout)
    assert error.line == 9
    assert "stages.acoustic.threads" in error.message


def test_a_missing_stage_is_named(layout: Layout):
    write(layout, MINIMAL.replace("  vocoder: {version: 3}\n", ""))
    error = refusal(layout)
    assert error.line == 5
    assert "stages.vocoder: required key is missing" in error.message


def test_a_missing_file_is_named(layout: Layout):
    assert "the file is missing" in refusal(layout).message
