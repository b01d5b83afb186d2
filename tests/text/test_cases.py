"""The case table: what is written, what is said, how it sounds.

Users can extend it: a file in ``cases/`` has the language of the voice and a list of cases, ``[written, said]`` or
``{text, says, pinyin}`` (Mandarin) or ``{text, says, phonemes}`` (English). White space and the width of punctuation do
not count in what is said. ``pinyin`` has the tones as they are spoken; ``phonemes`` is the IPA that the phonemizer
``cmudict`` writes, the clauses with their marks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from .voices import mandarin_front_end, mandarin_inventory  # isort: skip (puts the backend on the path)

from text_backend.explain import explain
from text_backend.frontend import FrontEnd
from text_backend.g2p.base import Symbols
from text_backend.g2p.english import EnglishPhonemizer
from text_backend.languages import find_language
from text_backend.mapped import MappedText
from text_backend.splitting import Cut

from voxrepo_contract.stage import TextFrontendOptions

pytest.importorskip("pypinyin")
pytest.importorskip("wetext")

CASES = Path(__file__).parent / "cases"
MINIMUM = 400
_WIDTH = str.maketrans("，。！？：；（）％", ",.!?:;()%")
_BLANKS = re.compile(r"\s+")
_BESIDE_HAN = re.compile(r"\s+(?=[^\x00-\xff])|(?<=[^\x00-\xff])\s+")


class _Listener:
    """Takes sentences as any G2P does; the cases of an alphabetic voice are about what is said, not how."""

    def convert(self, sentences: Sequence[MappedText], observe: Any = None) -> list[Symbols]:
        return [Symbols(["a1"], [Cut.CLAUSE]) for _ in sentences]

    def parse_pronunciation(self, written: str) -> list[str]:
        return [written]


def _front_end(voice: str) -> FrontEnd:
    if voice == "zh":
        return mandarin_front_end()
    options = TextFrontendOptions(language=voice, phonemizer="espeak", phonemizer_voice=voice, speakers=["one"])
    return FrontEnd(options, mandarin_inventory(), find_language(voice), _Listener())


_FRONT_ENDS = {voice: _front_end(voice) for voice in ("zh", "en")}


def _load() -> list[Any]:
    found = []
    for file in sorted(CASES.glob("*.yaml")):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        for case in content["cases"]:
            entry = case if isinstance(case, dict) else {"text": case[0], "says": case[1]}
            found.append(pytest.param(content["voice"], entry, id=f"{file.stem}-{entry['text']}"))
    return found


def _canonical(text: str) -> str:
    return _BLANKS.sub(" ", _BESIDE_HAN.sub("", text.translate(_WIDTH).replace("…", "..."))).strip()


_ALL = _load()


def test_the_table_is_large_enough():
    assert len(_ALL) >= MINIMUM
    assert len({(param.values[0], param.values[1]["text"]) for param in _ALL}) == len(_ALL), "a case is there twice"


@lru_cache(maxsize=1)
def _english() -> EnglishPhonemizer:
    return EnglishPhonemizer()


def _ipa(sentence: str) -> str:
    return " ".join(clause.phonemes + clause.terminator for clause in _english().phonemize([sentence])[0])


def test_both_languages_have_cases_for_the_sound():
    with_sound = Counter(param.values[0] for param in _ALL if {"pinyin", "phonemes"} & param.values[1].keys())
    assert min(with_sound["en"], with_sound["zh"]) >= 40, with_sound


@pytest.mark.parametrize(("voice", "case"), _ALL)
def test_case(voice, case):
    steps, _ = explain(_FRONT_ENDS[voice], case["text"])
    said = " ".join(step.text for step in steps if step.name == "sentence")
    assert _canonical(said) == _canonical(case["says"])
    if "pinyin" in case:
        assert " ".join(step.text for step in steps if step.name == "pinyin") == case["pinyin"]
    if "phonemes" in case:
        spoken = " ".join(_ipa(step.text.strip()) for step in steps if step.name == "sentence")
        assert spoken == case["phonemes"]
