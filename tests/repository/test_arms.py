"""Arms on disk, and what their versions must have in common with the voice's."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.harness import edit_yaml
from voxrepo.repository.arms import (
    ArmSpec,
    arms_on_disk,
    check_arm,
    prepare_arm,
    remove_arm,
    remove_left_arms,
)
from voxrepo.repository.check import CheckedVoice, check_voice, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_configs, publish_voice
from voxrepo_contract.errors import ConfigError, InvalidArgument

from .tiny import make_voice, write_stages

SECOND = {"text_frontend": 1, "acoustic": 1, "vocoder": 2}


@pytest.fixture
def voice(layout: Layout) -> CheckedVoice:
    """A voice whose stages all have two versions; it pins the first."""
    make_voice(layout)
    write_stages(layout, "tiny", version=2)
    return check_voice(layout, "tiny")


def config(file: Path) -> ModelConfig:
    return text_format.Parse(file.read_text(encoding="utf-8"), ModelConfig())


def stage_versions(layout: Layout, stage: str) -> list[int]:
    return list(config(layout.model_repository / f"tiny.{stage}" / "config.pbtxt").version_policy.specific.versions)


def edit_interface(layout: Layout, stage: str, **values: object) -> None:
    file = layout.version_dir(f"tiny.{stage}", 2) / "stage.yaml"
    edit_yaml(file, **{f"interface__{key}": value for key, value in values.items()})


def test_an_arm_has_the_voices_versions_but_for_those_it_names(layout: Layout, voice: CheckedVoice):
    arm = check_arm(layout, voice, "new", {"vocoder": 2})
    assert arm.versions == SECOND
    assert arm.differing == ("vocoder",)
    assert arm.name == "tiny.new"
    assert arm.as_voice().spec.versions == SECOND
    assert arm.as_voice().spec.stages.vocoder.max_batch_size == voice.spec.stages.vocoder.max_batch_size


@pytest.mark.parametrize(
    ("stage", "field", "value", "message"),
    [
        ("vocoder", "sample_rate_hz", 22_050, r"sample_rate_hz: is 22050, but 16000 in version 1"),
        ("vocoder", "channels", 80, r"channels: is 80, but 8 in version 1"),
        ("acoustic", "hop_length_samples", 300, r"hop_length_samples: is 300, but 256 in version 1"),
        ("text_frontend", "speakers", 2, r"speakers: is 2, but 1 in version 1"),
        (
            "vocoder",
            "feature_kind",
            "mel80",
            r"acoustic version 1 has feature_kind 'vits_latent' and vocoder",
        ),
        (
            "acoustic",
            "inventory_sha256",
            "1" * 64,
            r"text_frontend version 1 has inventory_sha256 '000.* 2 has",
        ),
    ],
)
def test_a_version_that_does_not_fit_is_refused_with_both_values(
    layout: Layout, voice: CheckedVoice, stage: str, field: str, value: object, message: str
):
    edit_interface(layout, stage, **{field: value})
    with pytest.raises(ConfigError, match=message):
        check_arm(layout, voice, "new", {stage: 2})


def test_versions_that_fit_each_other_may_differ_from_the_voices_together(layout: Layout, voice: CheckedVoice):
    for stage in ("acoustic", "vocoder"):
        edit_interface(layout, stage, feature_kind="vits_hidden")
    assert check_arm(layout, voice, "new", {"acoustic": 2, "vocoder": 2}).differing == ("acoustic", "vocoder")


def test_a_missing_version_is_refused(layout: Layout, voice: CheckedVoice):
    with pytest.raises(ConfigError, match=r"tiny.vocoder/7: the version directory is missing"):
        check_arm(layout, voice, "new", {"vocoder": 7})


def test_a_damaged_version_is_refused(layout: Layout, voice: CheckedVoice):
    (layout.version_dir("tiny.vocoder", 2) / "generator.onnx").write_bytes(b"damaged")
    with pytest.raises(ConfigError, match=r"generator.onnx: sha256 is"):
        check_arm(layout, voice, "new", {"vocoder": 2})


def test_a_stage_that_no_voice_has_is_refused(layout: Layout, voice: CheckedVoice):
    with pytest.raises(InvalidArgument, match="'vocodr' is no stage of a voice; there are text_frontend, acoustic"):
        check_arm(layout, voice, "new", {"vocodr": 2})


@pytest.mark.parametrize("name", ["canary", "stream", "vocoder", "", "a b", "../x", "x" * 130])
def test_a_name_that_means_something_else_is_refused(layout: Layout, voice: CheckedVoice, name: str):
    with pytest.raises(InvalidArgument, match="cannot name an arm"):
        check_arm(layout, voice, name, {})


@pytest.mark.parametrize("name", ["previous", "stable"])
def test_servers_may_load_what_is_or_was_stable_as_an_arm(layout: Layout, voice: CheckedVoice, name: str):
    assert check_arm(layout, voice, name, {}).differing == ()


@pytest.mark.parametrize("folder", ["ensembles/tiny.new", "model_repository/tiny.new", "ensembles/tiny.new.stream"])
def test_a_model_with_the_name_of_an_arm_is_not_touched(layout: Layout, voice: CheckedVoice, folder: str):
    (layout.root / folder).mkdir()
    with pytest.raises(ConfigError, match=r"is in the way of the arm 'new' of tiny"):
        check_arm(layout, voice, "new", {})


def test_only_the_stages_that_differ_get_another_configuration(layout: Layout, voice: CheckedVoice):
    publish_configs(layout, voice, cores=2)
    published = publish_voice(layout, voice, {"new": SECOND}, cores=2)
    assert set(published.written) == {
        layout.model_repository / "tiny.vocoder" / "config.pbtxt",
        layout.ensembles / "tiny.new" / "config.pbtxt",
    }
    assert stage_versions(layout, "vocoder") == [1, 2]
    assert stage_versions(layout, "acoustic") == [1]
    assert publish_voice(layout, voice, {"new": SECOND}, cores=2).written == ()


def test_an_arm_changes_nothing_of_a_stage_but_its_versions(layout: Layout, voice: CheckedVoice):
    publish_configs(layout, voice, cores=2)
    before = config(layout.model_repository / "tiny.vocoder" / "config.pbtxt")
    publish_voice(layout, voice, {"new": SECOND}, cores=2)
    after = config(layout.model_repository / "tiny.vocoder" / "config.pbtxt")
    before.ClearField("version_policy")
    after.ClearField("version_policy")
    assert before == after


def test_an_arms_ensemble_pins_its_versions_and_is_otherwise_the_voices(layout: Layout, voice: CheckedVoice):
    publish_voice(layout, voice, {"new": SECOND}, cores=2)
    arm, stable = (config(layout.ensembles / name / "config.pbtxt") for name in ("tiny.new", "tiny"))
    steps = {step.model_name: step.model_version for step in arm.ensemble_scheduling.step}
    assert steps == {"tiny.text_frontend": 1, "tiny.acoustic": 1, "tiny.vocoder": 2}
    assert arm.name == "tiny.new"
    arm.name = stable.name
    arm.ensemble_scheduling.step[2].model_version = 1
    assert arm == stable
    assert list((layout.ensembles / "tiny.new" / "1").iterdir()) == []


def test_an_arm_that_is_left_out_is_removed_and_others_stay(layout: Layout, voice: CheckedVoice):
    make_voice(layout, "other")
    other = check_voice(layout, "other")
    publish_voice(layout, voice, {"a": SECOND, "b": SECOND}, cores=2)
    publish_voice(layout, other, {"a": other.spec.versions}, cores=2)
    published = publish_voice(layout, voice, {"b": SECOND}, cores=2)
    assert published.removed == (layout.ensembles / "tiny.a",)
    assert {(spec.voice, spec.arm) for spec in arms_on_disk(layout)} == {("tiny", "b"), ("other", "a")}
    publish_voice(layout, voice, {}, cores=2)
    assert stage_versions(layout, "vocoder") == [1]


def test_versions_that_requests_still_use_are_kept(layout: Layout, voice: CheckedVoice):
    publish_voice(layout, voice, {}, cores=2, keep={"acoustic": [2]})
    assert stage_versions(layout, "acoustic") == [1, 2]


def test_arms_are_no_models_of_their_own(layout: Layout, voice: CheckedVoice):
    publish_voice(layout, voice, {"new": SECOND}, cores=2)
    inventory = take_inventory(layout)
    assert set(inventory.voices) == {"tiny"}
    assert inventory.models == {}
    assert inventory.problems == []


def test_what_a_killed_server_left_is_removed_at_the_start(layout: Layout, voice: CheckedVoice):
    publish_voice(layout, voice, {"new": SECOND}, cores=2)
    (layout.ensembles / "tiny.new" / "arm.yaml").write_text("{half of", encoding="utf-8")
    (layout.ensembles / ".arm-1-x" / "1").mkdir(parents=True)
    assert take_inventory(layout).problems == []
    assert remove_left_arms(layout) == [layout.ensembles / "tiny.new"]
    assert {entry.name for entry in layout.ensembles.iterdir()} == {"tiny"}


def test_an_arm_appears_with_its_marker_or_not_at_all(
    layout: Layout, voice: CheckedVoice, monkeypatch: pytest.MonkeyPatch
):
    def no_room(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "rename", no_room)
    with pytest.raises(ConfigError, match="cannot be written"):
        publish_voice(layout, voice, {"new": SECOND}, cores=2)
    assert {entry.name for entry in layout.ensembles.iterdir()} == {"tiny"}


def test_an_arm_gets_other_versions_in_place(layout: Layout, voice: CheckedVoice):
    prepare_arm(layout, ArmSpec(voice="tiny", arm="new", versions=SECOND), "1")
    other = {**SECOND, "acoustic": 2}
    prepare_arm(layout, ArmSpec(voice="tiny", arm="new", versions=other), "1")
    assert [spec.versions for spec in arms_on_disk(layout)] == [other]
    remove_arm(layout, "tiny", "new")
    assert arms_on_disk(layout) == []
