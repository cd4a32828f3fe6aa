"""Brings what is lacking to this machine: engine, weights, drafter; can pause, resume and be tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from launcher import engine_store, fetch, releases
from launcher.catalog import Build, HubFile, Line
from launcher.disk import check_space
from launcher.errors import Cancelled, LauncherError, NetworkProblem, NotAnEngine
from launcher.fetch import Control, Network, Progress, Remote
from launcher.fetch_types import FetchState, Offer
from launcher.hardware.model import Machine
from launcher.offer import make_offer
from launcher.paths import Paths, make_folder
from launcher.settings import Settings
from launcher.shelf import Shelf
from launcher.wants import items_of, total, wanted

PUBLISH_S = 0.1  # between two reports of mere progress


class FetchJob:
    """One fetch of everything that ``settings`` need on this machine. Thread-safe; ``run`` does the work on the
    caller's thread, ``begin`` on one of its own. ``engine_only``: leaves the models alone."""

    def __init__(
        self,
        settings: Settings,
        paths: Paths,
        env: Mapping[str, str],
        machine: Callable[[], Machine],
        *,
        engine_only: bool = False,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._paths, self._env, self._machine = settings, paths, dict(env), machine
        self._engine_only, self._done = engine_only, done
        self._lock = threading.Lock()
        self._state = FetchState("idle", (), None, 0)
        self._callbacks: list[Callable[[FetchState], None]] = []
        self._control = Control()
        self._thread: threading.Thread | None = None
        self._published = 0.0

    # --- for the page and the terminal ---

    def state(self) -> FetchState:
        """How far it is."""
        with self._lock:
            return self._state

    def on_change(self, callback: Callable[[FetchState], None]) -> Callable[[], None]:
        """``callback`` hears of every change, on the job's thread; the returned function ends that."""
        with self._lock:
            self._callbacks.append(callback)

        def off() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return off

    def begin(self) -> None:
        """Start on a thread of its own; does nothing while it runs."""
        with self._lock:
            if self._thread and self._thread.is_alive():
                return
            self._control = Control()
            self._state = FetchState("looking", self._state.items, self._state.total, self._state.have)
            self._thread = threading.Thread(target=self._run_quietly, name="fetch", daemon=True)
            self._thread.start()
        self._tell()

    retry = begin

    def pause(self) -> None:
        """Stop fetching until ``resume``; what is here stays."""
        self._control.pause()
        if self.state().phase in ("running", "looking"):
            self._tell(phase="paused", rate=None, left_s=None)

    def resume(self) -> None:
        """Go on after ``pause``."""
        self._control.resume()
        if self.state().phase == "paused":
            self._tell(phase="running")

    def cancel(self) -> None:
        """Give up; what is here stays, and another start goes on from it."""
        self._control.cancel()

    def close(self) -> None:
        """Cancel and wait until the thread has ended."""
        self.cancel()
        thread = self._thread
        if thread is not None:
            thread.join(10)

    # --- the work ---

    def run(self) -> None:
        """Fetch everything, on this thread. Raises LauncherError; what is complete by then stays."""
        self._tell(phase="looking", error="", remedy="")
        shelf = Shelf(self._settings, self._paths, self._env)
        wants = wanted(
            self._settings, self._paths, self._env, self._machine(), shelf, engine_only=self._engine_only
        )
        items = items_of(wants, self._paths, shelf)
        self._tell(items=items)
        if all(item.state == "done" for item in items):
            self._tell(phase="done")
            return
        if self._settings.offline.value:
            raise NetworkProblem(
                f"{wants.label} is not complete on this machine, and BONSAI_OFFLINE forbids to fetch it.",
                "Unset BONSAI_OFFLINE once, or use the practice pair: BONSAI_MODEL=practice.",
            )
        network = Network(self._env)
        absent = [(part, file) for part, file, place in wants.files if place is None]
        remotes = {part: shelf.hub.remote(file) for part, file in absent}
        for part, remote in remotes.items():
            self._change(part, total=remote.total, note=" ".join(shelf.hub.notices))
        check_space({shelf.place(file): remotes[part].total for part, file in absent})
        self._tell(phase="paused" if self._control.paused else "running")
        if wants.line is not None and wants.here is None:
            self._fetch_engine(wants.line, wants.builds, network)
        for part, file in absent:
            self._fetch_file(part, file, remotes[part], shelf, network)
        self._tell(phase="done", rate=None, left_s=None)

    def _run_quietly(self) -> None:
        try:
            self.run()
        except Cancelled:
            self._tell(phase="cancelled", rate=None, left_s=None)
        except LauncherError as error:
            self._fail(error)
        except Exception as error:  # the page must hear of it; the thread's end would be silent
            self._fail(LauncherError(f"Fetching failed: {type(error).__name__}: {error}", "Try again."))
        else:
            self._done()

    def _fail(self, error: LauncherError) -> None:
        running = {item.name for item in self.state().items if item.state not in ("done", "waiting")}
        with self._lock:
            items = tuple(
                replace(item, state="failed") if item.name in running else item for item in self._state.items
            )
            self._state = replace(self._state, items=items)
        self._tell(phase="failed", error=error.what, remedy=error.remedy, rate=None, left_s=None)

    def _fetch_engine(self, line: Line, builds: Sequence[Build], network: Network) -> None:
        """The first of ``builds`` that runs here."""
        for build, following in zip_longest(builds, builds[1:]):
            try:
                self._fetch_build(line, build, network)
            except NotAnEngine as error:
                if following is None:
                    raise
                note = (
                    f"the {_called(build)} build does not run here: {error.what} Trying {_called(following)}."
                )
                self._change("engine", name=following.assets[0].name, note=note, have=0, total=None)
            else:
                return

    def _fetch_build(self, line: Line, build: Build, network: Network) -> None:
        downloads = make_folder(self._paths.cache / "downloads")
        remotes = releases.find_assets(line, build.assets, network, self._settings.releases_url.value)
        self._change("engine", total=total([remote.total for remote in remotes]))
        archives, before = [], 0
        for remote, asset in zip(remotes, build.assets, strict=True):
            archive = downloads / f"{line.tag}-{asset.name}"
            self._bring("engine", remote, archive, network, before)
            archives.append(archive)
            before += archive.stat().st_size
        where = engine_store.install(
            self._paths.engines, line, build, archives, lambda step: self._change("engine", state=step)
        )
        for archive in archives:
            archive.unlink(missing_ok=True)
        self._change(
            "engine", state="done", have=before, total=before, where=str(where), rate=None, left_s=None
        )

    def _fetch_file(self, part: str, file: HubFile, remote: Remote, shelf: Shelf, network: Network) -> None:
        target = shelf.place(file)
        make_folder(target.parent)
        digest = self._bring(part, remote, target, network)
        shelf.verified.remember(target, digest)
        size = target.stat().st_size
        self._change(part, state="done", have=size, total=size, rate=None, left_s=None)

    def _bring(self, part: str, remote: Remote, target: Path, network: Network, before: int = 0) -> str:
        """``before``: bytes of the same item that came already with another archive."""
        # Whatever bears this name is ours and not what was wanted, or it would have been found.
        target.unlink(missing_ok=True)

        def progress(news: Progress) -> None:
            self._change(
                part,
                quiet=True,
                state="checking" if news.phase == "checking" else "running",
                have=before + news.have,
                rate=news.rate,
                left_s=_left(news),
                note=news.note,
            )

        self._change(part, state="running")
        return fetch.fetch(remote, target, network, progress, self._control)

    # --- the state ---

    def _change(self, part: str, *, quiet: bool = False, **changes: object) -> None:
        """Change one item; ``quiet``: mere progress, which is told ten times a second at most."""
        with self._lock:
            items = tuple(
                replace(item, **changes) if item.part == part else item  # type: ignore[arg-type]
                for item in self._state.items
            )
            rate = next((item.rate for item in items if item.state == "running"), None)
            size, have = total([item.total for item in items]), sum(item.have for item in items)
            left = (size - have) / rate if rate and size is not None else None
            self._state = replace(self._state, items=items, total=size, have=have, rate=rate, left_s=left)
            now = time.monotonic()
            if quiet and now - self._published < PUBLISH_S:
                return
            self._published = now
        self._tell()

    def _tell(self, **changes: object) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)  # type: ignore[arg-type]
            state, callbacks = self._state, list(self._callbacks)
        for callback in callbacks:
            callback(state)


def _called(build: Build) -> str:
    return f"{build.backend} {build.cuda}" if build.cuda else build.backend


def _left(news: Progress) -> float | None:
    return (news.total - news.have) / news.rate if news.rate and news.total is not None else None


class Fetching(FetchJob):
    """The page's fetch: offers what is lacking, and has the model used once it is here."""

    def __init__(
        self,
        settings: Settings,
        paths: Paths,
        env: Mapping[str, str],
        machine: Callable[[], Machine],
        use: Callable[[], None],
    ) -> None:
        super().__init__(settings, paths, env, machine, done=use)
        self.use = use

    def offer(self) -> Offer | None:
        """What could be fetched; None when all is here. Looks at the disk: off the event loop, please."""
        return make_offer(self._settings, self._paths, self._env, self._machine())
