from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrepo_contract.names import VOICE_STAGES, is_model_name, is_version_name, stage_model_name

GOOD_NAMES = ["a", "en-joe", "en-joe.acoustic", "_x", "0", "A.B-c_d", "x" * 128, "en-joe.stream", "a..b", "a--b"]
BAD_NAMES = [
    "",
    ".",
    "..",
    ".hidden",
    "-rf",
    "--help",
    "x" * 129,
    "a b",
    "a\tb",
    "a\n",
    "\na",
    "a/b",
    "../a",
    "a\\b",
    "a;reboot",
    "a$(reboot)",
    "a`reboot`",
    "a|b",
    "a&b",
    "a>b",
    "a<b",
    "a*",
    "a?",
    "[a]",
    "{a}",
    "~a",
    "!a",
    "#a",
    "a'b",
    'a"b',
    "a%s",
    "a=b",
    "a,b",
    "a:b",
    "a@b",
    "a+b",
    "a\x00",
    "a\x1b[31m",
    "caf\u00e9",
    "\uff41",  # fullwidth a
    "a\u200b",  # zero width space
    "\u0430",  # Cyrillic a
    "a\udcff",  # a byte that was not UTF-8
]
GOOD_VERSIONS = ["1", "2", "10", "999999999"]
BAD_VERSIONS = [
    "",
    "0",
    "00",
    "02",
    "2.0",
    "2.bak",
    "-3",
    "+3",
    " 3",
    "3 ",
    "3\n",
    "1e3",
    "0x1",
    "1_000",
    "1000000000",
    "9" * 19,
    "\uff12",  # fullwidth 2
    "\u0662",  # Arabic-Indic 2
    "\u00b2",  # superscript 2
    "v2",
    "latest",
]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_accepts_plain_model_names(name: str):
    assert is_model_name(name)


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_refuses_model_names_that_a_shell_or_a_log_would_misread(name: str):
    assert not is_model_name(name)


@pytest.mark.parametrize("name", GOOD_VERSIONS)
def test_accepts_plain_version_numbers(name: str):
    assert is_version_name(name)


@pytest.mark.parametrize("name", BAD_VERSIONS, ids=ascii)
def test_refuses_versions_that_the_engine_would_misread(name: str):
    assert not is_version_name(name)


@given(st.text(max_size=40))
def test_an_accepted_name_is_plain_ascii_whatever_is_tried(name: str):
    if is_model_name(name):
        assert name.isascii()
        assert all(character.isalnum() or character in "_.-" for character in name)


@given(st.text(max_size=12))
def test_an_accepted_version_is_the_number_it_spells(name: str):
    if is_version_name(name):
        assert str(int(name)) == name


def test_stage_models_carry_the_voice_and_the_stage():
    assert [stage_model_name("en-joe", stage) for stage in VOICE_STAGES] == [
        "en-joe.text_frontend",
        "en-joe.acoustic",
        "en-joe.vocoder",
    ]
