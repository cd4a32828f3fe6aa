"""Answers every connection with given bytes, whatever was asked: for answers that no real server would send."""

from __future__ import annotations

import socket
import struct
import threading


class RawServer:
    """``answer`` is sent in pieces of ``size`` bytes; None: the connection is accepted and nothing is said.

    ``reset`` ends connections with a reset instead of a proper close; ``hold`` leaves them open.
    """

    def __init__(
        self, answer: bytes | None, *, size: int = 1 << 16, reset: bool = False, hold: bool = False
    ) -> None:
        self._answer = answer
        self._size = size
        self._reset = reset
        self._hold = hold
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.requests: list[bytes] = []
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._open:
            connection.close()
        self._thread.join(10)

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            self.requests.append(connection.recv(1 << 16))
            if self._answer is None:
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(self._answer), self._size):
                connection.sendall(self._answer[at : at + self._size])
            if self._reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if not self._hold:
                connection.close()
