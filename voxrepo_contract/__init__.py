"""Vocabulary shared by the control plane, the edge and the Triton backends.

The backends never import ``voxrepo`` and ``voxrepo`` never imports a backend; what both must agree on
(``stage.yaml``, error codes, tensor names, name rules) lives here and nowhere else.
"""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1
"""Version of the ``stage.yaml`` and ``voice.yaml`` schemas that this code reads and writes."""
