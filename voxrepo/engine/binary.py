"""Finding tritonserver, its Python backend and the libraries both need."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from voxrepo_contract.errors import ConfigError

WHEEL = "nvidia-pytriton"
STUB_NAME = "triton_python_backend_stub"


@dataclass(frozen=True)
class EngineBinary:
    """A tritonserver and what goes with it.

    Attributes:
        path: the executable.
        python_backend: files of the Python backend: library, utilities and the stub for this Python.
        library_dirs: directories for ``LD_LIBRARY_PATH``.
        source: for messages and ``status``, e.g. ``nvidia-pytriton 0.7.0``.
    """

    path: Path
    python_backend: tuple[Path, ...]
    library_dirs: tuple[Path, ...]
    source: str


def _python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _libpython_dir() -> Path:
    """Directory of this interpreter's shared library, which the stub links to.

    Raises:
        ConfigError: this Python was built without one.
    """
    name = sysconfig.get_config_var("INSTSONAME") or ""
    candidates = [sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL")]
    for folder in [Path(folder) for folder in candidates if folder]:
        for place in (folder, folder / (sysconfig.get_config_var("MULTIARCH") or "")):
            if ".so" in name and (place / name).exists():
                return place
    raise ConfigError(
        f"Triton's Python backend needs libpython{_python_version()}.so and this Python ({sys.executable}) has none; "
        "use a Python built with --enable-shared (distributions' own are: on Debian install libpython3-dev)"
    )


def find_in_wheel() -> EngineBinary:
    """The tritonserver of the installed nvidia-pytriton wheel.

    Raises:
        ConfigError: the wheel is missing, is not for this machine, or has no stub for this Python.
    """
    try:
        wheel = importlib.metadata.distribution(WHEEL)
    except importlib.metadata.PackageNotFoundError as error:
        hint = (
            "pip install nvidia-pytriton"
            if platform.machine() == "x86_64"
            else f"there is no wheel for {platform.machine()}: give a tritonserver with --engine PATH"
        )
        raise ConfigError(f"no tritonserver here: {hint}") from error
    site = Path(str(wheel.locate_file("")))
    server = site / "pytriton" / "tritonserver"
    path = server / "bin" / "tritonserver"
    stub = server / "python_backend_stubs" / _python_version() / STUB_NAME
    if not path.is_file() or not stub.is_file():
        raise ConfigError(
            f"the installed {WHEEL} {wheel.version} has no engine for Python {_python_version()} "
            f"({path if not path.is_file() else stub} is missing); install it again"
        )
    backend = server / "backends" / "python"
    return EngineBinary(
        path=path,
        python_backend=(*sorted(entry for entry in backend.iterdir() if entry.is_file()), stub),
        library_dirs=(site / "nvidia_pytriton.libs", _libpython_dir()),
        source=f"{WHEEL} {wheel.version}",
    )


def find_at(path: Path) -> EngineBinary:
    """A tritonserver given by path, with its Python backend in ``../backends/python`` as in Triton's own images.

    Raises:
        ConfigError: the executable or its Python backend is missing.
    """
    path = path.expanduser().absolute()
    if not path.is_file():
        raise ConfigError("--engine: no such file; give the path of a tritonserver executable", file=path)
    backend = path.parent.parent / "backends" / "python"
    if not (backend / STUB_NAME).is_file():
        raise ConfigError(
            f"--engine: {backend / STUB_NAME} is missing; the engine must come with Triton's Python backend, "
            f"its stub built for Python {_python_version()}"
        )
    files = tuple(sorted(entry for entry in backend.iterdir() if entry.is_file()))
    return EngineBinary(path, files, (path.parent.parent / "lib", _libpython_dir()), source=str(path))


def find_engine(path: Path | None) -> EngineBinary:
    """The engine at ``path``, or that of the wheel. See :func:`find_at` and :func:`find_in_wheel`."""
    return find_in_wheel() if path is None else find_at(path)
