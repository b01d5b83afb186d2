"""The optional packages that importers need, checked when an importer is called."""

from __future__ import annotations

import importlib

from voxrepo_contract.errors import ConfigError

EXTRA = "convert"


def require_onnx(purpose: str = "importing a voice") -> None:
    """Check that ``onnx`` can be imported; see :func:`require`."""
    require("onnx", purpose)


def require(package: str, purpose: str, extra: str = EXTRA) -> None:
    """Check that an optional package can be imported.

    Args:
        package: its name.
        purpose: what it is needed for, for the message.
        extra: of voxrepo, that brings it.

    Raises:
        ConfigError: naming the extra to install, or why an installed package does not import.
    """
    advice = f"install the optional extra {extra!r}: pip install 'voxrepo[{extra}]'"
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{purpose} needs the package {error.name or package!r}; {advice}") from error
    except Exception as error:
        # an onnx beside an ml_dtypes too old for it raises AttributeError while it is imported
        raise ConfigError(
            f"the package {package!r} is installed but does not import ({type(error).__name__}: {error}); {advice}"
        ) from error
