"""The real engine started in ways that fail: the cause is found in what it writes today, not only in kept logs."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.practice import PracticePair, ensure_pair
from launcher.supervise.diagnose import Diagnosis, diagnose, suspicions
from tests.conftest import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.system("linux")]
DSPARK = Path(__file__).parents[1] / "captured" / "arch_dspark_header.gguf"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> PracticePair:
    return ensure_pair(tmp_path_factory.mktemp("practice"))


class Runs:
    """Starts the engine; ``ended`` waits for its end and diagnoses that."""

    def __init__(self, engine: Path, pair: PracticePair, log: Path) -> None:
        self.engine, self.pair, self.log = engine, pair, log

    def start(
        self, *args: object, model: Path | None = None, port: int = 0, limit: int = 0
    ) -> subprocess.Popen[bytes]:
        argv = [
            self.engine,
            "-m",
            model or self.pair.target,
            "--host",
            "127.0.0.1",
            "--port",
            port or free_port(),
        ]
        argv += ["-c", 512, "-np", 1, "-t", 1, *args]
        with self.log.open("wb") as out:
            return subprocess.Popen(
                [str(arg) for arg in argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=limited(limit) if limit else None,  # noqa: PLW1509 - no thread runs here
            )

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def ended(self, child: subprocess.Popen[bytes], *, drafter: bool = False) -> Diagnosis:
        returncode = child.wait(60)
        return diagnose(returncode, self.text(), with_drafter=drafter, system="Linux")

    def ready(self, child: subprocess.Popen[bytes]) -> None:
        wait_until(
            lambda: "listening on" in self.text() or child.poll() is not None, 60, "the engine is not ready"
        )
        assert child.poll() is None, self.text()


def limited(size: int) -> Callable[[], None]:
    import resource  # there is none on Windows

    return lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def runs(built_engine: Path, pair: PracticePair, tmp_path: Path) -> Runs:
    return Runs(built_engine, pair, tmp_path / "engine.log")


def test_an_argument_it_does_not_know(runs: Runs) -> None:
    found = runs.ended(runs.start("--draft-max", 4))
    assert (found.cause, "--draft-max" in found.sentence) == ("unknown-flag", True)


@pytest.mark.case("C-03")
def test_a_model_that_is_cut_off(runs: Runs, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(runs.pair.target.read_bytes()[:20_000_000])
    found = runs.ended(runs.start(model=cut))
    assert (found.cause, found.drafter, "cut.gguf" in found.sentence) == ("corrupt-file", False, True)


@pytest.mark.case("A-01")
def test_a_drafter_of_the_old_architecture(runs: Runs) -> None:
    found = runs.ended(runs.start("-md", DSPARK, "--spec-type", "draft-dspark"), drafter=True)
    assert (found.cause, found.drafter) == ("drafter-architecture", True)


def test_a_port_that_is_taken(runs: Runs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = runs.ended(runs.start(port=port))
    assert (found.cause, str(port) in found.sentence) == ("port", True)


def test_a_context_that_does_not_fit_into_memory(runs: Runs) -> None:
    found = runs.ended(runs.start("-c", 32768, "--fit", "off", limit=330 * 2**20))
    assert found.cause == "ram"


@pytest.mark.parametrize(
    ("sent", "cause"),
    [("SIGKILL", "ram"), ("SIGTERM", "ended"), ("SIGABRT", "assert"), ("SIGILL", "old-cpu")],
)
def test_a_signal(runs: Runs, sent: str, cause: str) -> None:
    child = runs.start()
    runs.ready(child)
    assert suspicions(runs.text()) == ()
    child.send_signal(signal.Signals[sent])
    assert runs.ended(child).cause == cause


def test_layers_for_a_gpu_that_this_build_does_not_use(runs: Runs) -> None:
    child = runs.start("-ngl", 99)
    runs.ready(child)
    (found,) = suspicions(runs.text())
    child.terminate()
    child.wait(30)
    assert found.cause == "cpu-fallback"
