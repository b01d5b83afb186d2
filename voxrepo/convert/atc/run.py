"""Running ``atc``: one process with a time limit, its log kept, nothing half-made left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from voxrepo.convert.atc.advice import Advice, advice_from
from voxrepo.convert.refusal import AtcRefusal
from voxrepo_contract import om
from voxrepo_contract.errors import ConfigError

DEFAULT_TIMEOUT_S = 4 * 3600.0
"""Builds with many gears take hours on slow hosts; one that takes longer hangs."""
TIMEOUT_VARIABLE = "VOXREPO_ATC_TIMEOUT_S"
MAX_LOG_BYTES = 4 * 2**20
"""Of the log, so much from its end is read for advice."""


class AtcFailed(AtcRefusal):
    """ATC ran and refused or failed.

    Args:
        advice: what its output says, at least one entry.
        log: where its whole output is kept.
    """

    def __init__(self, advice: Sequence[Advice], log: Path) -> None:
        self.advice = tuple(advice)
        self.log = log
        first = advice[0]
        said = "; also ".join(entry.sentence().removeprefix(f"{first.code}: ") for entry in advice)
        super().__init__(first.code or "atc", f"{said}. The whole output is in {log}")


def find_atc() -> Path | None:
    """The compiler, if it is on PATH."""
    found = shutil.which("atc")
    return None if found is None else Path(found)


def timeout_s() -> float:
    """The time limit: ``VOXREPO_ATC_TIMEOUT_S``, or four hours.

    Raises:
        ConfigError: it is not a number above zero.
    """
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    if not text:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"{TIMEOUT_VARIABLE}={text!r} is not a number of seconds above zero")
    return seconds


def run_atc(program: Path, arguments: Sequence[str], folder: Path, output: Path, limit_s: float) -> Path:
    """Run ATC and find what it made.

    Args:
        program: the compiler.
        arguments: its arguments; relative paths are in ``folder``.
        folder: to run in.
        output: its ``--output``, without the suffix, which ATC lengthens where the file is bound to a host.
        limit_s: after so many seconds it is ended, with the processes that it started.

    Returns:
        The OM file.

    Raises:
        AtcFailed: with advice; what was half made is removed, the log is kept.
        ConfigError: it cannot be started, or took too long.
    """
    log_folder = Path(tempfile.mkdtemp(prefix="voxrepo-atc-"))
    log = log_folder / f"{output.name}.log"
    made: Path | None = None
    try:
        with log.open("wb") as stream:
            status = _run([str(program), *arguments], folder, stream.fileno(), limit_s)
        if status is None:
            raise ConfigError(
                f"atc did not end within {limit_s:g} s and was stopped; give it more with {TIMEOUT_VARIABLE}, or fewer "
                f"gears. Its output is in {log}"
            )
        made = _made(output)
        if status != 0 or made is None:
            raise AtcFailed(_advice(log, status), log)
    except OSError as error:
        raise ConfigError(f"atc cannot be run: {error.strerror or error}", file=program) from error
    except BaseException:
        for left in output.parent.glob(f"{output.name}*.om"):
            left.unlink(missing_ok=True)
        raise
    shutil.rmtree(log_folder, ignore_errors=True)
    return made


def _run(command: Sequence[str], folder: Path, log: int, limit_s: float) -> int | None:
    # a session of its own: atc starts kernel compilers, which must end with it
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        env={**os.environ, "ASCEND_SLOG_PRINT_TO_STDOUT": os.environ.get("ASCEND_SLOG_PRINT_TO_STDOUT", "1")},
    )  # fmt: skip
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _made(output: Path) -> Path | None:
    found = sorted(output.parent.glob(f"{output.name}.om")) or sorted(output.parent.glob(f"{output.name}_linux_*.om"))
    return found[0] if found else None


def _advice(log: Path, status: int) -> list[Advice]:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - MAX_LOG_BYTES))
        text = stream.read().decode("utf-8", "replace")
    found = advice_from(text)
    if found:
        return found
    how = f"ended with status {status}" if status else "reported success"
    what = f"atc {how} and left no OM"
    return [Advice("", what, "", "check the free space, and that the shell has run set_env.sh of CANN", text[-200:])]


def check_made(file: Path, inputs: Sequence[str], outputs: int, gears: int, soc: str) -> None:
    """Read an OM that ATC made and compare it with what was asked for.

    Args:
        file: the OM.
        inputs: names of the graph's inputs, in order.
        outputs: number of outputs; their names are the compiler's.
        gears: number of gears, 0 for other kinds.
        soc: chip.

    Raises:
        ConfigError: it is damaged, or another graph, chip or set of gears.
    """
    if om.identify(file) == "emulated_om":
        from voxrepo_contract import emulated_om

        header = emulated_om.read(file).header
        found_inputs, found_outputs, found_gears = (
            [t.name for t in header.inputs],
            len(header.outputs),
            len(header.gears),
        )
        problems: tuple[str, ...] = () if header.soc == soc else (f"it is for {header.soc}",)
    else:
        read = om.read(file)
        found_inputs = [tensor.name for tensor in read.inputs if tensor.name != om.GEAR_INPUT]
        found_outputs, found_gears = len(read.outputs), len(read.gears)
        problems = om.check_fits(read, soc)
    if problems:
        raise ConfigError(f"atc made a file that does not run on {soc}: {'; '.join(problems)}", file=file)
    if found_inputs != list(inputs):
        raise ConfigError(
            f"atc made a file with the inputs {found_inputs}, and the graph has {list(inputs)}", file=file
        )
    if (found_outputs, found_gears) != (outputs, gears):
        raise ConfigError(
            f"atc made a file with {found_outputs} outputs and {found_gears} gears, not {outputs} and {gears} as asked",
            file=file,
        )
