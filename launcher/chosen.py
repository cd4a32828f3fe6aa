"""The model that a person has chosen from now on: a line of the config file, and whoever asks is told what holds now."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher import catalog, config_edit, store_files
from launcher.choose_model import named
from launcher.errors import BadInput, FolderError
from launcher.fetch_lock import only_one
from launcher.hardware.model import Machine
from launcher.model_list import refuse_what_cannot_run
from launcher.paths import Paths, make_folder
from launcher.settings import AUTO, FAMILIES, PRACTICE_MODELS, SPECS, Settings, is_path, resolve

Now = Callable[[], Settings]
LOCK_S = 5.0  # for another launcher that writes the same file: it takes it a moment
_STEP_S = 0.02


def always(settings: Settings | Now) -> Now:
    """What to ask for the settings of now, where they may be ones that never change."""
    if isinstance(settings, Settings):
        return lambda: settings
    return settings


class Chosen:
    """Settings whose model can change while the page runs. Thread-safe.

    ``now``: what is asked for; ``in_use``: what the engine is to run, which stays the same as long as the files of
    another choice are not here: ``adopt`` says that they are.
    """

    def __init__(self, settings: Settings, paths: Paths) -> None:
        self._now = self._in_use = settings
        self._paths = paths
        self._lock = threading.Lock()

    def now(self) -> Settings:
        """The settings with what was chosen last."""
        with self._lock:
            return self._now

    def in_use(self) -> Settings:
        """The settings with what was adopted last."""
        with self._lock:
            return self._in_use

    def adopt(self) -> None:
        """What is chosen is in use from now on."""
        with self._lock:
            self._in_use = self._now

    def fixed(self) -> str:
        """Why nothing can be chosen: what comes before the config file; or empty."""
        return fixed(self.now(), self._paths)

    def choose(self, name: str, machine: Callable[[], Machine]) -> None:
        """``name``: as `bonsai models` shows it, or "auto", which takes back every choice; written into the config file.

        Raises BadInput for a name that is unknown and where something else comes before the file, PlanRefused for a
        model that cannot run on the ``machine``, SettingsError and FolderError for a file that cannot be read or written.
        """
        settings = self.now()
        reason = fixed(settings, self._paths)
        if reason:
            raise BadInput(reason, "Leave it out, and start Bonsai again, to choose here.")
        values = _values(settings, self._paths, machine, name)
        text = _write(self._paths, values, name)
        with self._lock:
            self._now = _told(self._now, text, self._paths)


def fixed(settings: Settings, paths: Paths) -> str:
    """A sentence where a variable or a flag says which model, which no choice can change; or empty."""
    for setting in (settings.model, settings.family):
        if setting.asked and not setting.source.startswith(_own(paths)):
            return f"{setting.source} asks for {setting.value}, and comes before what is chosen."
    return ""


def _own(paths: Paths) -> str:
    """How a source in the config file begins."""
    return f"{paths.config_file}, line "


def _values(
    settings: Settings, paths: Paths, machine: Callable[[], Machine], name: str
) -> Mapping[str, str | None]:
    """What the file is to say for the choice ``name``; None: nothing."""
    word = name.strip().lower()
    if word == AUTO:
        return {"model": None, "family": None}
    if word in PRACTICE_MODELS:
        return {"model": word, "family": None}
    if is_path(name) and name.rpartition("/")[0].lower() not in FAMILIES:
        raise BadInput(
            f"{name} is a file, not a model's name.",
            f'`bonsai models` shows the names; for a file write model = "PATH" into {paths.config_file}.',
        )
    model = named(settings, name.strip(), catalog.load())
    refuse_what_cannot_run(settings, paths, machine(), model)
    # The first family is meant where none is named.
    return {"model": model.name, "family": model.family if model.family not in ("", FAMILIES[0]) else None}


def _write(paths: Paths, values: Mapping[str, str | None], name: str) -> str:
    """The file's new text."""
    make_folder(paths.data)
    by_hand = f"Set BONSAI_MODEL={name.rpartition('/')[2]} instead, or make the file writable."
    # A link leads to where the person keeps the file.
    path = Path(os.path.realpath(paths.config_file))
    began = time.monotonic()

    def wait() -> None:
        if time.monotonic() - began > LOCK_S:
            raise FolderError(f"Another Bonsai is writing {paths.config_file}.", "Try again.")
        time.sleep(_STEP_S)

    try:
        with only_one(paths.data / ".config.lock", wait):
            before = _read(path)
            resolve(
                {"allow_remote": "1"}, {}, before, str(paths.config_file)
            )  # one that is broken is left alone
            after: str | None = before
            for key, value in values.items():
                after = config_edit.with_value(after, key, value) if after is not None else None
            if after is None:
                raise FolderError(
                    f"{paths.config_file} says what the model is in a way that cannot be changed without touching more.",
                    "Write it on one line, or change it yourself.",
                )
            if after != before:
                _replace(path, after)
            return after
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise FolderError(
            f"The config file {paths.config_file} cannot be written: {reason}.", by_hand
        ) from error
    except FolderError as error:
        if isinstance(error.__cause__, OSError):  # of the lock's file, which nobody knows
            reason = os.strerror(error.__cause__.errno or 0)
            raise FolderError(
                f"The config file {paths.config_file} cannot be written: {reason}.", by_hand
            ) from error
        raise


def _read(path: Path) -> str:
    """As it is, ends of lines included."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise FolderError(f"The config file {path} cannot be read: {error}.") from None


def _replace(path: Path, text: str) -> None:
    """Whole or not at all; who may read it stays so."""
    mode = None
    with suppress(OSError):
        mode = path.stat().st_mode & 0o777
    store_files.write(path, text.encode("utf-8"))
    if mode is not None:
        with suppress(OSError):
            path.chmod(mode)


def _told(before: Settings, text: str, paths: Paths) -> Settings:
    """``before`` with what ``text`` says of the model; where other values stand may have changed, too."""
    told = resolve({"allow_remote": "1"}, {}, text, str(paths.config_file))
    changes: dict[str, Any] = {"model": told.model, "family": told.family}
    for spec in SPECS:
        old, new = getattr(before, spec.name), getattr(told, spec.name)
        ours = old.source.startswith(_own(paths)) and new.source.startswith(_own(paths))
        if ours and spec.name not in changes and old.value == new.value:
            changes[spec.name] = new
    return replace(before, **changes)


def choose_here(
    settings: Settings, paths: Paths, machine: Callable[[], Machine], name: str
) -> tuple[str, Settings]:
    """Choose on the terminal: what was done, in a sentence, and the settings of now. Raises as ``Chosen.choose``."""
    chosen = Chosen(settings, paths)
    chosen.choose(name, machine)
    now = chosen.now()
    if not now.model.asked:
        return (
            f"The model is chosen by itself from now on; {paths.config_file} says nothing of it any more.",
            now,
        )
    practice = now.model.value in PRACTICE_MODELS
    what = "The practice pair" if practice else named(now, now.model.value, catalog.load()).label
    return f"{what} is the model from now on ({now.model.source}).", now
