"""Importers: turn a voice of another project into the stages of a voxrepo voice.

Importing this package needs nothing beyond voxrepo itself; calling an importer needs the extra ``convert``.
"""

from __future__ import annotations

from voxrepo.importers.piper import PiperImport, import_piper

__all__ = ["PiperImport", "import_piper"]
