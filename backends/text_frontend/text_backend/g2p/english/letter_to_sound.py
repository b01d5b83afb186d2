"""Pronunciations of words that no dictionary has, from their letters alone.

The network is that of g2p_en 2.1.0 by Kyubyong Park and Jongseok Kim (Apache-2.0), trained by them on the CMU
Pronouncing Dictionary: one GRU of 256 units reads the letters, a second writes phones until it ends the word.
Its weights are read from that package's file; the package itself, which loads much else, is never imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voxrepo_contract.errors import ConfigError

PACKAGE = "g2p_en"
WEIGHTS_FILE = "checkpoint20.npz"
WEIGHTS_SHA256 = "b8af35e4596d8dd5836dfd3fe9b2ba4f97b9c311efe8879544cbcfcbd566d8c6"
MAX_LETTERS = 40
_MAX_PHONES = 60

_LETTERS = {letter: index for index, letter in enumerate("abcdefghijklmnopqrstuvwxyz", start=3)}
_END_OF_WORD = 2
_START, _END, _FIRST_PHONE = 2, 3, 4
_VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
_CONSONANTS = (
    *("B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH", "T", "TH"),
    *("V", "W", "Y", "Z", "ZH"),
)
_UNMARKED = "UW"
# one entry of the dictionary the network learned from lacks its stress digit; the network has a class for it
_PHONES = sorted([f"{vowel}{stress}" for vowel in _VOWELS for stress in "012"] + [*_CONSONANTS, _UNMARKED])

_Array = npt.NDArray[np.float32]


def read_weights() -> dict[str, _Array]:
    """The network's weights by name, from the installed package.

    Raises:
        ConfigError: the package is not installed, or its file is another one.
    """
    package = importlib.util.find_spec(PACKAGE)  # finds without importing
    if package is None or not package.submodule_search_locations:
        raise ConfigError(
            "reading American English needs a file of the package g2p-en (Apache-2.0), of which nothing else is used: "
            "pip install --no-deps g2p-en==2.1.0"
        )
    file = Path(package.submodule_search_locations[0]) / WEIGHTS_FILE
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}; install g2p-en 2.1.0 again", file=file) from error
    found = hashlib.sha256(content).hexdigest()
    if found != WEIGHTS_SHA256:
        raise ConfigError(f"sha256 is {found}, expected {WEIGHTS_SHA256}; install g2p-en 2.1.0 again", file=file)
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}


class LetterToSound:
    """The network.

    Raises:
        ConfigError: see :func:`read_weights`.
    """

    def __init__(self) -> None:
        weights = read_weights()
        self._reader = _Gru(weights, "enc")
        self._writer = _Gru(weights, "dec")
        self._out, self._out_bias = weights["fc_w"], weights["fc_b"]

    def pronounce(self, word: str) -> list[str]:
        """ARPAbet phones of ``word``.

        Args:
            word: 1 to :data:`MAX_LETTERS` of the letters a to z.
        """
        state = np.zeros(self._reader.size, np.float32)
        for index in [*(_LETTERS[letter] for letter in word), _END_OF_WORD]:
            state = self._reader.step(index, state)
        phones: list[str] = []
        last = _START
        while len(phones) < _MAX_PHONES:
            state = self._writer.step(last, state)
            last = int(np.argmax(self._out @ state + self._out_bias))
            if last == _END:
                break
            if last >= _FIRST_PHONE:
                phone = _PHONES[last - _FIRST_PHONE]
                phones.append("UW0" if phone == _UNMARKED else phone)
        return phones


class _Gru:
    """A gated recurrent unit over symbols; what each symbol adds to the gates is worked out once."""

    def __init__(self, weights: dict[str, _Array], side: str) -> None:
        self._by_symbol = weights[f"{side}_emb"] @ weights[f"{side}_w_ih"].T + weights[f"{side}_b_ih"]
        self._weights, self._bias = weights[f"{side}_w_hh"], weights[f"{side}_b_hh"]
        self.size = self._weights.shape[1]

    def step(self, symbol: int, state: _Array) -> _Array:
        """The next state, [256]."""
        size = self.size
        from_symbol = self._by_symbol[symbol]
        from_state = self._weights @ state + self._bias
        gates = 1 / (1 + np.exp(-(from_symbol[: 2 * size] + from_state[: 2 * size])))
        reset, update = gates[:size], gates[size:]
        new = np.tanh(from_symbol[2 * size :] + reset * from_state[2 * size :])
        following: _Array = (1 - update) * new + update * state
        return following
