"""The edge's table on disk, written again later if the disk refuses it now."""

from __future__ import annotations

import logging
from pathlib import Path

from voxrepo.edge.table import EdgeTable, write_table
from voxrepo_contract.errors import ConfigError

log = logging.getLogger(__name__)


class TableFile:
    """Writes tables.

    A full disk must not take a serving server down: once a table has been written, the edge goes on by that one
    until a newer one can be.

    Args:
        file: where the edge looks.

    Attributes:
        generation: of the newest table, written or not.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pending: EdgeTable | None = None
        self._was_written = False
        self.generation = 0

    @property
    def is_behind(self) -> bool:
        """Whether the newest table could not be written yet."""
        return self._pending is not None

    def put(self, table: EdgeTable) -> None:
        """Write a table.

        Raises:
            ConfigError: it cannot be written, and none was before.
        """
        self.generation = table.generation
        self._pending = table
        try:
            self._write(table)
        except OSError as error:
            if not self._was_written:
                raise ConfigError(f"cannot be written: {error.strerror}", file=self._file) from error
            log.error("%s cannot be written, the edge goes by the last one meanwhile: %s", self._file, error.strerror)

    def catch_up(self) -> bool:
        """Try once more to write a table that could not be written; whether it has been now."""
        if self._pending is None:
            return False
        try:
            self._write(self._pending)
        except OSError:  # said by put
            return False
        return True

    def _write(self, table: EdgeTable) -> None:
        write_table(self._file, table)
        self._pending, self._was_written = None, True
