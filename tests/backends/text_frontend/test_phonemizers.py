from __future__ import annotations

import pytest
from text_backend.espeak import EspeakClient
from text_backend.frontend import FrontEnd
from text_backend.g2p.clauses import ClauseG2P
from text_backend.g2p.english import EnglishPhonemizer
from text_backend.languages import find_language
from text_backend.phonemizers import find_phonemizer

from voxrepo_contract.errors import ConfigError

from .conftest import options


def test_mandarin_by_pinyin_needs_no_phonemizer():
    chosen = options(language="zh-CN", phonemizer="pinyin")
    assert find_phonemizer(chosen, find_language("zh-CN")) is None


def test_each_name_has_its_phonemizer():
    english = find_language("en-US")
    assert isinstance(find_phonemizer(options(), english), EspeakClient)
    assert isinstance(find_phonemizer(options(phonemizer="cmudict"), english), EnglishPhonemizer)


@pytest.mark.parametrize("changes", [{"language": "de-DE"}, {"phonemizer_voice": "en-gb"}])
def test_cmudict_refuses_other_languages_and_accents(changes):
    chosen = options(phonemizer="cmudict", **changes)
    with pytest.raises(ConfigError, match=r"'cmudict' reads American English only.*use 'espeak'"):
        find_phonemizer(chosen, find_language(chosen.language))


def test_the_front_end_speaks_with_cmudict(inventory):
    english = find_language("en-US")
    chosen = options(phonemizer="cmudict")
    phonemizer = find_phonemizer(chosen, english)
    assert phonemizer is not None
    assert phonemizer.start()
    spoken = FrontEnd(chosen, inventory, english, ClauseG2P(phonemizer)).run(
        "Hello, world. Dr. Smith is here!", 1.0, ""
    )
    phonemizer.close()
    assert len(spoken.segment_lengths) == 2
    assert spoken.segment_lengths.sum() == len(spoken.phoneme_ids)
