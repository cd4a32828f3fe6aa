"""The launcher as a real child process: ``bonsai`` with its page, in a home of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.campaign.browser import Browser
from tests.campaign.leftovers import engine_pids, ours
from tests.campaign.trial import Broken, Trial
from tests.campaign.world import engine_env, paths_of
from tests.conftest import ROOT, clean_environment, free_port

PR_CAPBSET_DROP = 24  # linux/prctl.h
BEYOND_PERMISSIONS = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH of linux/capability.h


class Launched:
    """``limit``: bytes that no file of it may exceed, as on a full disk. ``ordinary``: permissions hold for it even when
    this process is root's."""

    def __init__(
        self,
        trial: Trial,
        engine: str | Path,
        *,
        home: Path | None = None,
        port: int | None = None,
        limit: int | None = None,
        ordinary: bool = False,
    ) -> None:
        self.trial, self.engine = trial, engine
        self.home = home or trial.folder / "home"
        paths_of(trial, self.home)
        self.port = port or free_port()
        self.name = f"launcher-{self.port}"
        env = clean_environment({"BONSAI_HOME": str(self.home), "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)})
        command = [sys.executable, "-m", "launcher", "--no-browser", "--ui-port", str(self.port)]
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                env=env | engine_env(trial, engine),
                cwd=trial.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=_before(limit, ordinary=ordinary),  # noqa: PLW1509
            )
        self.began = time.monotonic()
        self.browser = Browser(f"http://127.0.0.1:{self.port}")
        trial.stack.callback(self.give_up)

    @property
    def output(self) -> Path:
        return self.trial.folder / f"{self.name}.txt"

    @property
    def said(self) -> str:
        """What it has written on its terminal."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def open(self, seconds: float = 60) -> Browser:
        """Wait for its page."""
        if not self.browser.open(seconds, lambda: not self.lives):
            raise Broken(f"the page has not come (status {self.process.poll()}): {self.said[-500:]}")
        self.browser.set(temperature=0, seed=1, max_tokens=120)
        return self.browser

    def ready(self, seconds: float = 60, *, but: int | None = None) -> int:
        """Wait until its engine is ready, another one than ``but``; its number."""
        engines: list[int] = []

        def there() -> bool:
            engines[:] = [pid for pid in engine_pids(self.home) if pid != but]
            return bool(engines) and self.browser.phase() == "ready"

        self.trial.wait(there, seconds, f"the engine to be ready: {self.browser.status()}")
        return engines[-1]

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def ended(self, seconds: float) -> int:
        """Its exit status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Broken(f"the launcher still runs after {seconds:g} s: {self.said[-500:]}") from None

    def end(self, seconds: float = 15) -> int:
        """As a closed session does."""
        self.send(signal.SIGTERM)
        return self.ended(seconds)

    def give_up(self) -> None:
        self.browser.close()
        if self.lives:
            self.process.kill()
            self.process.wait()
        for process in ours(self.home):
            with contextlib.suppress(Exception):
                process.kill()


def _before(limit: int | None, *, ordinary: bool) -> Callable[[], None]:
    prctl: Any = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the campaign runs under nohup
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if ordinary and os.getuid() == 0 and prctl is not None:
            for capability in BEYOND_PERMISSIONS:
                prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)

    return prepare
