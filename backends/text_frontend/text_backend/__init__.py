"""Text to phoneme ids: the insides of the ``text_frontend`` backend.

The package directory lies beside Triton's ``model.py``. Triton puts the backend's directory on ``sys.path`` of the
stub process, the tests do the same in their ``conftest.py``; hence ``import text_backend`` works in both and no
module name can clash with another backend's.
"""

from __future__ import annotations
