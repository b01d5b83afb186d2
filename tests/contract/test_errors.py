from __future__ import annotations

import grpc
import pytest

from voxrepo_contract import errors
from voxrepo_contract.errors import ConfigError, VoxrepoError

EXPECTED = {
    "VoxrepoError": (500, "INTERNAL"),
    "InvalidArgument": (400, "INVALID_ARGUMENT"),
    "ConfigError": (400, "INVALID_ARGUMENT"),
    "NotFound": (404, "NOT_FOUND"),
    "AlreadyExists": (409, "ALREADY_EXISTS"),
    "PermissionDenied": (403, "PERMISSION_DENIED"),
    "Unavailable": (503, "UNAVAILABLE"),
    "DeadlineExceeded": (503, "DEADLINE_EXCEEDED"),
    "Cancelled": (400, "CANCELLED"),
    "Unimplemented": (501, "UNIMPLEMENTED"),
    "Internal": (500, "INTERNAL"),
    "ConversionRefused": (500, "INTERNAL"),
}


def all_errors() -> dict[str, type[VoxrepoError]]:
    found: dict[str, type[VoxrepoError]] = {}
    todo: list[type[VoxrepoError]] = [VoxrepoError]
    while todo:
        kind = todo.pop()
        if kind.__module__ == errors.__name__:
            found[kind.__name__] = kind
            todo += kind.__subclasses__()
    return found


def test_every_error_has_its_status_on_both_transports():
    assert {name: (kind.http_status, kind.grpc_code) for name, kind in all_errors().items()} == EXPECTED


@pytest.mark.parametrize("kind", all_errors().values())
def test_codes_are_those_that_grpc_knows(kind: type[VoxrepoError]):
    assert grpc.StatusCode[kind.grpc_code].name == kind.grpc_code


@pytest.mark.parametrize("kind", all_errors().values())
def test_the_documented_table_lists_every_error(kind: type[VoxrepoError]):
    assert errors.__doc__ is not None
    (line,) = [line for line in errors.__doc__.splitlines() if f" {kind.__name__} " in f" {line}"]
    assert str(kind.http_status) in line
    assert kind.grpc_code in line


def test_the_message_is_the_sentence_given():
    assert errors.NotFound("no such voice").message == "no such voice"


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("a/voice.yaml", 3, "a/voice.yaml:3: is wrong"),
        ("a/voice.yaml", None, "a/voice.yaml: is wrong"),
        (None, None, "is wrong"),
    ],
)
def test_a_config_error_says_where(file: str | None, line: int | None, message: str):
    error = ConfigError("is wrong", file=file, line=line)
    assert error.message == message
    assert error.problem == "is wrong"
    assert error.line == line
