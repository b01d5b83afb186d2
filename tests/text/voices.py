"""Front ends of a Mandarin and an English voice whose symbols are made here; no model file is needed."""

from __future__ import annotations

import sys
from pathlib import Path

BACKEND = Path(__file__).parents[2] / "backends" / "text_frontend"
if str(BACKEND) not in sys.path:
    sys.path.insert(0, str(BACKEND))  # as Triton does in the stub

from text_backend.data import table  # noqa: E402
from text_backend.frontend import FrontEnd  # noqa: E402
from text_backend.g2p.base import G2P  # noqa: E402
from text_backend.g2p.clauses import ClauseG2P  # noqa: E402
from text_backend.g2p.english import EnglishPhonemizer  # noqa: E402
from text_backend.g2p.mandarin import MandarinG2P  # noqa: E402
from text_backend.inventory import Inventory, parse_inventory  # noqa: E402
from text_backend.languages import find_language  # noqa: E402
from text_backend.lexicon import Lexicon, Replacements  # noqa: E402

from voxrepo_contract.stage import TextFrontendOptions  # noqa: E402


def mandarin_symbols() -> list[str]:
    """As in voices trained on the Baker corpus: 218 symbols and ``eos``."""
    rows = table("syllables")
    finals = sorted({final for _, listed in rows for final in listed.split()})
    toned = [f"{final}{tone}" for final in finals for tone in range(1, 6)]
    return ["pad", "sil", "#0", "#1", "#2", "#3", *(initial for initial, _ in rows), *toned, "eos"]


def mandarin_inventory(without: frozenset[str] = frozenset()) -> Inventory:
    symbols = {symbol: [number] for number, symbol in enumerate(mandarin_symbols()) if symbol not in without}
    return parse_inventory({"phonemes": symbols, "bos": "sil", "eos": ["sil", "eos"], "pad": ""})


def mandarin_front_end(
    lexicon: Lexicon | None = None, replacements: Replacements | None = None, **options: object
) -> FrontEnd:
    values = {"language": "zh-CN", "phonemizer": "pinyin", "speakers": ["reader"], **options}
    return FrontEnd(
        TextFrontendOptions.model_validate(values),
        mandarin_inventory(),
        find_language("zh-CN"),
        MandarinG2P(lexicon),
        lexicon=lexicon,
        replacements=replacements,
    )


_ENGLISH_SYMBOLS = (
    "_^$ .,;:!?abdefhijklmnopstuvwxzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒʔθᵻʲˈˌːɫ\u0303\u0329"  # what Piper voices of en-us have
)


def english_front_end(g2p: G2P | None = None, **options: object) -> FrontEnd:
    values = {"language": "en-US", "phonemizer": "cmudict", "phonemizer_voice": "en-us", "speakers": ["reader"]}
    inventory = parse_inventory(
        {"phonemes": {s: [n] for n, s in enumerate(_ENGLISH_SYMBOLS)}, "bos": "^", "eos": "$", "pad": "_"}
    )
    return FrontEnd(
        TextFrontendOptions.model_validate({**values, **options}),
        inventory,
        find_language("en-US"),
        g2p or ClauseG2P(EnglishPhonemizer()),
    )
