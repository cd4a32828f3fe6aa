"""Fetches on order in processes that can be killed.

Reads a JSON object a line from stdin: the fields of a Remote, ``target``, optionally ``stall_s``, ``backoff_s``, ``env``
and ``limit`` (the largest file this process may write, in bytes). For each it forks, prints the child's id, waits, and
prints how it ended: the sha256, the error, or ``killed``. Forking from a process that has loaded everything
already makes a start take milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

from launcher.errors import LauncherError
from launcher.fetch import Network, Remote, fetch


def main() -> None:
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        out, into = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(into, _work(order).encode())
            finally:
                os._exit(0)
        os.close(into)
        print(pid, flush=True)
        with os.fdopen(out) as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        print("killed" if os.WIFSIGNALED(status) else said.replace("\n", " "), flush=True)


def _work(order: dict[str, Any]) -> str:
    if "limit" in order:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["limit"], order["limit"]))
    remote = Remote("the file", order["url"], order["total"], order["sha256"])
    network = Network(order.get("env", {}), order.get("stall_s", 20), backoff_s=order.get("backoff_s", 0.01))
    try:
        return fetch(remote, Path(order["target"]), network)
    except LauncherError as error:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return traceback.format_exc()


if __name__ == "__main__":
    main()
