from __future__ import annotations

import pytest

from voxrepo.versions.names import Ref, StageRef, parse_pins, parse_ref, parse_stage, parse_version
from voxrepo_contract.errors import InvalidArgument, NotFound

VOICES = ["en-joe", "en-joe.v2"]


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("en-joe", Ref("en-joe")),
        ("en-joe.vocoder", Ref("en-joe", "vocoder")),
        ("en-joe.vocoder@12", Ref("en-joe", "vocoder", 12)),
        ("en-joe.v2", Ref("en-joe.v2")),
        ("en-joe.v2.acoustic@1", Ref("en-joe.v2", "acoustic", 1)),
    ],
)
def test_names_are_taken_apart_also_with_dots_in_them(text: str, ref: Ref):
    assert parse_ref(text, VOICES) == ref


@pytest.mark.parametrize("text", ["", "en-joe.vocoder@0", "en-joe.vocoder@01", "en-joe.vocoder@", "a b", "en-joe@1"])
def test_another_form_is_refused(text: str):
    with pytest.raises(InvalidArgument):
        parse_ref(text, VOICES)


def test_what_is_not_there_is_said_with_what_is():
    with pytest.raises(NotFound, match=r"there is no voice 'fr-eve' here; there are: en-joe, en-joe\.v2"):
        parse_ref("fr-eve.vocoder", VOICES)
    with pytest.raises(NotFound, match=r"'vocodr' is no stage of a voice; there are text_frontend, acoustic, vocoder"):
        parse_ref("en-joe.vocodr", VOICES)


def test_a_stage_is_named_without_a_version_and_a_version_with_one():
    assert parse_stage("en-joe.vocoder", VOICES) == StageRef("en-joe", "vocoder")
    assert parse_version("en-joe.vocoder@3", VOICES) == (StageRef("en-joe", "vocoder"), 3)
    for text in ("en-joe", "en-joe.vocoder@3"):
        with pytest.raises(InvalidArgument, match=r"name a stage without a version, such as en-joe\.vocoder"):
            parse_stage(text, VOICES)
    for text in ("en-joe", "en-joe.vocoder"):
        with pytest.raises(InvalidArgument, match=r"name a version of a stage, such as en-joe\.vocoder@1"):
            parse_version(text, VOICES)


def test_pins_name_each_stage_once():
    assert parse_pins(["acoustic=2", "vocoder=3"]) == {"acoustic": 2, "vocoder": 3}
    for pins in (["acoustic"], ["acoustic=x"], ["speaker=1"], ["acoustic=1", "acoustic=2"]):
        with pytest.raises(InvalidArgument, match="write each stage once, as stage=version"):
            parse_pins(pins)
