"""Limits of the whole server, divided among the edge processes that share its ports."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """The place of one edge process among those of a server.

    Attributes:
        worker: number of this process, from 0.
        workers: number of processes.
    """

    worker: int = 0
    workers: int = 1

    def among(self, serving: Collection[int]) -> Share:
        """The place of this process among those that serve now, itself among them; nobody's number is left out.

        Args:
            serving: numbers of the processes that serve; of none if that is not known.
        """
        if not serving:
            return self
        numbers = sorted({*serving, self.worker})
        return Share(numbers.index(self.worker), len(numbers))

    def of(self, limit: int) -> int:
        """This process's part of a limit: whole numbers that differ by at most one, the larger ones first.

        The parts of all processes add up to ``limit``, unless that is less than their number: each has at least 1, or
        clients whose connection the kernel gave to a process without a place would never be served.
        """
        return max(limit // self.workers + (self.worker < limit % self.workers), 1)
