"""Host side of the ``ascend_om`` Triton backend: stage programs, packing and graph runtimes.

Triton puts the backend's own directory on ``sys.path``, so ``model.py`` imports this package as ``om_backend``; it
may import numpy, its runtime and ``voxrepo_contract``, never ``voxrepo``.
"""
