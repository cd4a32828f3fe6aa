"""Which model files are on this machine already, and where one that is fetched will lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from launcher import console
from launcher.catalog import HubFile
from launcher.found import Folders, find
from launcher.hub import Hub
from launcher.paths import Paths
from launcher.settings import Settings
from launcher.verified import Verified

LONG_READ = 500_000_000  # bytes; reading more takes long enough to be announced


class Shelf:
    """The model folder of ours, and the folders of others that are only read: the hub's cache, a demo checkout's
    ``models`` here or in the home folder, and BONSAI_MODELS_DIR. ``progress`` hears the bytes of a file that is being
    read to its end; what it raises ends that."""

    def __init__(
        self,
        settings: Settings,
        paths: Paths,
        env: Mapping[str, str],
        progress: Callable[[int], None] = lambda have: None,  # noqa: ARG005
    ) -> None:
        self._paths, self._progress = paths, progress
        self.hub = Hub(env, settings.token.value, offline=settings.offline.value)
        self.verified = Verified(paths.data, _announce)
        others = _folders_of_others(settings.models_dir.value)
        self._folders = Folders(*(folder for folder in others if folder != paths.models))

    def place(self, file: HubFile) -> Path:
        """Where ``file`` lies once we have fetched it."""
        return place_of(self._paths, file)

    def find(self, file: HubFile) -> Path | None:
        """A whole ``file``, ours or one that was here before; None when there is none. Reads a file whose content
        nobody has proved yet to its end, once."""
        own = self.place(file)
        # What we fetched got its name when its digest was right: the published one, also where a mirror publishes
        # another than the catalog's.
        if self.verified.ours(own) or self._whole(own, file):
            return own
        return find(file, self._folders, self.hub, self.verified, self._progress)

    def owns(self, path: Path) -> bool:
        """Whether ``path`` was fetched by us, so that we may delete it."""
        return self._paths.models in path.parents

    def _whole(self, path: Path, file: HubFile) -> bool:
        """By the catalog's pins. Where it has none, the name is enough: nothing bears it before it is whole."""
        with suppress(OSError):
            if path.is_file() and file.bytes in (None, path.stat().st_size):
                return file.sha256 is None or self.verified.check(path, file.sha256, self._progress)
        return False


def place_of(paths: Paths, file: HubFile) -> Path:
    """Where ``file`` lies once we have fetched it."""
    return paths.models / file.repo.replace("/", "--") / file.name


def _folders_of_others(given: str | None) -> Iterator[Path]:
    if given:
        yield Path(given).expanduser().absolute()
    with suppress(OSError):  # the folder that we were started in is gone
        yield Path.cwd() / "models"
    with suppress(RuntimeError):  # no home folder is known
        yield Path.home() / "Bonsai-demo" / "models"


def _announce(path: Path, count: int) -> None:
    if count >= LONG_READ:
        console.say(f"Reading {path} once ({count / 1e9:.1f} GB), to be sure that it is the right file ...")
