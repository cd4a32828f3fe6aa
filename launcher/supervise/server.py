"""One llama-server as a child process: start, readiness, log, stop. Only its owner's thread calls it."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from launcher.child_env import clean_env
from launcher.embedded import WITH_PARENT
from launcher.errors import EngineDied, EngineMissing, FolderError
from launcher.paths import make_folder, write_private
from launcher.plan import LaunchPlan
from launcher.supervise import ports

if sys.platform == "win32":
    from launcher.supervise import _windows as process
else:
    from launcher.supervise import _posix as process

POLL_S = 0.05
STOP_S = 10.0  # a busy llama-server ends within a second of SIGTERM
SILENCE_S = 600.0  # without a new log line or an answer while loading: something is stuck
TAIL_LINES = 30


class Server:
    """Starts ``plan`` and owns the child. The key and alias of the run prove that it is ours that answers."""

    def __init__(self, plan: LaunchPlan, logs: Path, run: Path, env: dict[str, str]) -> None:
        self.plan = plan
        self.log_path = make_folder(logs) / f"llama-server-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        self.api_key = secrets.token_urlsafe(24)
        self.alias = f"bonsai-{secrets.token_hex(6)}"
        self._key_file = make_folder(run) / f"{self.alias}.key"
        # No config.ini of llama.cpp in the person's folder may change what was planned.
        self._env = clean_env(env) | {"XDG_CONFIG_HOME": str(run)} | dict(plan.env)
        self._child: subprocess.Popen[bytes] | None = None
        self.port = plan.port

    @property
    def base_url(self) -> str:
        host = f"[{self.plan.host}]" if ":" in self.plan.host else self.plan.host
        return f"http://{host}:{self.port}"

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self, cancel: threading.Event, progress: Callable[[str], None]) -> None:
        """Spawn and wait until our own server answers. Raises EngineDied (with the log's tail) when it
        ends or stands still, PortTaken for a port asked for by name; ``cancel`` stops it and returns."""
        self.port = ports.choose(
            self.plan.host, self.plan.port, asked_by="BONSAI_PORT" if self.plan.port_asked else None
        )
        write_private(self._key_file, self.api_key)
        argv = self.plan.command(self.port, "--alias", self.alias, "--api-key-file", str(self._key_file))
        if self.plan.resolved.engine.kind == "embedded":
            argv.append(WITH_PARENT)
        try:
            log = self.log_path.open("wb")
        except OSError as error:
            self._key_file.unlink(missing_ok=True)
            raise FolderError(
                f"The log {self.log_path} cannot be written: {error.strerror}.", "Choose another BONSAI_HOME."
            ) from error
        try:
            with log:
                self._child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._env,
                    **process.popen_options(),
                )
        except OSError as error:
            self._key_file.unlink(missing_ok=True)
            raise EngineMissing(f"The engine {argv[0]} cannot be started: {error.strerror}.") from error
        try:
            self._wait_ready(cancel, progress)
        except BaseException:
            self.stop()
            raise
        if cancel.is_set():
            self.stop()

    def _wait_ready(self, cancel: threading.Event, progress: Callable[[str], None]) -> None:
        started = moved = time.monotonic()
        log_bytes = 0
        headers = {"Authorization": f"Bearer {self.api_key}"}
        with httpx.Client(base_url=self.base_url, headers=headers, trust_env=False, timeout=2) as client:
            while not cancel.wait(POLL_S):
                if not self.alive:
                    raise self._died("ended while loading")
                if self._is_ours(client):
                    return
                now, size = time.monotonic(), self.log_path.stat().st_size
                if size != log_bytes:
                    moved, log_bytes = now, size
                if now - moved > SILENCE_S:
                    raise self._died(f"showed no sign of life for {SILENCE_S:.0f} s while loading")
                progress(f"Loading the model … {now - started:.0f} s")

    def _is_ours(self, client: httpx.Client) -> bool:
        """Ready means that the server with *our* alias and key answers, not merely that a port does."""
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, IndexError, TypeError):
            if client.get("/health").status_code == 200:
                answer = client.get("/v1/models")
                return answer.status_code == 200 and answer.json()["data"][0]["id"] == self.alias
        return False

    def _died(self, how: str) -> EngineDied:
        tail = self.log_tail(TAIL_LINES)
        code = self._child.poll() if self._child else None
        last = next((line for line in reversed(tail.splitlines()) if "error" in line.lower()), "")
        last = last or (tail.splitlines()[-1] if tail else "its log is empty")
        status = "" if code is None else f" (exit code {code})"
        return EngineDied(
            f"The engine {how}{status}: {last.strip()}",
            f"The whole log is in {self.log_path}.",
            log_tail=tail,
            returncode=code,
        )

    def death(self) -> EngineDied:
        """Why a server that was ready is no longer there."""
        return self._died("ended unexpectedly")

    def log_tail(self, lines: int) -> str:
        """The log's last ``lines`` lines, empty when there is none."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 200 * lines))
                text = log.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """End the child and wait until it is gone, so that its memory is free; safe to call twice."""
        child = self._child
        if child is not None and child.poll() is None:
            process.ask_to_end(child)
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.force_to_end(child)
                child.wait()
        self._key_file.unlink(missing_ok=True)
