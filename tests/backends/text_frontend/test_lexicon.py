from __future__ import annotations

import time
from typing import Any

import pytest
from text_backend.g2p.clauses import ClauseG2P
from text_backend.g2p.english import EnglishPhonemizer
from text_backend.g2p.mandarin import MandarinG2P
from text_backend.lexicon import Lexicon, read_lexicon, read_replacements
from text_backend.mapped import MappedText

from voxrepo_contract.errors import ConfigError


def lexicon_of(tmp_path, content: bytes | str) -> Lexicon:
    file = tmp_path / "lexicon.tsv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return read_lexicon(file, MandarinG2P().parse_pronunciation, lambda symbol: symbol != "ueng1")


def replaced(tmp_path, content: str, text: str) -> str:
    file = tmp_path / "rules.tsv"
    file.write_text(content, encoding="utf-8", newline="")
    return read_replacements(file).apply(MappedText.of(text)).text


def test_byte_order_mark_windows_line_ends_and_comments_are_taken_as_they_come(tmp_path):
    lexicon = lexicon_of(tmp_path, b"\xef\xbb\xbf# words\r\n\r\n\xe8\xa1\x8c\xe9\x95\xbf\thang2 zhang3\r\nC#\txi1\r\n")
    assert lexicon.pronunciations == (("h", "ang2", "#0", "zh", "ang3"), ("x", "i1"))


def test_a_word_is_one_character_while_text_is_worked_on(tmp_path):
    lexicon = lexicon_of(tmp_path, "重庆路\tchong2 qing4 lu4\n")
    text = lexicon.mark(MappedText.of("在重庆路上"))
    assert len(text.text) == 3
    assert text.span(1, 2) == (1, 4)
    assert lexicon.pronunciation_at(text.text[1]) == ("ch", "ong2", "#0", "q", "ing4", "#0", "l", "u4")
    assert lexicon.pronunciation_at("在") is None


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("行长 hang2 zhang3\n", 1, "needs a tab"),
        ("# x\n行长\thang2 zhang\n", 2, "'zhang' is no pinyin syllable"),
        ("a\t\n", 1, "is empty"),
        ("\tba1\n", 1, "'written' is empty"),
        ("好\thao3\n好\thao4\n", 2, "is given in line 1 already"),
        ("好\thao3\tloud\n", 1, "'loud' is unknown"),
        ("好\thao3\tnocase\tx\n", 1, "4 columns"),
        ("翁\tweng1\n", 1, "no symbol 'ueng1'"),
        ("好" * 65 + "\thao3\n", 1, "65 characters"),
        (b"a\tba1\n\xff\tba1\n", 2, "not valid UTF-8"),
        ("\U0001f600\thao3\n", 1, "holds only emoji"),
        ("\uff21\tba1\nA\tba1\n", 2, "is given in line 1 already"),
        ("Ab\tba1\tnocase\naB\tba1\tnocase\n", 2, "is given in line 1 already"),
        ("# words\ra\tba1\rb\tba1\r", 1, "holds a carriage return inside a line"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_reason(tmp_path, content, line, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        lexicon_of(tmp_path, content)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{tmp_path / 'lexicon.tsv'}:{line}: ")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"rules\.tsv: cannot be read"):
        read_replacements(tmp_path / "rules.tsv")


@pytest.mark.parametrize(
    ("rules", "text", "said"),
    [
        ("km\tkilometres\n", "5 km, kmart", "5 kilometres, kmart"),
        ("km\tkilometres\tanywhere\n", "kmart", "kilometresart"),
        ("sql\tsequel\tnocase\n", "SQL, Sql and sql", "sequel, sequel and sequel"),
        ("SQL\tsequel\n", "sql SQL", "sql sequel"),
        ("a\tb\naa b\tc\n", "aa b a", "c b"),
        ("a\tb\nb\tc\n", "a b", "b c"),
        ("微信\t薇信\n", "用微信支付", "用薇信支付"),
        ("C++\tC plus plus\n", "C++ and C", "C plus plus and C"),
    ],
)
def test_replaces_what_is_written(tmp_path, rules, text, said):
    assert replaced(tmp_path, rules, text) == said


def test_many_entries_on_a_long_text_take_linear_time(tmp_path):
    rules = "".join(f"a{'b' * (n % 60)}{n}\tx\n" for n in range(5000))
    started = time.process_time()
    replaced(tmp_path, rules, "ab" * 50_000)
    assert time.process_time() - started < 5.0


def test_an_entry_is_found_however_wide_it_was_written(tmp_path):
    file = tmp_path / "rules.tsv"
    file.write_text("\uff23\uff0b\uff0b\tC plus plus\n", encoding="utf-8")
    assert read_replacements(file).apply(MappedText.of("in C++")).text == "in C plus plus"


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Is it voxrepo?", "ɪz ɪt vˈɑk?"),
        ("voxrepo, hello there.", "vˈɑk, həlˈoʊ ðˈɛɹ."),
        ('Say "voxrepo"; now.', "sˈeɪ vˈɑk; nˈaʊ."),
        ("voxrepo voxrepo!", "vˈɑk vˈɑk!"),
    ],
)
def test_the_mark_behind_a_word_of_the_lexicon_is_kept(tmp_path, text, spoken):
    file = tmp_path / "lexicon.tsv"
    file.write_text("voxrepo\tvˈɑk\n", encoding="utf-8")
    phonemizer = EnglishPhonemizer()
    lexicon = read_lexicon(file, ClauseG2P(phonemizer).parse_pronunciation, lambda symbol: True)
    (symbols,) = ClauseG2P(phonemizer, lexicon).convert([lexicon.mark(MappedText.of(text))])
    assert "".join(symbols.symbols) == spoken
    assert len(symbols.cuts) == len(symbols.symbols)


def english_lexicon(tmp_path, content: str, **options: Any) -> Lexicon:
    file = tmp_path / "lexicon.tsv"
    file.write_text(content, encoding="utf-8")
    return read_lexicon(file, ClauseG2P(EnglishPhonemizer()).parse_pronunciation, lambda symbol: True, **options)


@pytest.mark.parametrize(
    ("pronunciation", "reason"),
    [
        (". , !", "has no sound"),
        ("ˈ", "has no sound"),
        ("ˈː", "has no sound"),
        ("f ^ u", "opens, closes or pads a segment"),
        ("f u # comment", "a comment has a line of its own"),
    ],
)
def test_refuses_a_pronunciation_that_says_nothing_or_holds_what_is_no_sound(tmp_path, pronunciation, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        english_lexicon(tmp_path, f"# words\nfoo\t{pronunciation}\n", is_frame=lambda symbol: symbol in "^$_")
    assert caught.value.line == 2


def test_an_entry_written_exactly_so_wins_over_one_for_any_case(tmp_path):
    lexicon = english_lexicon(tmp_path, "Foo\tf u\tnocase\nfoo\tb u\nFOO\tk u\n")
    assert [lexicon.pronunciation_at(c) for c in lexicon.mark(MappedText.of("Foo foo FOO fOO")).text.split()] == [
        ("f", "u"),
        ("b", "u"),
        ("k", "u"),
        ("f", "u"),
    ]


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Kubo's plan.", "kˈuboʊz plˈæn."),
        ("the Kubo\u2019s plan", "ðə kˈuboʊz plˈæn"),
        ("the Kubos", "ðə kˈuboʊz"),
        ("the Kubos' plan", "ðə kˈuboʊz plˈæn"),
        ("KUBO'S, KUBOS", "kˈuboʊz, kˈuboʊz"),
        ("Kubosx", "kəbˈɔsk"),
        ("the mop's", "ðə mˈɑps"),
        ("Rish's, Rish.", "ɹˈɪʃᵻz, ɹˈɪʃ."),
        ("mops", "mˈɑːps"),
    ],
)
def test_a_word_of_an_english_lexicon_has_endings(tmp_path, text, spoken):
    content = "Kubo\tkˈuboʊ\tnocase\nmop\tmˈɑp\nRish\tɹˈɪʃ\n"
    lexicon = english_lexicon(tmp_path, content, english=True)
    (symbols,) = ClauseG2P(EnglishPhonemizer(), lexicon).convert([lexicon.mark(MappedText.of(text))])
    assert "".join(symbols.symbols) == spoken
    assert len(symbols.cuts) == len(symbols.symbols)


def test_words_of_other_languages_have_no_english_endings(tmp_path):
    lexicon = english_lexicon(tmp_path, "Kubo\tkˈuboʊ\n")
    assert lexicon.mark(MappedText.of("Kubos")).text == "Kubos"
