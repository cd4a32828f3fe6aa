"""One llama-server as a child process: start, readiness, log, stop. Only its owner's thread starts and stops it."""

from __future__ import annotations

import enum
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from launcher.child_env import clean_env
from launcher.embedded import WITH_PARENT
from launcher.errors import EngineDied, EngineMissing, FolderError
from launcher.paths import make_folder, write_private
from launcher.plan import LaunchPlan
from launcher.supervise import logs as engine_logs
from launcher.supervise import ports, records
from launcher.supervise.child import Child
from launcher.supervise.logs import EngineLog
from launcher.supervise.spawner import spawn
from launcher.supervise.system import Process
from launcher.supervise.vital import Patience, Vital

POLL_S = 0.05
ASK_S = (
    1.0  # for one question about readiness; an engine that is stopped takes the connection and says nothing
)
DRAIN_S = 1.0  # the rest of an ended engine's log
TAIL_LINES = 30
PORT_TRIES = 3
OTHER_PORT = "Choose another port with BONSAI_PORT, or end the program that has the port."
LOG_NAMES = "llama-server-*.log"
_CANNOT_BIND = re.compile(
    r"couldn'?t bind|failed to bind|address already in use|bind\w* failed", re.IGNORECASE
)


class State(enum.Enum):
    """Of one server, in this order; DEAD is reached from everywhere."""

    NEW = "new"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    DEAD = "dead"


@dataclass(frozen=True)
class Answer:
    """What the port said: ``text`` None: it is not open. ``whose``: "ours", "another's" or "" (it does not say yet)."""

    text: str | None = None
    whose: str = ""


class _PortLost(Exception):
    """Somebody else has the port that was chosen for the engine."""


class Server:
    """Starts ``plan`` and owns the child. The key and alias of the run prove that it is ours that answers."""

    def __init__(
        self,
        plan: LaunchPlan,
        logs: Path,
        run: Path,
        env: dict[str, str],
        *,
        patience: Patience | None = None,
    ) -> None:
        self.plan = plan
        self.api_key = secrets.token_urlsafe(24)
        self.alias = f"bonsai-{secrets.token_hex(6)}"
        name = f"llama-server-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{self.alias[-4:]}.log"
        self.log_path = make_folder(logs) / name
        self.port = plan.port
        self._patience = patience or Patience()
        self._run = make_folder(run)
        self._key_file = self._run / f"{self.alias}.key"
        # No config.ini of llama.cpp in the person's folder may change what was planned.
        self._env = clean_env(env) | {"XDG_CONFIG_HOME": str(run)} | dict(plan.env)
        self._lock = threading.Lock()
        self._state = State.NEW
        self._child: Child | None = None
        self._log: EngineLog | None = None

    @property
    def base_url(self) -> str:
        host = f"[{self.plan.host}]" if ":" in self.plan.host else self.plan.host
        return f"http://{host}:{self.port}"

    @property
    def state(self) -> State:
        with self._lock:
            return self._state

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.alive

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self, cancel: threading.Event, progress: Callable[[str], None]) -> None:
        """Spawn and wait until our own server answers. Raises EngineDied (with the log's tail) when it
        ends or stands still, PortTaken for a port asked for by name; ``cancel`` stops it and returns."""
        records.sweep_once(self._run)
        asked_by = "BONSAI_PORT" if self.plan.port_asked else None
        self.port = ports.choose(self.plan.host, self.plan.port, asked_by=asked_by)
        self._open_log()
        for tries_left in reversed(range(PORT_TRIES)):
            try:
                self._spawn()
                self._wait_ready(cancel, progress)
            except _PortLost as lost:
                death = self._died(str(lost), OTHER_PORT, cause="port")
                self._end_child(self._patience.stop)
                if asked_by is not None:
                    raise ports.taken(self.port, asked_by) from lost
                if not tries_left:
                    raise death from lost
                self.port = ports.another(self.plan.host)
            except EngineDied:  # it is gone, or it hangs and would not hear us
                self.stop(at_once=True)
                raise
            except BaseException:
                self.stop()
                raise
            else:
                break
        if cancel.is_set():
            self.stop()

    def _open_log(self) -> None:
        try:
            self._log = EngineLog(self.log_path)
        except OSError as error:
            raise FolderError(
                f"The log {self.log_path} cannot be written: {error.strerror}.", "Choose another BONSAI_HOME."
            ) from error
        engine_logs.prune(self.log_path.parent, LOG_NAMES, spare=records.logs_in_use(self._run))

    def _spawn(self) -> None:
        argv = self.plan.command(self.port, "--alias", self.alias, "--api-key-file", str(self._key_file))
        if self.plan.resolved.engine.kind == "embedded":
            argv.append(WITH_PARENT)
        assert self._log is not None  # noqa: S101 -- start has opened it
        with self._lock:
            self._state = State.STARTING
        record = records.begin(self._run, self.alias, key=self._key_file, log=self.log_path)
        output = -1
        try:
            write_private(self._key_file, self.api_key)
            output = self._log.pipe()
            # In a folder of ours: no file where the person happens to stand can change anything.
            child = spawn(
                lambda: Child(Process(argv, cwd=self._run, env=self._env, output=output), self._child_ended)
            )
        except OSError as error:
            records.ended(self._run, self.alias, self._key_file)
            raise EngineMissing(f"The engine {argv[0]} cannot be started: {error.strerror}.") from error
        except BaseException:
            records.ended(self._run, self.alias, self._key_file)
            raise
        finally:
            if output >= 0:
                os.close(output)
        if child.unguarded:
            self._log.note(child.unguarded)
        with self._lock:
            self._child = child
            if self._state is not State.DEAD:
                records.started(self._run, record, child.pid, argv)

    def _child_ended(self) -> None:
        """On the child's own thread, when nothing is left of it."""
        if self._log is not None:
            self._log.finish(DRAIN_S)
        with self._lock:
            self._state = State.DEAD
            records.ended(self._run, self.alias, self._key_file)

    def _wait_ready(self, cancel: threading.Event, progress: Callable[[str], None]) -> None:
        child, log = self._child, self._log
        assert child is not None and log is not None  # noqa: S101, PT018 -- _spawn has made them
        vital = Vital(child.pid, time.monotonic)
        stranger_since: float | None = None
        headers = {"Authorization": f"Bearer {self.api_key}"}
        with httpx.Client(base_url=self.base_url, headers=headers, trust_env=False, timeout=ASK_S) as client:
            while not cancel.wait(POLL_S):
                if not child.alive:
                    child.ended.wait(DRAIN_S + 1)
                    raise self._ended_early()
                answer = self._ask(client)
                if answer.whose == "ours":
                    self._become_ready()
                    return
                now = time.monotonic()
                stranger_since = (stranger_since or now) if answer.whose else None
                if stranger_since is not None and now - stranger_since > self._patience.stranger:
                    raise _PortLost(f"shares port {self.port} with another server ({answer.text})")
                vital.look(log.told, None if answer.whose else answer.text)
                self._check_moving(vital)
                progress(f"Loading the model … {now - vital.began:.0f} s")

    def _become_ready(self) -> None:
        with self._lock:
            if self._state is State.STARTING:
                self._state = State.READY

    def _check_moving(self, vital: Vital) -> None:
        patience = self._patience
        if vital.quiet_s > patience.silence:
            raise self._died(f"showed no sign of life for {patience.silence:.0f} s while loading")
        if vital.ever_open:
            return
        if vital.idle_s > patience.still:
            raise self._died(f"has not opened its port and has done nothing for {patience.still:.0f} s")
        if vital.idle_s > patience.loopback and not ports.loopback_works(self.plan.host):
            raise self._died(
                f"cannot be reached: this machine lets no program connect to {self.plan.host}",
                "A firewall or security program may forbid it: allow connections within this machine.",
                cause="loopback",
            )

    def _ask(self, client: httpx.Client) -> Answer:
        """Ready means that the server with *our* alias and key answers, not merely that a port does."""
        try:
            for path in ("/health", "/v1/models"):
                reply = client.get(path)
                if reply.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                    return Answer(reply.text)  # "Loading model"
            name = str(reply.json()["data"][0]["id"])
        except (httpx.ConnectError, httpx.ConnectTimeout):
            return Answer()
        except httpx.RemoteProtocolError:
            return Answer("something that is not HTTP", "another's")
        except httpx.HTTPError:
            return Answer("")  # taken, but silent or cut off
        except (ValueError, LookupError, TypeError):
            return Answer(f"it answers with status {reply.status_code}", "another's")
        return Answer(f"it calls itself {name[:80]}", "ours" if name == self.alias else "another's")

    def _ended_early(self) -> Exception:
        died = self._died("ended while loading")
        at_the_port = _CANNOT_BIND.search(died.log_tail) or not ports.is_free(self.plan.host, self.port)
        return _PortLost(f"ended: port {self.port} was taken") if died.returncode and at_the_port else died

    def _died(self, how: str, remedy: str = "", *, cause: str = "") -> EngineDied:
        tail = self.log_tail(TAIL_LINES)
        code = self._child.returncode if self._child else None
        last = next((line for line in reversed(tail.splitlines()) if "error" in line.lower()), "")
        last = last or (tail.splitlines()[-1] if tail else "its log is empty")
        status = "" if code is None else f" (exit code {code})"
        return EngineDied(
            f"The engine {how}{status}: {last.strip()}",
            f"{remedy} The whole log is in {self.log_path}.".strip(),
            log_tail=tail,
            returncode=code,
            cause=cause if code is None else "",
        )

    def death(self) -> EngineDied:
        """Why a server that was ready is no longer there."""
        if self._child is not None and not self._child.alive:
            self._child.ended.wait(DRAIN_S + 1)  # until its last words are in the log
        return self._died("ended unexpectedly")

    def log_tail(self, lines: int) -> str:
        """The log's last ``lines`` lines, empty when there is none."""
        return self._log.tail(lines) if self._log else ""

    def stop(self, *, at_once: bool = False) -> None:
        """End the child and all that it started, and wait until they are gone, so that their memory is free; safe
        to call twice. ``at_once``: it hangs, so it is given no time to end by itself."""
        with self._lock:
            if self._state in (State.STARTING, State.READY):
                self._state = State.STOPPING
        self._end_child(0.0 if at_once else self._patience.stop)
        if self._log is not None:
            self._log.close()

    def _end_child(self, grace_s: float) -> None:
        if self._child is not None:
            self._child.stop(grace_s)
