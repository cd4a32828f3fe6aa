"""Where data, cache and logs live. Nothing is made at import; folders are made when first written to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from launcher.errors import FolderError

APP = "bonsai-launcher"


@dataclass(frozen=True)
class Paths:
    """``data`` holds what is worth keeping, ``cache`` what can be made again, ``logs`` the engines' logs."""

    data: Path
    cache: Path
    logs: Path

    @property
    def config_file(self) -> Path:
        """The person's own settings, a file that may be missing."""
        return self.data / "config.toml"

    @property
    def practice(self) -> Path:
        """The practice pair, once it is written."""
        return self.data / "practice"

    @property
    def engines(self) -> Path:
        """Engines that were fetched or built, a folder each."""
        return self.data / "engines"

    @property
    def models(self) -> Path:
        """Weights and drafters that were fetched."""
        return self.data / "models"

    @property
    def run(self) -> Path:
        """Small private files of running processes, such as an engine's key."""
        return self.data / "run"


def locate(home: str | None) -> Paths:
    """Folders under ``home`` (BONSAI_HOME) when given, else the system's usual ones for this person."""
    if home is not None:
        base = Path(home).expanduser().absolute()
        return Paths(base, base / "cache", base / "logs")
    return Paths(
        Path(platformdirs.user_data_dir(APP, appauthor=False)),
        Path(platformdirs.user_cache_dir(APP, appauthor=False)),
        Path(platformdirs.user_log_dir(APP, appauthor=False)),
    )


def make_folder(folder: Path) -> Path:
    """Make ``folder`` (private to its owner) when it is not there; FolderError when that is impossible."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(
            f"The folder {folder} cannot be made: {os.strerror(error.errno or 0)}.",
            "Choose another with BONSAI_HOME, or free it.",
        ) from error
    return folder


def write_private(path: Path, text: str) -> None:
    """Write a line that only its owner may read (0600), such as a key; FolderError when that is impossible."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text + "\n")
    except OSError as error:
        raise FolderError(
            f"The file {path} cannot be written: {error.strerror}.", "Choose another BONSAI_HOME."
        ) from error


def read_config(paths: Paths) -> str:
    """The config file's text, empty when there is none."""
    try:
        return paths.config_file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise FolderError(f"The config file {paths.config_file} cannot be read: {error}.") from error
