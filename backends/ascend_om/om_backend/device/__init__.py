"""Graphs on a device: what every device runtime has in common, the worker process they run in, and its client.

Modules that run inside the worker import numpy, ``voxrepo_contract.errors`` and the runtime's own library only, since
the worker may run under another Python than the stub.
"""
