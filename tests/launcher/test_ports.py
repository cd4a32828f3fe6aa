"""Ports: a free one is found, a taken one that was asked for by name is an error that says who has it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from launcher.errors import BadInput, PortTaken
from launcher.supervise import ports
from tests.conftest import ROOT


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_free_port_is_kept() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert ports.choose("127.0.0.1", port, asked_by=None) == port


def test_another_is_found_when_nobody_asked(taken: int) -> None:
    found = ports.choose("127.0.0.1", taken, asked_by=None)
    assert found != taken
    assert ports.is_free("127.0.0.1", found)


def test_asked_for_and_taken_names_the_holder(taken: int) -> None:
    with pytest.raises(PortTaken, match=rf"BONSAI_PORT asks for port {taken}.*python.*process \d+"):
        ports.choose("127.0.0.1", taken, asked_by="BONSAI_PORT")


@pytest.mark.system("posix")
def test_listener_with_reuseport_counts_as_taken() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not ports.is_free("127.0.0.1", listener.getsockname()[1])


@pytest.mark.parametrize("asked_by", [None, "BONSAI_PORT"])
def test_address_of_another_machine_is_told_as_that(asked_by: str | None) -> None:
    with pytest.raises(BadInput, match=r"No server can listen on 192\.0\.2\.1") as caught:
        ports.choose("192.0.2.1", 8080, asked_by=asked_by)
    assert "BONSAI_HOST" in caught.value.remedy


def test_launchers_that_start_at_once_get_a_port_each(taken: int) -> None:
    with ThreadPoolExecutor(8) as pool:
        held = list(pool.map(lambda _: ports.reserve("127.0.0.1", taken, asked_by=None), range(8)))
    found = {listener.getsockname()[1] for listener in held}
    for listener in held:
        listener.close()
    assert len(found) == 8
    assert taken not in found


def test_a_reserved_port_counts_as_taken() -> None:
    with ports.reserve("127.0.0.1", 0, asked_by=None) as held:
        assert not ports.is_free("127.0.0.1", held.getsockname()[1])


@pytest.mark.case("D-01")
@pytest.mark.system("linux")
def test_a_port_that_the_system_reserves_is_not_told_as_taken() -> None:
    code = (
        "from launcher.errors import PortTaken\nfrom launcher.supervise import ports\n"
        "assert ports.choose('127.0.0.1', 80, asked_by=None) != 80\n"
        "try: ports.choose('127.0.0.1', 80, asked_by='BONSAI_PORT')\n"
        "except PortTaken as error: print(error)"
    )
    # Only root may have it, and in a namespace of our own nobody has opened it to others.
    unshare = ["unshare", "-n", "--"] if os.getuid() == 0 else ["unshare", "-rn", "--"]
    probe = subprocess.run([*unshare, "true"], check=False, capture_output=True)
    if probe.returncode:
        pytest.skip("this system does not let us make a network namespace")
    nobody = (
        "import fcntl, os, socket, struct, sys\n"
        "with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack('16sh14x', b'lo', 0x1 | 0x40))\n"
        "import ctypes; ctypes.CDLL(None).prctl(24, 10, 0, 0, 0)\n"  # PR_CAPBSET_DROP CAP_NET_BIND_SERVICE
        "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    )
    done = subprocess.run(
        [*unshare, sys.executable, "-c", nobody, code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "BONSAI_PORT asks for port 80, but it may not be used by this user" in done.stdout
    assert "above 1023" in done.stdout


def test_loopback_that_works_is_found_to_work() -> None:
    assert ports.loopback_works("127.0.0.1")


@pytest.mark.system("linux")
def test_loopback_that_is_cut_off_is_found_out() -> None:
    code = "from launcher.supervise import ports; print(ports.loopback_works('127.0.0.1'))"
    unshare = ["unshare", "-n" if os.getuid() == 0 else "-rn", "--"]
    done = subprocess.run(
        [*unshare, sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr:
        pytest.skip("this system does not let us make a network namespace")
    assert done.stdout.strip() == "False", done.stderr
