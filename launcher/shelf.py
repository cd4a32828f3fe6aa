"""Which model files are on this machine already, and where one that is fetched will lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from launcher import found
from launcher.catalog import HubFile
from launcher.found import Candidate, Folders
from launcher.hub import Hub
from launcher.paths import Paths
from launcher.settings import Settings
from launcher.verified import Verified


class Shelf:
    """The model folder of ours, and the folders of others that are only read: the hub's cache, a demo checkout's
    ``models`` here or in the home folder, and BONSAI_MODELS_DIR. A file is what it is called once its content was read to
    the end and had the right sha256: ``check`` alone reads, all else looks."""

    def __init__(self, settings: Settings, paths: Paths, env: Mapping[str, str]) -> None:
        self._paths = paths
        self.hub = Hub(env, settings.token.value, offline=settings.offline.value)
        self.verified = Verified(paths.data)
        others = _folders_of_others(settings.models_dir.value)
        self._folders = Folders(*(folder for folder in others if folder != paths.models))

    def place(self, file: HubFile) -> Path:
        """Where ``file`` lies once we have fetched it."""
        return place_of(self._paths, file)

    def find(self, file: HubFile) -> Path | None:
        """A whole ``file`` of proved content, ours or one that was here before; None when there is none."""
        own = self.place(file)
        # What we fetched got its name when its digest was right: the published one, also where a mirror publishes
        # another than the catalog's.
        return own if self.verified.ours(own) else found.proved(self._candidates(file), self.verified)

    def unread(self, file: HubFile) -> list[Path]:
        """What may be ``file`` by name and size, and has to be read to tell; nothing where a proved one is here."""
        return [] if self.find(file) else found.unread(self._candidates(file), self.verified)

    def wrong(self, file: HubFile) -> list[Path]:
        """What has the name and size of ``file``, and was read and holds something else."""
        return found.wrong(self._candidates(file), self.verified)

    def check(self, file: HubFile, progress: Callable[[Path, int], None]) -> Path | None:
        """``find``, for which what is unread is read, until one is right. ``progress`` hears of each file and its bytes
        that were read (0: somebody else reads it at this moment); what it raises ends that."""
        return self.find(file) or found.check(self._candidates(file), self.verified, progress)

    def _candidates(self, file: HubFile) -> Iterator[Candidate]:
        """The one in our folder first. Where the catalog has no pin, its name is enough: nothing bears it before it is
        whole."""
        own = self.place(file)
        if found.sized(own, file):
            yield own, file.sha256
        yield from found.candidates(file, self._folders, self.hub)


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
