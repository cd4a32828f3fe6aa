"""Ports: a free one is found, a taken one that was asked for by name is an error that says who has it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from launcher.errors import BadInput, PortTaken
from launcher.supervise import ports


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
