"""Finding out why a server does not run, or not on the NPU, and saying it in sentences.

Everything outside is reached through a :class:`~voxrepo.doctor.machine.Machine`, so that each check can be tried on a
tree of files. A check returns findings and raises nothing.
"""
