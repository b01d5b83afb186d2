"""Numbers of what rollouts keep in files and in the database."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from voxrepo_contract.yamlfile import StrictModel

Instant = Annotated[float, Field(ge=0, le=1e11)]
"""Seconds since the epoch, for some three thousand years: what is far beyond fits into no column of the database."""
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Decibels = Annotated[float, Field(ge=-1000, le=1000)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class FiniteModel(StrictModel):
    """Base of these: JSON has no infinity and no NaN; pydantic writes ``null`` for them, which nobody can read."""

    model_config = ConfigDict(allow_inf_nan=False)
