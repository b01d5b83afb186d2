from __future__ import annotations

import sys
from pathlib import Path

BACKEND = Path(__file__).parents[3] / "backends" / "ascend_om"
sys.path.insert(0, str(BACKEND))  # as Triton does in the stub
