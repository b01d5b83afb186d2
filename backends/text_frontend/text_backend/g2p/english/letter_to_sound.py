"""Pronunciations of words that no dictionary has, from their letters alone.

The network is that of g2p_en 2.1.0 by Kyubyong Park and Jongseok Kim (Apache-2.0), trained by them on the CMU
Pronouncing Dictionary: one GRU of 256 units reads the letters, a second writes phones until it ends the word.
Its weights are read from that package's file; the package itself, which loads much else, is never imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voxrepo_contract.errors import ConfigError

PACKAGE = "g2p_en"
WEIGHTS_FILE = "checkpoint20.npz"
WEIGHTS_SHA256 = "b8af35e4596d8dd5836dfd3fe9b2ba4f97b9c311efe8879544cbcfcbd566d8c6"
MAX_LETTERS = 40
_MAX_PHONES = 60
_TOGETHER, _ALONE, _BLOCK = 8, 2, 128
# Words at once, at least two: a product of matrices adds up each row in the same order whatever the others are, a
# product with one vector does not. And weights in blocks so small that the linear algebra library starts no threads,
# whose waiting costs more processor time than they save.

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
        self._out, self._out_bias = _blocks(weights["fc_w"]), weights["fc_b"]

    def pronounce(self, word: str) -> list[str]:
        """ARPAbet phones of ``word``.

        Args:
            word: up to :data:`MAX_LETTERS` of the letters a to z.
        """
        return self.pronounce_all([word])[0]

    def pronounce_all(self, words: Sequence[str]) -> list[list[str]]:
        """ARPAbet phones of each of ``words``, in order; far quicker than one by one.

        What a word sounds like does not depend on the others.
        """
        phones: list[list[str]] = [[] for _ in words]
        by_length = sorted(range(len(words)), key=lambda index: len(words[index]))
        for start in range(0, len(words), _TOGETHER):
            group = by_length[start : start + _TOGETHER]
            for index, found in zip(group, self._pronounce_group([words[index] for index in group]), strict=True):
                phones[index] = found
        return phones

    def _pronounce_group(self, words: Sequence[str]) -> list[list[str]]:
        spelled = [[*(_LETTERS[letter] for letter in word), _END_OF_WORD] for word in words]
        spelled += [[_END_OF_WORD]] * (_ALONE - len(words))
        states = np.zeros((len(spelled), self._reader.size), np.float32)
        for at in range(max(map(len, spelled))):
            following = self._reader.step([letters[min(at, len(letters) - 1)] for letters in spelled], states)
            reads_on = np.array([at < len(letters) for letters in spelled])
            states = np.where(reads_on[:, None], following, states)
        phones: list[list[str]] = [[] for _ in words]
        open_words = set(range(len(words)))
        last = [_START] * len(spelled)
        while open_words:
            states = self._writer.step(last, states)
            scores = _product(states, self._out)[:, : len(self._out_bias)] + self._out_bias
            last = scores.argmax(axis=1).tolist()
            for row in tuple(open_words):
                if last[row] >= _FIRST_PHONE:
                    phone = _PHONES[last[row] - _FIRST_PHONE]
                    phones[row].append("UW0" if phone == _UNMARKED else phone)
                if last[row] == _END or len(phones[row]) == _MAX_PHONES:
                    open_words.remove(row)
        return phones


class _Gru:
    """A gated recurrent unit over symbols; what each symbol adds to the gates is worked out once."""

    def __init__(self, weights: dict[str, _Array], side: str) -> None:
        self._by_symbol = weights[f"{side}_emb"] @ weights[f"{side}_w_ih"].T + weights[f"{side}_b_ih"]
        self._weights, self._bias = _blocks(weights[f"{side}_w_hh"]), weights[f"{side}_b_hh"]
        self.size = weights[f"{side}_w_hh"].shape[1]

    def step(self, symbols: Sequence[int], states: _Array) -> _Array:
        """The next states, [rows, 256], after one symbol for each row."""
        size = self.size
        from_symbol = self._by_symbol[symbols]
        from_state = _product(states, self._weights) + self._bias
        gates = 1 / (1 + np.exp(-(from_symbol[:, : 2 * size] + from_state[:, : 2 * size])))
        reset, update = gates[:, :size], gates[:, size:]
        new = np.tanh(from_symbol[:, 2 * size :] + reset * from_state[:, 2 * size :])
        following: _Array = (1 - update) * new + update * states
        return following


def _blocks(weights: _Array) -> _Array:
    """``weights``, [outputs, inputs], as blocks for :func:`_product`, [blocks, inputs, 128]; zeros fill the last."""
    outputs, inputs = weights.shape
    filled = np.zeros((-(-outputs // _BLOCK) * _BLOCK, inputs), np.float32)
    filled[:outputs] = weights
    return np.ascontiguousarray(filled.reshape(-1, _BLOCK, inputs).transpose(0, 2, 1))


def _product(states: _Array, blocks: _Array) -> _Array:
    """Outputs for each state, [rows, outputs and what fills the last block]."""
    product: _Array = np.matmul(states, blocks).transpose(1, 0, 2).reshape(len(states), -1)
    return product
