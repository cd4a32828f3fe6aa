"""A llama-server that goes wrong on order: a real child process, in the standard library alone.

``install(folder, **orders)`` writes an executable that reads the command line of a real one (``--port``, ``--alias``,
``--api-key-file``) and then does what ``orders`` says. Give its path as BONSAI_LLAMA_SERVER. It notes what it is in
``<folder>/rogue.jsonl``, one line a start: its number, argv, folder, environment and the numbers of what it started.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CAPTURED = Path(__file__).parents[1] / "captured"
# What it does when nothing else is ordered. Times in seconds.
ORDERS: dict[str, Any] = {
    "say": "",  # a text on stderr, first of all
    "flood": 0,  # bytes of log before anything else, as fast as they are taken
    "flood_on": False,  # ... and on for as long as it lives, beside the rest
    "fork": 0,  # start so many children of its own; each ignores SIGTERM and lives for ever
    "hang": False,  # the port never opens
    "die": None,  # before the port opens: an exit status, or a negative signal
    "die_at": 0,  # at the request of this number to chat (1: the first) ...
    "die_by": -6,  # ... like this
    "no_bind": 0,  # so many starts fail as with a taken port
    "loading": 0.0,  # 503 for so long
    "loading_moves": False,  # ... with an answer that changes
    "alias": None,  # answer as somebody else
    "key": True,  # whether the key is asked for
    "ignore_term": False,
    "close": 0.0,  # so long from SIGTERM to the end
    "lock": "",  # a file that is held meanwhile; a start that finds it held dies
}


def install(folder: Path, **orders: Any) -> Path:
    """Write the executable into ``folder``; ``orders`` are keys of ORDERS."""
    unknown = set(orders) - set(ORDERS)
    assert not unknown, unknown
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "llama-server"
    settings = json.dumps({**ORDERS, **orders})
    program.write_text(
        f"#!/bin/sh\nexec '{sys.executable}' -I -S '{Path(__file__).absolute()}' '{folder}' '{settings}' \"$@\"\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def starts(folder: Path) -> list[dict[str, Any]]:
    """What each start has noted: pid, argv, cwd, env, children."""
    try:
        lines = (folder / "rogue.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


class Rogue:
    """One start."""

    def __init__(self, folder: Path, orders: dict[str, Any], argv: list[str]) -> None:
        self.folder, self.orders, self.argv = folder, orders, argv
        self.began = time.monotonic()
        self.chats = 0

    def value(self, flag: str, default: str = "") -> str:
        return self.argv[self.argv.index(flag) + 1] if flag in self.argv else default

    def run(self) -> None:
        """Everything in the order of ORDERS."""
        orders = self.orders
        past = len(starts(self.folder))
        signal.signal(signal.SIGTERM, self.ignore if orders["ignore_term"] else self.close)
        self.note(self.start_children())
        sys.stderr.write(orders["say"])
        self.flood(orders["flood"])
        if orders["flood_on"]:
            threading.Thread(target=self.flood, args=(1 << 40,), daemon=True).start()
        if orders["lock"]:
            self.take(Path(orders["lock"]))
        if orders["die"] is not None:
            end(orders["die"])
        if past < orders["no_bind"]:
            sys.stderr.write(f"couldn't bind HTTP server socket, hostname: x, port: {self.value('--port')}\n")
            sys.stderr.flush()
            os._exit(1)
        while orders["hang"]:
            time.sleep(60)
        self.serve()

    def note(self, children: list[int]) -> None:
        noted = {
            "pid": os.getpid(),
            "argv": self.argv,
            "cwd": os.getcwd(),  # noqa: PTH109
            "env": dict(os.environ),
            "children": children,
        }
        with (self.folder / "rogue.jsonl").open("a") as file:
            file.write(json.dumps(noted) + "\n")

    def start_children(self) -> list[int]:
        stubborn = "trap '' TERM; while :; do sleep 60; done"
        return [subprocess.Popen(["/bin/sh", "-c", stubborn]).pid for _ in range(self.orders["fork"])]

    def flood(self, size: int) -> None:
        line = b"x" * 99 + b"\n"
        for _ in range(size // 10_000):
            os.write(2, line * 100)

    def take(self, lock: Path) -> None:
        try:
            lock.touch(exist_ok=False)
        except FileExistsError:
            sys.stderr.write("error: cudaMalloc failed: out of memory\n")
            sys.stderr.flush()
            os._exit(1)

    def ignore(self, *_: object) -> None:
        (self.folder / "asked-to-end").touch()

    def close(self, *_: object) -> None:
        time.sleep(self.orders["close"])
        if self.orders["lock"]:
            Path(self.orders["lock"]).unlink(missing_ok=True)
        os._exit(0)

    def serve(self) -> None:
        rogue = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                loaded = time.monotonic() - rogue.began - rogue.orders["loading"]
                if loaded < 0:
                    told = f" {loaded:.2f}" if rogue.orders["loading_moves"] else ""
                    self.answer(503, {"error": {"message": f"Loading model{told}", "code": 503}})
                elif self.path == "/health":
                    self.answer(200, {"status": "ok"})
                elif rogue.orders["key"] and self.headers.get("Authorization") != f"Bearer {rogue.key()}":
                    self.answer(401, {"error": {"message": "Invalid API Key"}})
                else:
                    self.answer(200, {"data": [{"id": rogue.orders["alias"] or rogue.value("--alias")}]})

            def do_POST(self) -> None:
                rogue.chats += 1
                if rogue.chats == rogue.orders["die_at"]:
                    end(rogue.orders["die_by"])
                message = {"role": "assistant", "content": "hello"}
                self.answer(200, {"choices": [{"message": message, "finish_reason": "stop"}]})

            def answer(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, form: str, *values: object) -> None:
                sys.stderr.write(f"srv  log_server_r: done request: {form % values}\n")

        server = ThreadingHTTPServer(("127.0.0.1", int(self.value("--port"))), Handler)
        server.serve_forever()

    def key(self) -> str:
        path = self.value("--api-key-file")
        return Path(path).read_text().strip() if path else ""


def end(how: int) -> None:
    """With that exit status, or by that signal where it is negative."""
    sys.stderr.flush()
    if how < 0:
        signal.signal(-how, signal.SIG_DFL) if -how != signal.SIGKILL else None
        os.kill(os.getpid(), -how)
        time.sleep(60)
    os._exit(how)


def main(argv: list[str]) -> None:
    """What the executable runs."""
    for flag, name in (("--version", "version"), ("--help", "help")):
        if flag in argv:
            sys.stdout.write((CAPTURED / f"llama_server_b11434_{name}.txt").read_text())
            return
    if "--port" in argv:  # else it is only asked what it can do
        Rogue(Path(argv[0]), json.loads(argv[1]), argv[2:]).run()


if __name__ == "__main__":
    main(sys.argv[1:])
