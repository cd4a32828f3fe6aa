"""Brings what is lacking to this machine: engine, weights, drafter; can pause, resume and be tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from launcher import engine_install, engine_store, fetch, releases
from launcher.catalog import Build, HubFile, Line
from launcher.choose_builds import build_name
from launcher.chosen import Now, always
from launcher.disk import check_space
from launcher.errors import Cancelled, LauncherError, NetworkProblem, NotAnEngine
from launcher.fetch import Control, Network, Progress, Remote
from launcher.fetch_found import Reading, go_on, read_found
from launcher.fetch_told import Told
from launcher.hardware.model import Machine
from launcher.paths import Paths, make_folder
from launcher.settings import Settings
from launcher.shelf import Shelf
from launcher.wants import Wants, items_of, total, wanted

UNPACKED = 3  # times the size of an engine's archives
BUSY = ("looking", "checking", "running", "paused")
AT_REST = ("idle", "failed", "cancelled", "done")
NOTHING: Mapping[str, object] = {"items": (), "total": None, "have": 0, "rate": None, "left_s": None}


class FetchJob(Told):
    """One fetch of everything that ``settings`` need on this machine. Thread-safe; ``run`` does the work on the
    caller's thread, ``begin`` on one of its own. Settings that may change are asked for once by
    each work that begins. ``engine_only``: leaves the models alone."""

    def __init__(
        self,
        settings: Settings | Now,
        paths: Paths,
        env: Mapping[str, str],
        machine: Callable[[], Machine],
        *,
        engine_only: bool = False,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._now, self._paths, self._env, self._machine = always(settings), paths, dict(env), machine
        self._settings = self._now()  # of the work that was begun last
        self._engine_only, self._done = engine_only, done
        self._control = Control()
        self._turn = threading.Lock()  # held by whoever lets another work begin
        self._thread: threading.Thread | None = None
        self._files_room: dict[Path, int | None] = {}  # what the models' files take, by place

    # --- for the page and the terminal ---

    def begin(self) -> None:
        """Start on a thread of its own, or again after an end; does nothing while it runs."""
        with self._turn, self._lock:
            if self._state.phase in BUSY:
                return
            self._control.cancel()  # a look for what is unread, which this one takes over
            self._control = Control()
            self._state = replace(self._state, phase="looking", error="", remedy="")
            self._go(self._run_quietly)
        self._tell()

    retry = begin

    def begin_check(self) -> None:
        """Read what lies here and nobody has read yet, on a thread of its own; fetches nothing, and tells nothing where
        nothing is unread. Then ``done`` is called, if a part was right."""
        with self._turn, self._lock:
            if self._state.phase in BUSY:
                return
            self._control.cancel()
            self._control = Control()
            self._go(self._check_quietly, self._control)

    def _go(self, work: Callable[..., None], *given: object) -> None:
        """With the lock held."""
        before = self._thread
        self._thread = threading.Thread(target=work, args=(before, *given), name="fetch", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stop fetching until ``resume``; what is here stays."""
        with self._lock:
            control, busy = self._control, self._state.phase in BUSY
        if busy:
            control.pause()
            self._tell(only_from=("running", "looking"), phase="paused", rate=None, left_s=None)

    def resume(self) -> None:
        """Go on after ``pause``."""
        with self._lock:
            self._control.resume()
        self._tell(only_from=("paused",), phase="running")

    def cancel(self) -> None:
        """Give up; what is here stays, and another start goes on from it."""
        with self._lock:
            self._control.cancel()

    def close(self) -> None:
        """Cancel and wait until the thread has ended."""
        self.cancel()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(10)

    # --- the work ---

    def check(self) -> None:
        """Read what lies here and nobody has read yet, on this thread; fetches nothing. The next look then knows what it
        is. Raises LauncherError."""
        self._read(self._begun(), self._control, AT_REST)
        self._tell(("checking",), phase="idle", **NOTHING)

    def run(self) -> None:
        """Fetch everything, on this thread; what lies here is read before. Raises LauncherError; what is complete by
        then stays."""
        self._sticky.clear()
        self._tell(phase="looking", error="", remedy="")
        shelf = self._begun()
        wants, reading = self._read(shelf, self._control, ("looking", "paused"))
        self._tell(("checking",), phase="looking")
        items = items_of(wants, self._paths, shelf)
        self._tell(items=items, total=total([it.total for it in items]), have=sum(it.have for it in items))
        if reading.problems:  # more would have to come than anybody was told
            raise reading.problems[0]
        if all(item.state == "done" for item in items):
            self._tell(phase="done")
            return
        if self._settings.offline.value:
            raise forbidden(wants.label)
        network = Network(self._env)
        absent = [(part, file) for part, file, place in wants.files if place is None]
        if absent:  # a folder that cannot be is told before anybody is asked
            make_folder(self._paths.models)
        remotes = {}
        for part, file in absent:
            self._check()
            before = shelf.hub.notices
            remotes[part] = shelf.hub.remote(file)
            self._sticky[part] = " ".join(it for it in shelf.hub.notices if it not in before)
            self._change(part, total=remotes[part].total, note=self._sticky[part])
        self._files_room = {shelf.place(file): remotes[part].total for part, file in absent}
        check_space(self._files_room)
        self._check()
        self._tell(phase="paused" if self._control.paused else "running")
        if wants.line is not None and wants.here is None:
            self._fetch_engine(wants.line, wants.builds, network)
        for part, file in absent:
            self._fetch_file(part, file, remotes[part], shelf, network)
        self._tell(phase="done", rate=None, left_s=None)

    def _begun(self) -> Shelf:
        """By the settings of now, for everything until the next work begins."""
        self._settings = self._now()
        return Shelf(self._settings, self._paths, self._env)

    def _look(self, shelf: Shelf) -> Wants:
        machine, alone = self._machine(), self._engine_only
        return wanted(self._settings, self._paths, self._env, machine, shelf, engine_only=alone)

    def _read(self, shelf: Shelf, control: Control, only_from: tuple[str, ...]) -> tuple[Wants, Reading]:
        """What is wanted, once all that lies here was read, and what came of that; the phase is "checking" then, if it
        was one of ``only_from`` before."""
        wants = self._look(shelf)
        go_on(control)
        if not wants.unread:
            return wants, Reading()
        found = tuple(it for it in items_of(wants, self._paths, shelf) if it.state == "found")
        begins = {"items": found, "total": total([it.total for it in found]), "have": 0}
        self._tell(only_from, phase="checking", error="", remedy="", **begins)
        reading = read_found(wants, shelf, self._change, control)
        return self._look(shelf), reading

    def _check_quietly(self, before: threading.Thread | None, control: Control) -> None:
        try:
            if before is not None:
                before.join()
            shelf = self._begun()
            wants, reading = self._read(shelf, control, AT_REST)
        except LauncherError:  # nobody has asked; whoever does is told
            self._tell(("checking",), phase="idle", **NOTHING)
        except Exception as error:
            self._fail(_unexpected(error))
        else:
            if not reading:
                return
            items = items_of(wants, self._paths, shelf)
            if all(item.state == "done" for item in items):
                sizes = total([it.total for it in items])
                have = sum(it.have for it in items)
                self._tell(("checking",), phase="done", items=items, total=sizes, have=have)
            else:
                self._tell(("checking",), phase="idle", **NOTHING)
            if reading.right:
                self._done()

    def _run_quietly(self, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # it has told its end already, and ends
        try:
            self.run()
        except Cancelled:
            self._stop()
            self._tell(phase="cancelled", rate=None, left_s=None)
        except LauncherError as error:
            self._fail(error)
        except Exception as error:  # the page must hear of it; the thread's end would be silent
            self._fail(_unexpected(error))
        else:
            self._done()

    def _check(self) -> None:
        """Cancelled when the person has given up."""
        go_on(self._control)

    def _fail(self, error: LauncherError) -> None:
        self._stop(failed="failed")
        self._tell(phase="failed", error=error.what, remedy=error.remedy, rate=None, left_s=None)

    def _fetch_engine(self, line: Line, builds: Sequence[Build], network: Network) -> None:
        """The first of ``builds`` that runs here."""
        tried: dict[str, str] = {}
        left = list(builds)
        while left:
            build = left.pop(0)
            try:
                self._fetch_build(line, build, network, tried)
            except NotAnEngine as error:
                for it in (build, *(it for it in left if _same_trouble(it, build, error))):
                    tried[engine_store.folder_name(line, it)] = error.what
                left = [it for it in left if engine_store.folder_name(line, it) not in tried]
                if not left:
                    raise
                self._next_build(line, build, left[0], error)
            else:
                here = engine_store.find(self._paths.engines, line, builds) if tried else None
                if here:
                    self._change("engine", note=here.notice)
                return

    def _next_build(self, line: Line, failed: Build, following: Build, error: NotAnEngine) -> None:
        # Kept only while it is the last hope: a later try then needs no second fetch.
        for archive in self._archives(line, failed):
            archive.unlink(missing_ok=True)
        self._sticky["engine"] = f"{error.what} Trying {build_name(line, following)} instead."
        self._change(
            "engine",
            name=following.assets[0].name,
            note=self._sticky["engine"],
            state="running",
            have=0,
            total=total([asset.bytes for asset in following.assets]),
        )

    def _archives(self, line: Line, build: Build) -> list[Path]:
        return [self._paths.cache / "downloads" / f"{line.tag}-{asset.name}" for asset in build.assets]

    def _fetch_build(self, line: Line, build: Build, network: Network, tried: Mapping[str, str]) -> None:
        self._check()
        where = engine_store.installed(self._paths.engines, line, build)
        if where:  # somebody else was quicker
            self._change("engine", state="done", where=str(where))
            return
        make_folder(self._paths.cache / "downloads")
        remotes = releases.find_assets(line, build.assets, network, self._settings.releases_url.value)
        archives = self._archives(line, build)
        sizes = [remote.total for remote in remotes]
        self._change("engine", total=total(sizes))
        room = {archive: size for archive, size in zip(archives, sizes, strict=True) if not archive.exists()}
        unpacked = self._paths.engines / engine_store.folder_name(line, build)
        # Together with the files that come after it: better no engine than one and no room for its model.
        check_space(self._files_room | room | {unpacked: UNPACKED * sum(size or 0 for size in sizes)})
        before = 0
        for remote, archive in zip(remotes, archives, strict=True):
            self._bring("engine", remote, archive, network, before)
            before += archive.stat().st_size
        where = engine_install.install(
            self._paths.engines,
            line,
            build,
            archives,
            lambda step: self._change("engine", state=step, rate=None, left_s=None),
            instead_of=tried,
            wait=self._check,
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
        sticky = self._sticky.get(part, "")

        def progress(news: Progress) -> None:
            self._change(
                part,
                quiet=True,
                state="checking" if news.phase == "checking" else "running",
                have=before + news.have,
                rate=news.rate,
                left_s=_left(news),
                note=news.note or sticky,
            )

        self._change(part, state="running")
        # Whatever else bears this name in a folder of ours is not what was wanted, or it would have been found.
        return fetch.fetch(remote, target, network, progress, self._control, replace=True)


def _unexpected(error: Exception) -> LauncherError:
    return LauncherError(f"Fetching failed: {type(error).__name__}: {error}", "Try again.")


def forbidden(label: str) -> NetworkProblem:
    """The error where ``label`` is not all here and nothing may be fetched."""
    return NetworkProblem(
        f"{label} is not complete on this machine, and BONSAI_OFFLINE forbids to fetch it.",
        "Unset BONSAI_OFFLINE once, or use the practice pair: BONSAI_MODEL=practice.",
    )


def _same_trouble(other: Build, failed: Build, error: NotAnEngine) -> bool:
    """Whether ``other`` lacks the library that ``failed`` lacks: builds for one CUDA generation need the same ones."""
    generation = (failed.backend, (failed.cuda or "").partition(".")[0])
    return "the shared library" in error.what and generation == (
        other.backend,
        (other.cuda or "").partition(".")[0],
    )


def _left(news: Progress) -> float | None:
    return (news.total - news.have) / news.rate if news.rate and news.total is not None else None
