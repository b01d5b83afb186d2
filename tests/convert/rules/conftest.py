from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")
