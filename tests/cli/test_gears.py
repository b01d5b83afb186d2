from __future__ import annotations

import pytest
from typer.testing import CliRunner

from voxrepo.cli.main import app


@pytest.mark.parametrize(
    "given", [["--memory-mb=inf"], ["--call-ms=inf", "--unit-us=1"], ["--call-ms=1", "--unit-us=inf"]]
)
def test_limits_and_costs_are_finite(given: list[str]):
    result = CliRunner().invoke(app, ["gears", "en", *given], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 2
    assert "not a finite number" in result.output
