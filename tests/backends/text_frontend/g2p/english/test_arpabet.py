"""The expected values are how espeak-ng writes these words."""

from __future__ import annotations

import pytest
from text_backend.g2p.english.arpabet import to_ipa


@pytest.mark.parametrize(
    ("word", "arpabet", "ipa"),
    [
        # reduced vowels by letter
        ("about", "AH0 B AW1 T", "ɐbˈaʊt"),
        ("sofa", "S OW1 F AH0", "sˈoʊfə"),
        ("rapid", "R AE1 P AH0 D", "ɹˈæpɪd"),
        ("quality", "K W AA1 L AH0 T IY0", "kwˈɔlᵻɾi"),
        ("wanted", "W AO1 N T IH0 D", "wˈɔntᵻd"),
        ("places", "P L EY1 S AH0 Z", "plˈeɪsᵻz"),
        ("biggest", "B IH1 G AH0 S T", "bˈɪɡɪst"),
        ("regular", "R EH1 G Y AH0 L ER0", "ɹˈɛɡjʊlɚ"),
        ("until", "AH0 N T IH1 L", "ʌntˈɪl"),
        ("manage", "M AE1 N AH0 JH", "mˈænɪdʒ"),
        ("people", "P IY1 P AH0 L", "pˈiːpəl"),
        ("expect", "IH0 K S P EH1 K T", "ɛkspˈɛkt"),
        ("return", "R IH0 T ER1 N", "ɹᵻtˈɜːn"),
        ("system", "S IH1 S T AH0 M", "sˈɪstəm"),
        # r
        ("hurry", "HH ER1 IY0", "hˈɜːɹi"),
        ("gathering", "G AE1 DH ER0 IH0 NG", "ɡˈæðɚɹɪŋ"),
        ("fire", "F AY1 R", "fˈaɪɚ"),
        ("carry", "K EH1 R IY0", "kˈæɹi"),
        ("various", "V EH1 R IY0 AH0 S", "vˈɛɹiəs"),
        ("serious", "S IH1 R IY0 AH0 S", "sˈiəɹɪʲəs"),
        # t
        ("better", "B EH1 T ER0", "bˈɛɾɚ"),
        ("written", "R IH1 T AH0 N", "ɹˈɪʔn̩"),
        ("center", "S EH1 N T ER0", "sˈɛntɚ"),
        ("positive", "P AA1 Z AH0 T IH0 V", "pˈɑːzᵻtˌɪv"),
        # stress by rhythm
        ("sunflower", "S AH1 N F L AW2 ER0", "sˈʌnflaʊɚ"),
        ("journalist", "JH ER1 N AH0 L AH0 S T", "dʒˈɜːnəlˌɪst"),
        ("sixteen", "S IH1 K S T IY1 N", "sˈɪkstiːn"),
        # glides
        ("reaction", "R IY0 AE1 K SH AH0 N", "ɹɪʲˈækʃən"),
        ("seeing", "S IY1 IH0 NG", "sˈiːʲɪŋ"),
        ("idea", "AY0 D IY1 AH0", "aɪdˈiə"),
        ("usual", "Y UW1 ZH AH0 W AH0 L", "jˈuːʒuːəl"),
        # others
        ("increase", "IH0 N K R IY1 S", "ɪŋkɹˈiːs"),
        ("song", "S AO1 NG", "sˈɔŋ"),
        ("law", "L AO1", "lˈɔː"),
        ("dog", "D AO1 G", "dˈɑːɡ"),
        ("", "AY1 B IY1 EH1 M", "ˌaɪbˌiːʲˈɛm"),
    ],
)
def test_writes_a_word_as_the_voices_know_it(word, arpabet, ipa):
    assert to_ipa(word, arpabet.split()) == ipa
