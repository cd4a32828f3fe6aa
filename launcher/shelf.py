"""Which model files are on this machine already, and where one that is fetched will lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.catalog import HubFile
from launcher.found import find
from launcher.hub import Hub
from launcher.paths import Paths
from launcher.settings import Settings
from launcher.verified import Verified


class Shelf:
    """The model folder of ours, and the folders of others that are only read: the hub's cache, a demo checkout's
    ``models`` here or in the home folder, and BONSAI_MODELS_DIR."""

    def __init__(self, settings: Settings, paths: Paths, env: Mapping[str, str]) -> None:
        self._paths = paths
        self.hub = Hub(env, settings.token.value, offline=settings.offline.value)
        self.verified = Verified(paths.data)
        given = settings.models_dir.value
        self._folders = tuple(
            folder
            for folder in (
                *([Path(given).expanduser().absolute()] if given else []),
                Path.cwd() / "models",
                Path.home() / "Bonsai-demo" / "models",
            )
            if folder.is_dir() and folder != paths.models
        )

    def place(self, file: HubFile) -> Path:
        """Where ``file`` lies once we have fetched it."""
        return self._paths.models / file.repo.replace("/", "--") / file.name

    def find(self, file: HubFile, progress: Callable[[int], None] = lambda have: None) -> Path | None:  # noqa: ARG005
        """A whole ``file``, ours or one that was here before; None when there is none. Reads a file whose content
        nobody has proved yet to its end, once; ``progress`` hears the bytes read."""
        own = self.place(file)
        # It got its name from us when its digest was right: the published one, also where a mirror publishes another
        # than the catalog's.
        if self.verified.known(own) or self._whole(own, file, progress):
            return own
        return find(file, self._folders, self.hub, self.verified)

    def owns(self, path: Path) -> bool:
        """Whether ``path`` was fetched by us, so that we may delete it."""
        return self._paths.models in path.parents

    def _whole(self, path: Path, file: HubFile, progress: Callable[[int], None]) -> bool:
        try:
            size = path.stat().st_size
        except OSError:
            return False
        if file.bytes is not None and size != file.bytes:
            return False
        return file.sha256 is None or self.verified.check(path, file.sha256, progress)
