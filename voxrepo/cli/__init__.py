"""The ``voxrepo`` command."""
