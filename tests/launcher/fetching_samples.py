"""What the tests of the downloader share: a file, a server, one call of ``fetch`` with short waits."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import Cancelled
from launcher.fetch import Control, Network, Progress, Remote, fetch
from tests.fakes.file_server import Fault, FileServer, sha256

NAME = "Model-27B.gguf"
DATA = b"GGUF" + random.Random(4).randbytes(700_000)
TOKEN = "hf_secretSECRETsecret"
QUICK: dict[str, Any] = {"stall_s": 0.2, "backoff_s": 0.01}


@dataclass
class Room:
    """A folder to fetch into, and the server to fetch from."""

    folder: Path
    server: FileServer
    told: list[Progress] = field(default_factory=list)

    @property
    def target(self) -> Path:
        return self.folder / NAME

    @property
    def part(self) -> Path:
        return self.folder / f"{NAME}.part"

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def fetch(
        self,
        *,
        data: bytes = DATA,
        total: int | None = -1,
        digest: str | None = "",
        headers: Mapping[str, str] | None = None,
        plain: Mapping[str, str] | None = None,
        url: str = "",
        env: Mapping[str, str] | None = None,
        control: Control | None = None,
        progress: Callable[[Progress], None] | None = None,
        **network: Any,
    ) -> str:
        """Size and sha256 are known beforehand, unless ``total`` or ``digest`` is None."""
        remote = Remote(
            NAME,
            url or self.server.url_of(NAME),
            len(data) if total == -1 else total,
            sha256(data) if digest == "" else digest,
            headers or {},
            plain,
        )
        digest_now = fetch(
            remote,
            self.target,
            Network(env or {}, **(QUICK | network)),
            progress or self.told.append,
            control,
        )
        assert digest_now == sha256(self.target.read_bytes())
        return digest_now

    def leave(self, count: int, **how: Any) -> None:
        """Let ``count`` bytes be here from a call that was cancelled."""
        control = Control()

        def stop(_: Progress) -> None:
            if self.part.stat().st_size >= count:
                control.cancel()

        self.server.fault(NAME, Fault(stall_after=count))
        with pytest.raises(Cancelled):
            self.fetch(control=control, progress=stop, **({"stall_s": 20.0} | how))
        assert self.part.stat().st_size == count


def background(call: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """``call`` on a thread; what it raises is put into the list."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised
