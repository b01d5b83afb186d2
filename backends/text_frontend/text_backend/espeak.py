"""The server's side of the espeak-ng process: start, ask, restart."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from voxrepo_contract.errors import ConfigError, Internal, Unavailable

WORKER = Path(__file__).with_name("espeak_worker.py")
ANSWER_TIMEOUT_S = 10.0
START_TIMEOUT_S = 30.0
MISSING = (
    "the espeak phonemizer is not installed; run: pip install 'voxrepo[espeak]' "
    "(piper-tts, licence GPL-3.0, run as a separate process)"
)


class Clause(NamedTuple):
    """One clause as espeak-ng reads it.

    Attributes:
        phonemes: IPA, words separated by blanks, possibly with "(lang)" flags around foreign words.
        terminator: ``.``, ``?``, ``!``, ``,``, ``:``, ``;`` or nothing.
        ends_sentence: whether espeak-ng takes this for the end of a sentence.
    """

    phonemes: str
    terminator: str
    ends_sentence: bool


class _WorkerLost(Exception):
    """The process ended or did not answer in time; the text says which."""


def find_interpreter() -> str:
    """Path of a Python that has the packages of this process.

    Inside Triton's stub Python is embedded and ``sys.executable`` need not be a Python at all, while ``sys.prefix``
    is that of the environment.

    Raises:
        ConfigError: none is found.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in (version, "python3"):
        path = Path(sys.prefix) / "bin" / name
        if os.access(path, os.X_OK):
            return str(path)
    for candidate in (shutil.which(version), shutil.which("python3"), sys.executable):
        if candidate and Path(candidate).name.startswith("python"):
            return candidate
    raise ConfigError(f"no Python interpreter in {sys.prefix}/bin nor on PATH to run the phonemizer with")


class EspeakClient:
    """Owns one espeak-ng process and speaks with it. Calls from several threads take turns.

    Args:
        voice: espeak-ng voice name, e.g. ``en-us``.
        interpreter: Python to run the process with; found if not given.
        answer_timeout_s: longest time for one answer, then the process is replaced.
    """

    def __init__(
        self, voice: str, *, interpreter: str | None = None, answer_timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self._voice = voice
        self._command = [interpreter or find_interpreter(), "-X", "utf8", str(WORKER), voice, str(os.getpid())]
        self._answer_timeout_s = answer_timeout_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._greeted = False
        self._pending = b""

    @property
    def pid(self) -> int | None:
        """Id of the running process, if one is."""
        return None if self._process is None else self._process.pid

    def start(self) -> str:
        """Start the process and wait until it is ready.

        Returns:
            The version of piper-tts that it uses.

        Raises:
            ConfigError: piper-tts is not installed, or espeak-ng does not know the voice.
            Unavailable: the process ended or did not become ready in time.
        """
        with self._lock:
            self._spawn()
            try:
                return self._greet()
            except _WorkerLost as lost:
                self._stop()
                raise Unavailable(f"the phonemizer process {lost} while starting") from lost
            except ConfigError:
                self._stop()
                raise

    def phonemize(self, texts: Sequence[str]) -> list[list[Clause]]:
        """Clauses of each text, in order. One round trip for all.

        Raises:
            Unavailable: the process ended or hung over these texts; it has been replaced.
            Internal: the process refused the texts.
        """
        if not texts:
            return []
        request = json.dumps({"texts": list(texts)}, ensure_ascii=False).encode("utf-8") + b"\n"
        with self._lock:
            try:
                if self._process is None or self._process.poll() is not None:
                    self._spawn()
                if not self._greeted:
                    self._greet()
                self._write(request, time.monotonic() + self._answer_timeout_s)
                answer = self._read(self._answer_timeout_s)
            except _WorkerLost as lost:
                self._spawn()
                raise Unavailable(
                    f"text: the phonemizer process {lost} over this text and was restarted; "
                    "try again, and report the text if it happens twice"
                ) from lost
        if "error" in answer:
            raise Internal(f"text: the phonemizer failed: {answer['error']}")
        return [[Clause(*clause) for clause in clauses] for clauses in answer["clauses"]]

    def close(self) -> None:
        """End the process. The client may be started again."""
        with self._lock:
            self._stop()

    def _spawn(self) -> None:
        self._stop()
        try:
            # its own session: an interrupt typed at the terminal must not end it before the server has drained
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise Unavailable(f"the phonemizer process cannot be started: {error}") from error
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._greeted = False
        self._pending = b""

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def _greet(self) -> str:
        hello = self._read(START_TIMEOUT_S)
        if hello.get("fault") == "missing":
            raise ConfigError(f"{MISSING} ({hello['detail']})")
        if "ready" not in hello:
            raise ConfigError(
                f"phonemizer_voice: espeak-ng cannot use the voice {self._voice!r}: {hello.get('detail')}"
            )
        self._greeted = True
        return str(hello["ready"])

    def _write(self, data: bytes, deadline: float) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        fd = self._process.stdin.fileno()
        view = memoryview(data)
        while view:
            if not _wait(fd, select.POLLOUT, deadline):
                raise _WorkerLost(f"took no input within {self._answer_timeout_s:g} s")
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise _WorkerLost(self._how_it_ended()) from error

    def _read(self, timeout_s: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        parts = [self._pending]
        while b"\n" not in parts[-1]:
            if not _wait(fd, select.POLLIN, deadline):
                raise _WorkerLost(f"did not answer within {timeout_s:g} s")
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                raise _WorkerLost(self._how_it_ended())
            parts.append(chunk)
        line, _, self._pending = b"".join(parts).partition(b"\n")
        message: dict[str, Any] = json.loads(line.decode("utf-8"))
        return message

    def _how_it_ended(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "closed its channel"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with status {code}"


def _wait(fd: int, event: int, deadline: float) -> bool:
    """Wait until ``fd`` is ready for ``event`` or has failed; False when ``deadline`` (monotonic, s) has passed."""
    # poll, not select: descriptors above 1023 occur in a busy server
    poller = select.poll()
    poller.register(fd, event)
    return bool(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))
