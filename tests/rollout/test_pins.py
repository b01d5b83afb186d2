from __future__ import annotations

from pathlib import Path

import pytest

from tests.rollout.world import NEW, OLD, VOICE, VOICE_YAML, World
from voxrepo.repository.voice import VoiceSpec
from voxrepo.rollout.pins import pin_versions, with_versions
from voxrepo_contract import yamlfile
from voxrepo_contract.errors import ConfigError


def test_only_the_versions_change() -> None:
    changed = with_versions(VOICE_YAML, {"text_frontend": 12, "acoustic": 3, "vocoder": 456})
    assert yamlfile.parse(changed, VoiceSpec, Path("voice.yaml")).versions == {
        "text_frontend": 12,
        "acoustic": 3,
        "vocoder": 456,
    }
    assert changed.replace("456", "1").replace("12", "1").replace("version: 3 ", "version: 1 ") == VOICE_YAML


@pytest.mark.parametrize("text", [VOICE_YAML, yamlfile.dump(yamlfile.parse(VOICE_YAML, VoiceSpec, Path("v")))])
def test_every_way_of_writing_it_is_understood(text: str) -> None:
    text = "# Stimme für Grüße 🙂\n" + text
    assert yamlfile.parse(with_versions(text, NEW), VoiceSpec, Path("v")).versions == NEW


def test_pinning_again_does_nothing_and_keeps_what_was_before(tmp_path: Path) -> None:
    world = World(tmp_path / "root", servers=0)
    assert pin_versions(world.layout, VOICE, NEW)
    previous = world.voice_file.with_name("voice.yaml.previous")
    assert previous.read_text(encoding="utf-8") == VOICE_YAML
    assert not pin_versions(world.layout, VOICE, NEW)
    assert previous.read_text(encoding="utf-8") == VOICE_YAML
    assert pin_versions(world.layout, VOICE, OLD)
    assert world.voice_file.read_text(encoding="utf-8") == VOICE_YAML


def test_a_damaged_file_is_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path / "root", servers=0)
    world.voice_file.write_text("voice: [", encoding="utf-8")
    with pytest.raises(ConfigError, match="not valid YAML"):
        pin_versions(world.layout, VOICE, NEW)
    assert world.voice_file.read_text(encoding="utf-8") == "voice: ["
