"""Which ensembles and versions requests use at this moment, so that the supervisor unloads none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from voxrepo.edge.table import VoiceEntry
from voxrepo_contract.names import VOICE_STAGES


def usage_key(entry: VoiceEntry) -> str:
    """What a row uses: ``<ensemble>|<stage>=<version>,...``, the stages in their order."""
    versions = ",".join(f"{stage}={entry.versions[stage]}" for stage in VOICE_STAGES if stage in entry.versions)
    return f"{entry.ensemble}|{versions}"


class InUse:
    """Counts requests by what they use, those that wait and streams included. Belongs to one event loop.

    Args:
        unused: told of a key whose count falls to 0.
    """

    def __init__(self, unused: Callable[[str], None] = lambda key: None) -> None:
        self._unused = unused
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """Requests by what they use; none are left out, so that what is not in it is not used."""
        return dict(self._counts)

    @contextmanager
    def using(self, *entries: VoiceEntry) -> Iterator[None]:
        """The block uses these rows, from before its first wait to its end."""
        keys = [usage_key(entry) for entry in entries]
        self._counts.update(keys)
        try:
            yield
        finally:
            for key in keys:
                self._counts[key] -= 1
                if not self._counts[key]:
                    del self._counts[key]
                    self._unused(key)
