"""First code of a device worker: ties its life to the stub's and makes the two packages it needs importable.

Run as a file by the worker's own Python, which may be another one than the stub's. The packages are given by folder
and nothing is added to ``sys.path`` for them: the folder that holds them may be the stub's site-packages, whose numpy
another Python cannot load. The syntax is kept old, so that an old Python can say that it is too old.
"""

# ruff: noqa: E402, UP031, UP036  see above

import sys

# this file's own folder, where modules have the names of the libraries they use
del sys.path[0]

if sys.version_info < (3, 10):
    sys.stderr.write(
        "the device worker needs Python 3.10 or later, %s is %d.%d; set VOXREPO_WORKER_PYTHON to another one\n"
        % (sys.executable, sys.version_info[0], sys.version_info[1])
    )
    sys.exit(3)

import argparse
import importlib.util
import os
import signal
import socket

_PR_SET_PDEATHSIG = 1


def _die_with(parent: int) -> None:
    """Have the kernel end this process when the stub ends, even inside a call that never returns."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    except (ImportError, OSError, AttributeError) as error:
        sys.stderr.write("this worker ends with its socket only (%s)\n" % error)
    if os.getppid() != parent:
        sys.exit(0)


def _add_package(name: str, folder: str) -> None:
    spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def main() -> None:
    """Set up and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--package", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--path", action="append", default=[])
    arguments = parser.parse_args()
    os.set_inheritable(arguments.socket, False)
    _die_with(arguments.parent)
    # both reach whole process groups; the stub ends its worker when it is done with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for package in arguments.package:
        name, _, folder = package.partition("=")
        _add_package(name, folder)
    sys.path[:0] = arguments.path
    # what libraries print must not be lost, nor come in blocks
    os.dup2(2, 1)
    worker = importlib.import_module("om_backend.device.worker")
    sys.exit(worker.serve(socket.socket(fileno=arguments.socket)))


if __name__ == "__main__":
    main()
