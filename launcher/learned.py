"""What was learned to be best here, and is used from then on: on disk, private, undone by forgetting it.

    <data>/learned.json

An advice holds for one machine, target, drafter and engine, and for the kind of use it was measured for ("coding",
"chat"). With another of these it is not used: then it is time to measure again. It never takes the place of a value
that a person asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath

from launcher.devices import backend_of
from launcher.hardware.model import Machine
from launcher.methods import DSPARK, PLAIN, Method
from launcher.paths import Paths
from launcher.resolved import ModelFile, Resolved
from launcher.settings import Settings, Value
from launcher.store_shared import SharedFile

KINDS = ("coding", "chat")
MOST = 40  # entries that are kept; the oldest go first


@dataclass(frozen=True)
class Key:
    """What an advice holds for, each in words that change when the thing does."""

    machine: str
    target: str
    drafter: str
    engine: str

    @property
    def text(self) -> str:
        """All in one line."""
        return " | ".join((self.machine, self.target, self.drafter, self.engine))


@dataclass(frozen=True)
class Learned:
    """An advice that is in use: ``ratio`` to plain decoding, from ``low`` to ``high``; ``sure`` is high, medium or
    low; ``text`` says it in words; ``learned_at`` in seconds since 1970."""

    key: Key
    kind: str
    method: Method
    ratio: float
    low: float
    high: float
    sure: str
    text: str
    learned_at: float

    @property
    def source(self) -> str:
        """Where a setting that follows from it comes from."""
        return f"learned on this machine ({time.strftime('%Y-%m-%d', time.localtime(self.learned_at))})"


@dataclass(frozen=True)
class Shelf:
    """All that is on disk, the latest choice last."""

    entries: tuple[Learned, ...] = ()


def key_of(
    machine: Machine,
    resolved: Resolved,
    sha256: Callable[[str], str | None] = lambda path: None,  # noqa: ARG005
) -> Key:
    """The key of what would run. ``sha256`` gives a file's digest where it is known without reading the file
    (Verified.known); driver versions count by their first number alone."""
    gpus = [f"{gpu.name} ({(gpu.driver or 'unknown').partition('.')[0]})" for gpu in machine.gpus]
    engine = resolved.engine
    return Key(
        machine=", ".join([machine.cpu or "unknown processor", *gpus]),
        target=_file(resolved.target, sha256),
        drafter=_file(resolved.drafter, sha256) if resolved.drafter else "none",
        engine=f"{engine.kind} {engine.line} {engine.version}, {backend_of(engine, machine)}",
    )


def _file(model: ModelFile, sha256: Callable[[str], str | None]) -> str:
    name = PurePath(model.path.replace("\\", "/")).name
    digest = sha256(model.path)
    return f"{name}, {model.header.file_bytes} bytes" + (f", {digest[:16]}" if digest else "")


def learn(paths: Paths, entry: Learned) -> None:
    """Use ``entry`` from now on, in place of what was learned for its key and kind. Raises StoreError, FolderError."""

    def change(shelf: Shelf) -> Shelf:
        kept = [one for one in shelf.entries if (one.key, one.kind) != (entry.key, entry.kind)]
        return Shelf((*kept, entry)[-MOST:])

    _file_of(paths).change(change)


def learned(paths: Paths, key: Key, kind: str | None = None) -> Learned | None:
    """What is in use for exactly ``key``, of that kind or (None) of whichever was chosen last."""
    found = [one for one in all_learned(paths) if one.key == key and kind in (None, one.kind)]
    return found[-1] if found else None


def forget(paths: Paths, key: Key, kind: str | None = None) -> bool:
    """Undo what was learned for ``key``, of that kind or of all; whether there was anything. Raises StoreError,
    FolderError."""
    if learned(paths, key, kind) is None:
        return False
    _file_of(paths).change(
        lambda shelf: Shelf(
            tuple(one for one in shelf.entries if one.key != key or kind not in (None, one.kind))
        )
    )
    return True


def all_learned(paths: Paths) -> tuple[Learned, ...]:
    """Everything that was learned, in the order in which it was chosen. Raises StoreError."""
    return _file_of(paths).read().entries


def stale(entry: Learned, key: Key) -> tuple[str, ...]:
    """What has changed since, a sentence each; empty when ``entry`` still holds."""
    changed = []
    for part, name in (
        ("machine", "The machine"),
        ("target", "The model"),
        ("drafter", "The drafter"),
        ("engine", "The engine"),
    ):
        before, now = getattr(entry.key, part), getattr(key, part)
        if before != now:
            changed.append(f"{name} is another: {now}; it was {before}.")
    return tuple(changed)


def outdated(paths: Paths, key: Key) -> Learned | None:
    """Where nothing holds for ``key``: the advice chosen last for this target by its name, of which ``stale`` tells
    what has changed. It is the reason to ask for another measurement."""
    if learned(paths, key) is not None:
        return None
    name = key.target.partition(",")[0]
    found = [one for one in all_learned(paths) if one.key.target.partition(",")[0] == name]
    return found[-1] if found else None


def apply(settings: Settings, entry: Learned | None) -> Settings:
    """``settings`` with what was learned, where nobody asked for anything else; its source says where it is from.

    Settings can say whether to use the target's own drafter and how long its drafts are. For any other method the
    plan is made with ``chosen``.
    """
    if entry is None or settings.speculative.asked or not _sayable(entry.method):
        return settings
    on = entry.method != PLAIN
    settings = settings.with_speculative(on, entry.source)
    if on and not settings.spec_nmax.asked:
        settings = replace(settings, spec_nmax=Value(entry.method.draft_max, entry.source))
    return settings


def chosen(settings: Settings, entry: Learned | None) -> Method | None:
    """The method to plan with, where nobody asked for speculation or against it and the settings cannot say it;
    None: as the settings say."""
    if entry is None or settings.speculative.asked or _sayable(entry.method):
        return None
    return entry.method


def _sayable(method: Method) -> bool:
    return method in (PLAIN, Method(DSPARK, method.draft_max))


def _file_of(paths: Paths) -> SharedFile[Shelf]:
    return SharedFile(
        paths.data / "learned.json", Shelf, "what was learned for this machine", "bonsai-learned"
    )
