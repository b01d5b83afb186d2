"""Checks of what a graph returned: numbers that are not finite and silence are errors, counted and never sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from om_backend.runtime import Array
from voxrepo_contract.errors import Internal

Reason = Literal["not_finite", "silent"]

FP16_CAUSE = (
    "the usual cause is an overflow in a graph built for fp16, whose largest number is 65504: convert this version "
    "again at a higher precision"
)


@dataclass
class Rejections:
    """Results that were refused, by reason.

    Attributes:
        counts: since the program was loaded.
        on_rejected: called with the reason of each, for metrics; must not raise.
    """

    counts: Counter[str] = field(default_factory=Counter)
    on_rejected: Callable[[Reason], None] = field(default=lambda reason: None)

    def reject(self, reason: Reason, file: str, problem: str) -> Internal:
        """Count a refused result; returns the error to answer with.

        Args:
            reason: why.
            file: name of the graph file.
            problem: what it did, as a verb phrase.
        """
        self.counts[reason] += 1
        self.on_rejected(reason)
        return Internal(f"{file} {problem}; {FP16_CAUSE}")

    def check_finite(self, values: Array, file: str, what: str) -> None:
        """Refuse values of which one is NaN or infinite.

        Args:
            values: what belongs to one request; padding is not looked at.
            file: name of the graph file.
            what: name of the values, in the plural.

        Raises:
            Internal: naming the graph and the likely cause.
        """
        if not np.isfinite(values).all():
            raise self.reject("not_finite", file, f"returned {what} that are not finite numbers")
