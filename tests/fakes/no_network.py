"""Runs a program where there is no network but this machine's own: ``python no_network.py PROGRAM ARGUMENT...``

Linux only, as root. The program keeps this process's number. Exit status 77 when the system does not allow it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys

NOT_ALLOWED = 77
CLONE_NEWNET = 0x40000000  # linux/sched.h
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914  # linux/sockios.h
IFF_UP = 0x1  # linux/if.h


def main(argv: list[str]) -> int:
    """Does not return when it works."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        return NOT_ALLOWED
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = bytearray(struct.pack("16sh22x", b"lo", 0))
        fcntl.ioctl(any_socket, SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("h", request, 16)
        struct.pack_into("h", request, 16, flags | IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
    os.execv(argv[0], argv)  # noqa: S606
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
