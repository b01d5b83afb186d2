from __future__ import annotations

import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_backend.espeak import Clause
from text_backend.g2p.english import EnglishPhonemizer
from text_backend.g2p.english.pronunciation import CAREFUL_WORDS

SENTENCES = Path(__file__).parents[5] / "benchmarks" / "data" / "english_sentences.txt"


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        # weak forms, run together, and stressed at a clause's end
        ("The cat sat on the mat, and it was happy.", "ðə kˈæt sˈæt ɔnðə mˈæt, ænd ɪt wʌz hˈæpi."),
        ("Get it out of the box at once.", "ɡɛt ɪɾ ˌaʊɾəv ðə bˈɑːks ɐtwˈʌns."),
        ("I have a lot of them!", "aɪ hæv ɐ lˈɑːt ʌv ðˌɛm!"),
        ("So they went on.", "sˌoʊ ðeɪ wɛnt ˈɔn."),
        ("This is what it is about.", "ðɪs ɪz wʌt ɪɾ ɪz ɐbˈaʊt."),
        # where words meet
        ("the apple", "ðɪʲ ˈæpəl"),
        ("far away", "fˈɑːɹ ɐwˈeɪ"),
        ("her other uncle", "hɜːɹ ˈʌðɚɹ ˈʌŋkəl"),
        ("to eat", "tʊ ˈiːt"),
        ("to see", "tə sˈiː"),
        ("very old", "vˈɛɹiʲ ˈoʊld"),
        # two sounds
        ("I live in a house.", "aɪ lˈɪv ɪn ɐ hˈaʊs."),
        ("They use a live wire.", "ðeɪ jˈuːz ɐ lˈaɪv wˈaɪɚ."),
        ("We want to record a record.", "wiː wˈɔnt tə ɹᵻkˈɔːɹd ɐ ɹˈɛkɚd."),
        ("He can't read; they've read it.", "hiː kˈænt ɹˈiːd; ðeɪv ɹˈɛd ɪt."),
        # letters and signs
        ("IBM's GPUs", "ˌaɪbˌiːʲˈɛmz dʒˌiːpˌiːjˈuːz"),
        ("NATO", "nˈeɪɾoʊ"),
        ("well-known", "wˈɛlnˈoʊn"),
        ("x-ray", "ˈɛksɹˈeɪ"),
        ("50% & more", "fˈɪfti pɚsˈɛnt ænd mˈɔːɹ"),
        ("$1", "wˈʌn dˈɑːlɚ"),
        ("caf\u00e9", "kɐfˈeɪ"),
        ("\u03b1", "ˈælfə"),
        # of other scripts only letters and signs have names; marks are marks, quotes and brackets are silent
        ("Hello\uff0cworld\u3002", "həlˈoʊ, wˈɜːld."),
        ("\u300aDune\u300b\u3001\u300cup\u300d\uff1f", "dˈuːn, ˈʌp?"),
        ("$3D", "θɹˈiː dˈɑːlɚz dˈiː"),
        # abbreviations do not end the sentence
        ("Mr. Jones came.", "mˈɪstɚ dʒˈoʊnz kˈeɪm."),
        ("a", "ˈeɪ"),
    ],
)
def test_reads_a_text_as_the_voices_know_it(read, text, phonemes):
    assert read(text) == phonemes


def test_clauses_carry_their_marks(phonemizer):
    (clauses,) = phonemizer.phonemize(["Well, yes... no: go (now)! Why?! The end"])
    assert [clause[1:] for clause in clauses] == [
        (",", False),
        ("", False),
        (":", False),
        ("!", True),
        ("?", True),
        ("", True),
    ]
    assert isinstance(clauses[0], Clause)


def test_marks_without_words_are_no_clauses(phonemizer):
    assert phonemizer.phonemize(["... !!! ,", ""]) == [[], []]


def test_texts_are_answered_in_order(phonemizer):
    one, two = phonemizer.phonemize(["one", "two"])
    assert (one[0].phonemes, two[0].phonemes) == ("wˈʌn", "tˈuː")


def test_only_symbols_that_the_voice_has(phonemizer, inventory):
    known = set(inventory.phonemes)
    for sentence in SENTENCES.read_text(encoding="utf-8").splitlines():
        for clause in phonemizer.phonemize([sentence])[0]:
            assert set(unicodedata.normalize("NFD", clause.phonemes)) <= known


@settings(deadline=None, max_examples=300)
@given(st.text(min_size=1, max_size=60))
def test_whatever_has_a_letter_or_digit_is_said(text):
    clauses = _SHARED.phonemize([text])[0]
    said = "".join(clause.phonemes for clause in clauses)
    if any(character.isalnum() for character in text):
        assert any(character.isalpha() for character in said)
    assert all(character.isprintable() for character in said)


_SHARED = EnglishPhonemizer()


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text("abcdefghijklmnopqrstuvwxyz'", min_size=1, max_size=45), min_size=1, max_size=5))
def test_each_word_of_letters_is_said(words):
    for word in words:
        if word.strip("'"):
            assert any(c.phonemes for c in _SHARED.phonemize([word])[0])


def test_a_word_in_one_text_does_not_change_how_another_reads(read):
    before = read("zorgle the frobnicator")
    read("zorgle blarg frobnicators")
    assert read("zorgle the frobnicator") == before


def test_gibberish_is_read_within_a_budget(phonemizer):
    nonsense = [f"{a}{b}{c}{d}b" for a in "bdfgk" for b in "aeiou" for c in "lmnrs" for d in "aeiou"]
    assert len(nonsense) > CAREFUL_WORDS
    start = time.process_time()
    (clauses,) = phonemizer.phonemize([" ".join(nonsense)])
    assert time.process_time() - start < 2
    assert len(clauses[0].phonemes.split()) == len(nonsense)


@pytest.mark.parametrize(
    "unit",
    ["a", "7", "1,", ".", "a.", "'", "a's", "-", "a-", "(", "aB", "- ", "$", "'a", "un", "e\u0301", "the ", "1a", "?!"],
)
def test_time_grows_with_the_length_of_hostile_texts(phonemizer, unit):
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        start = time.process_time()
        phonemizer.phonemize([text])
        return time.process_time() - start

    seconds(1000)
    # linear is 8 times as long; a quadratic scan of 100,000 characters takes minutes
    assert seconds(80_000) < 20 * max(seconds(10_000), 0.05)


def test_comes_close_to_espeak_on_sentences(phonemizer, espeak):
    from benchmarks.phonemes import edits, phonemes

    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()
    found, expected = phonemes(phonemizer, sentences), phonemes(espeak, sentences)
    wrong = sum(edits(a, b) for a, b in zip(found, expected, strict=True))
    # 0.9 % when written
    assert wrong / sum(map(len, expected)) < 0.015
