"""TensorFlow Lite graphs without TensorFlow: reading them, running them literally, lifting them to ONNX.

``model`` reads a file, ``interpreter`` runs it operator by operator in numpy as the reference of a proof, and ``lift``
writes the same computation as an ONNX graph of sequences [batch, channels, length] with a free batch axis.
"""

from __future__ import annotations
