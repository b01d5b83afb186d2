from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer

from voxrepo.cli.output import fail, print_json, shows_errors
from voxrepo.supervisor.state import ModelStatus
from voxrepo_contract.errors import ConfigError, NotFound


@pytest.mark.parametrize(
    "message",
    ["plain", "dims [batch, 2, ids]", "[bold]x[/bold]", "[/red]", "a\\[b", "50 % of {x}", "caf\u00e9", "x" * 300],
)
def test_an_error_is_shown_letter_for_letter_on_stderr(message: str, capsys: pytest.CaptureFixture[str]):
    assert fail(message).exit_code == 1
    captured = capsys.readouterr()
    assert captured.err == f"error: {message}\n"
    assert captured.out == ""


def test_errors_raised_on_purpose_become_one_sentence(capsys: pytest.CaptureFixture[str]):
    @shows_errors
    def command() -> None:
        raise ConfigError("is wrong", file="a/voice.yaml", line=3)

    with pytest.raises(typer.Exit) as caught:
        command()
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == "error: a/voice.yaml:3: is wrong\n"


def test_other_errors_keep_their_traceback():
    @shows_errors
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command()


def test_a_command_keeps_its_result_and_its_name():
    @shows_errors
    def command(x: int) -> int:
        """Doubles."""
        return 2 * x

    assert command(3) == 6
    assert command.__doc__ == "Doubles."


def test_the_error_is_kept_as_the_cause():
    @shows_errors
    def command() -> None:
        raise NotFound("nothing")

    with pytest.raises(typer.Exit) as caught:
        command()
    assert isinstance(caught.value.__cause__, NotFound)


@pytest.mark.parametrize(
    "value", [{"a": "caf\u00e9 [x]", "b": [1, None]}, [1, 2], ModelStatus(name="x", kind="voice", state="ready")]
)
def test_json_goes_to_stdout_and_parses(value: object, capsys: pytest.CaptureFixture[str]):
    print_json(value)  # type: ignore[arg-type]
    captured = capsys.readouterr()
    parsed = json.loads(captured.out)
    assert parsed == (value.model_dump() if isinstance(value, ModelStatus) else value)
    assert captured.err == ""


@pytest.mark.parametrize(("target", "says"), [("/dev/full", "No space left on device"), (None, "it is closed")])
def test_json_that_cannot_be_written_is_one_sentence(target: str | None, says: str):
    code = "import typer; from voxrepo.cli.output import print_json; typer.run(lambda: print_json({'a': 1}))"
    shell = f'exec "$0" -c "$1" >{target or "&-"}'
    done = subprocess.run(["/bin/sh", "-c", shell, sys.executable, code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"error: stdout cannot be written: {says}\n")
