"""What several tests of the downloads share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.file_server import FileServer
from tests.launcher.fetch_world import World, world
from tests.launcher.fetching_samples import DATA, NAME, Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """A server with one file, and an empty folder to fetch it into."""
    with FileServer({NAME: DATA}) as server:
        folder = tmp_path / "models"
        folder.mkdir()
        yield Room(folder, server)


@pytest.fixture
def net(home: Path) -> Iterator[World]:
    """A hub and a release server with a small trio, for a machine without a GPU."""
    with world(home.parent) as made:
        yield made
