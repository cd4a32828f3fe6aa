"""sha256 in a thread of its own: hashlib lets other threads run meanwhile, so network, disk and hash overlap."""

from __future__ import annotations

import hashlib
import queue
import threading

WAITING = 16  # pieces that may wait to be hashed: with pieces of 1 MiB that bounds the memory


class Hasher:
    """Feed it with ``update`` in order; ``hexdigest`` waits for what is still to be hashed."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self._pieces: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="fetch-hash", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (piece := self._pieces.get()) is not None:
            self._sum.update(piece)
            del piece  # or the last one would stay while nothing comes
            self._pieces.task_done()

    def update(self, piece: bytes) -> None:
        """Hash ``piece`` soon; waits while too many pieces are left to hash."""
        self._pieces.put(piece)

    def hexdigest(self) -> str:
        """Of everything fed so far; more may follow."""
        self._pieces.join()
        return self._sum.hexdigest()

    def close(self) -> None:
        """End the thread."""
        if self._thread.is_alive():
            self._pieces.put(None)
            self._thread.join()
