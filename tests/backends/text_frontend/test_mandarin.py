from __future__ import annotations

import pytest

pytest.importorskip("pypinyin")
pytest.importorskip("wetext")

from text_backend.explain import explain
from text_backend.g2p.english_sounds import VOWELS, phones_of
from text_backend.g2p.latin import read_latin, say_word
from text_backend.g2p.mandarin import MandarinG2P
from text_backend.g2p.syllables import parse
from text_backend.lexicon import read_lexicon
from text_backend.mapped import MappedText

from tests.text.voices import mandarin_front_end, mandarin_inventory, mandarin_symbols
from voxrepo_contract.errors import InvalidArgument

FRONT_END = mandarin_front_end()


def symbols_of(text: str) -> str:
    (found,) = MandarinG2P().convert([MappedText.of(text)])
    return " ".join(found.symbols)


@pytest.mark.parametrize(
    ("pinyin", "symbols"),
    [
        ("zhong1", "zh ong1"), ("ni3", "n i3"), ("yu4", "^ v4"), ("zhi1", "zh iii1"), ("ci2", "c ii2"), ("ma5", "m a5"),
        ("liu2", "l iou2"), ("dui4", "d uei4"), ("lun2", "l uen2"), ("xue2", "x ve2"), ("lv4", "l v4"),
        ("l\u00fc4", "l v4"),
        ("lve4", "l ve4"), ("juan3", "j van3"), ("wo3", "^ uo3"), ("wen2", "^ uen2"), ("yong3", "^ iong3"),
        ("er2", "^ er2"),
        ("huar1", "h ua1 er5"), ("n2", "^ en2"), ("ai4", "^ ai4"), ("yi1", "^ i1"), ("ri4", "r iii4"),
        ("you3", "^ iou3"),
    ],
)  # fmt: skip
def test_syllables_are_initial_and_final(pinyin, symbols):
    syllable = parse(pinyin)
    assert syllable is not None
    assert " ".join(syllable.symbols) == symbols


@pytest.mark.parametrize("pinyin", ["", "zh1", "bong1", "ni", "ni6", "xyz1", "nii3", "\u4f60"])
def test_what_is_no_syllable_is_none(pinyin):
    assert parse(pinyin) is None


def test_every_syllable_of_the_dictionaries_has_symbols_of_the_voice():
    from pypinyin import Style, lazy_pinyin

    known = set(mandarin_symbols())
    for point in range(0x4E00, 0x9FA6):
        (pinyin,) = lazy_pinyin(chr(point), style=Style.TONE3, neutral_tone_with_five=True)
        syllable = parse(pinyin)
        assert syllable is None or set(syllable.symbols) <= known, (chr(point), pinyin)
        assert syllable is not None or not pinyin.isascii(), (chr(point), pinyin)


def test_prosody_marks_follow_the_marks_of_the_text():
    assert symbols_of("你，好、吗 呢") == "n i3 #3 h ao3 #2 m a5 #1 n e5"


def test_tones_do_not_run_over_a_pause():
    assert symbols_of("你，好") == "n i3 #3 h ao3"
    assert symbols_of("你好") == "n i2 #0 h ao3"


def test_every_english_sound_has_a_mandarin_syllable():
    consonants = [
        "",
        *[
            "B",
            "P",
            "M",
            "F",
            "V",
            "T",
            "D",
            "N",
            "L",
            "R",
            "S",
            "Z",
            "TH",
            "DH",
            "SH",
            "ZH",
            "CH",
            "JH",
            "K",
            "G",
            "NG",
            "HH",
            "W",
            "Y",
        ],
    ]
    for consonant in consonants:
        for vowel in VOWELS:
            for coda in ("", "N", "NG", "M", "L", "R", "S"):
                phones = [phone for phone in (consonant, vowel, coda) if phone]
                assert say_word("any", {"any": phones}.__getitem__)


@pytest.mark.parametrize(
    ("word", "spelled"),
    [
        ("UPS", True),
        ("IT", True),
        ("xyz", True),
        ("vip", True),
        ("ok", True),
        ("hello", False),
        ("NASA", False),
        ("iPhone", False),
        ("THE", False),
    ],
)
def test_words_are_said_and_abbreviations_spelled(word, spelled):
    letters = [s for letter in word for s in read_latin(letter.upper())]
    assert (read_latin(word) == letters) == spelled


@pytest.mark.parametrize(
    "word", ["Stra\u00dfe", "na\u00efve", "\u0141\u00f3d\u017a", "O'Brien", "\u00c6r\u00f8", "q" * 500, "a" * 500]
)
def test_any_latin_word_has_sound(word):
    assert read_latin(word)


def test_english_words_are_those_of_the_english_dictionary():
    assert " ".join(phones_of("colonel")) == "K ER1 N AX L"  # no rule of spelling finds this
    assert " ".join(phones_of("don't")) == "D OW1 N T"
    assert " ".join(phones_of("blorpation")).endswith("SH AX N")  # by the rules


def test_digits_are_said_one_by_one_where_normalisation_is_off():
    assert FRONT_END.run("\u670912\u4e2a", 1.0, "", normalise=False).phoneme_ids.tolist() == (
        FRONT_END.run("\u6709\u4e00\u4e8c\u4e2a", 1.0, "", normalise=False).phoneme_ids.tolist()
    )


def test_letters_of_other_scripts_are_counted():
    utterance = FRONT_END.run("\u4f60\u597d\u043f\u0440\u3053", 1.0, "")
    assert utterance.dropped == {"unreadable": 3}


def test_a_text_that_the_voice_cannot_read_is_refused_with_its_script():
    with pytest.raises(InvalidArgument, match=r"Mandarin voice has no reading.*HIRAGANA"):
        FRONT_END.run("\u3053\u3093\u306b\u3061\u306f", 1.0, "")


def test_segments_open_with_silence_and_end_with_the_end():
    inventory = mandarin_inventory()
    ids = FRONT_END.run("\u4f60\u597d\u3002", 1.0, "").phoneme_ids.tolist()
    assert ids[:1] == list(inventory.bos) == [1]
    assert tuple(ids[-2:]) == inventory.eos
    assert len(ids) == 1 + 5 + 2


def test_long_sentences_are_cut_between_syllables():
    front_end = mandarin_front_end(max_segment_ids=64)
    text = "\u4eca\u5929\u5929\u6c14\u5f88\u597d" * 30
    utterance = front_end.run(text, 1.0, "")
    assert utterance.segment_lengths.max() <= 64
    initials = {mandarin_inventory().phonemes[s][0] for s in ("j", "t", "q", "h")}
    start = 0
    for length in utterance.segment_lengths.tolist():
        assert utterance.phoneme_ids[start + 1] in initials
        start += length
    assert [span[0] for span in utterance.segment_spans[1:]] == [span[1] for span in utterance.segment_spans[:-1]]


def test_the_lexicon_decides_how_a_word_sounds(tmp_path):
    file = tmp_path / "lexicon.tsv"
    file.write_text("\u884c\u957f\thang2 chang2\nWiFi\twai1 fai1\n".replace("fai1", "fei1"), encoding="utf-8")
    lexicon = read_lexicon(file, MandarinG2P().parse_pronunciation, lambda symbol: True)
    front_end = mandarin_front_end(lexicon=lexicon)
    steps, utterance = explain(front_end, "\u884c\u957f\u7528WiFi")
    (pinyin,) = [step.text for step in steps if step.name == "pinyin"]
    assert pinyin == "hang2 chang2 yong4 ^uai1 fei1"
    assert utterance.dropped == {}


def test_explain_tells_every_step():
    steps, utterance = explain(FRONT_END, "**A**\u67092\u4e2a\U0001f604")
    names = [step.name for step in steps]
    assert names[0] == "input"
    assert names[-1] == "ids"
    assert {"unicode", "layout", "numbers", "sentence", "pinyin", "dropped"} <= set(names)
    assert steps[-2].text == "4 markup, 1 emoji"
    assert utterance.dropped == {"markup": 4, "emoji": 1}


def test_signs_that_nobody_named_are_counted_without_normalisation():
    utterance = mandarin_front_end().run("涨了50%，C#也是", 1.0, "", normalise=False)
    assert utterance.dropped == {"symbol": 2}


def test_a_sign_that_is_a_sentence_of_its_own_is_counted_without_normalisation():
    assert mandarin_front_end().run("你好。^。", 1.0, "", normalise=False).dropped == {"symbol": 1}


def test_names_of_emoji_are_chinese():
    pytest.importorskip("emoji")
    steps, _ = explain(mandarin_front_end(emoji="name"), "你好❤️")
    assert "红心" in next(step.text for step in steps if step.name == "sentence")
