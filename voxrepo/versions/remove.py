"""Removing a version that nobody uses."""

from __future__ import annotations

from voxrepo.convert.staging import alone_in, existing_versions, staging_folder, sync
from voxrepo.repository.layout import Layout
from voxrepo.versions.names import StageRef
from voxrepo.versions.use import uses_of
from voxrepo_contract.errors import AlreadyExists, ConfigError, NotFound


def remove_version(layout: Layout, ref: StageRef, version: int) -> None:
    """Remove a version: it is gone from the repository in one step.

    Raises:
        NotFound: it is not there.
        AlreadyExists: somebody uses it, or it is the last one.
        ConfigError: nobody can say who uses it, another change is at work, or it cannot be removed.
    """
    folder = layout.version_dir(ref.model, version)
    try:
        with alone_in(layout.model_repository):
            numbers = existing_versions(folder.parent)
            if version not in numbers:
                raise NotFound(
                    f"{ref.model} has no version {version}; there are: {', '.join(map(str, numbers)) or 'none'}"
                )
            users = uses_of(layout, ref.voice).get(ref.stage, {}).get(version, [])
            if users:
                raise AlreadyExists(
                    f"{ref.model} version {version} is in use ({'; '.join(users)}); end that use first, then remove it"
                )
            if len(numbers) == 1:
                raise AlreadyExists(f"{ref.model} version {version} is the only one; a stage needs a version")
            with staging_folder(layout.model_repository) as staging:
                folder.rename(staging / str(version))
                sync(folder.parent)
    except OSError as error:
        raise ConfigError(f"cannot be removed: {error.strerror}", file=error.filename or folder) from error
