from __future__ import annotations

import unicodedata

import pytest
from text_backend.g2p.base import Symbols
from text_backend.inventory import UnknownSymbols, parse_inventory
from text_backend.splitting import Cut
from text_backend.substitutes import Substitutes, read_table, standard_table

from voxrepo_contract.errors import ConfigError


def voice(*symbols: str):
    return parse_inventory({"phonemes": {s: [n] for n, s in enumerate(symbols)}, "bos": "^", "eos": "^", "pad": ""})


def said(symbols: list[str], *has: str, own=None) -> list[str]:
    sentence = Symbols(symbols, [Cut.WORD] * len(symbols), [(n, n + 1) for n in range(len(symbols))])
    done, _ = Substitutes(voice("^", *has), own).apply(sentence)
    assert len(done.symbols) == len(done.cuts) == len(done.spans)
    return done.symbols


def test_what_the_voice_has_stays():
    assert said(["a", "b"], "a", "b") == ["a", "b"]


def test_the_first_alternative_that_the_voice_has_is_said():
    assert said(["\u0283"], "s") == ["s"]
    assert said(["\u0283"], "s", "\u0255") == ["\u0255"]


def test_one_symbol_may_become_several():
    assert said(["\u02a7"], "t", "\u0283") == ["t", "\u0283"]


def test_an_alternative_may_itself_be_replaced():
    assert said(["\u02a7"], "t", "s") == ["t", "s"]


def test_marks_without_a_sound_may_go():
    assert said(["\u02c8", "a", "\u02d0"], "a") == ["a"]
    assert said(["a", "#3", "a"], "a", "#1") == ["a", "#1", "a"]


def test_a_final_is_said_in_another_tone_rather_than_not():
    assert said(["ueng3"], "ueng1") == ["ueng1"]


def test_the_own_table_goes_first():
    assert said(["\u0283"], "s", "x", own={"\u0283": [("x",)]}) == ["x"]


def test_a_sound_without_a_substitute_is_never_dropped():
    with pytest.raises(UnknownSymbols, match=r"U\+0283"):
        said(["\u0283"], "a")


def test_only_marks_may_become_nothing():
    # modifier letters and combining marks say how a sound is made; the glottal stops are hardly sounds in English
    for symbol, alternatives in standard_table().items():
        if () in alternatives:
            assert unicodedata.category(symbol[0]) != "Ll" or symbol in ("\u0294", "\u0295"), symbol


def test_a_mistake_in_a_voices_own_table_is_named_with_its_line(tmp_path):
    file = tmp_path / "substitutes.tsv"
    file.write_bytes(b"\xef\xbb\xbf# own\r\nq\tk | c\r\nx\r\n")
    with pytest.raises(ConfigError, match=r"substitutes\.tsv:3: needs a symbol"):
        read_table(file)
    file.write_bytes(b"q\tk | c\r\n")
    assert read_table(file) == {"q": [("k",), ("c",)]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a\tb\na\tc\n", ":2: a: is given in line 1 already"),
        (b"a\tb\n\xd6\xd8\tc\n", ":2: not valid UTF-8"),
        (b"# x\n" * 100_000, "the limit is 262144"),
    ],
)
def test_refuses_tables_that_contradict_themselves_or_cannot_be_read(tmp_path, content, reason):
    file = tmp_path / "substitutes.tsv"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        read_table(file)


def test_refuses_a_table_of_a_voice_that_names_symbols_the_voice_cannot_say(tmp_path):
    inventory = parse_inventory(
        {"phonemes": {"^": [1], "$": [2], "_": [0], "k": [3]}, "bos": "^", "eos": "$", "pad": "_"}
    )
    file = tmp_path / "substitutes.tsv"
    file.write_bytes("# own\nq\tk\nb\tk | \u2603\n".encode())
    with pytest.raises(ConfigError, match=r"substitutes\.tsv:3: b: the voice has no symbol '\u2603'"):
        Substitutes(inventory, read_table(file)).check_own(file)
    file.write_bytes(b"q\tk\nx\tq k | -\n")
    Substitutes(inventory, read_table(file)).check_own(file)
