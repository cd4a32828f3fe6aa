"""What tests share: a clean home, the ``bonsai`` command as a child process, the tools of this machine.

``--require-all`` turns every skipped test into a failed one: nothing may go unchecked unnoticed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import pytest

from launcher import compiling, engine_build
from launcher.errors import BuildFailed, LauncherError
from tests import frozen_app

ROOT = Path(__file__).resolve().parent.parent
# Names that would change what a test sees: ours, the hub's, llama.cpp's, proxies, gradio's.
OUTSIDE = ("BONSAI_", "HF_", "LLAMA_", "GRADIO_", "SSL_CERT_")
OUTSIDE_NAMES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "xdg_data_home", "xdg_state_home"}
# Without bytecode every child process would compile the launcher and its libraries anew, for half a second.
OUTSIDE_NAMES |= {"pythondontwritebytecode"}
BUILT_TARGETS = (*engine_build.TARGETS, "llama-quantize")


# -- skipping -------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-all", action="store_true", help="a skipped test counts as failed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.config.getoption("--require-all"):
        report.outcome = "failed"
        report.longrepr = f"Not run, but --require-all was given: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and collector.config.getoption("--require-all"):
        report.outcome = "failed"
        report.longrepr = f"Not run, but --require-all was given: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> str:
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked for another system are not part of the suite here, instead of being skipped."""
    elsewhere = [item for item in items if not _for_this_system(item)]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


def _for_this_system(item: pytest.Item) -> bool:
    systems = {name for mark in item.iter_markers("system") for name in mark.args}
    return not systems or sys.platform in systems or (os.name == "posix" and "posix" in systems)


# -- waiting --------------------------------------------------------------------------------------------------


def wait_until(condition: Callable[[], object], timeout: float, what: str) -> None:
    """Return as soon as ``condition()`` is true; fail with ``what`` after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited {timeout:g} s in vain for {what}", pytrace=False)
        time.sleep(0.02)


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- a person's machine ---------------------------------------------------------------------------------------


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without whatever would change what is tested, and with ``extra``."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(OUTSIDE) and name.lower() not in OUTSIDE_NAMES
    }
    return kept | dict(extra or {})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh BONSAI_HOME; the environment, this process's and its children's, is clean but for that and for the
    practice pair as the model: what nobody names would have to be fetched."""
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)
    folder = tmp_path / "bonsai home"
    folder.mkdir()
    monkeypatch.setenv("BONSAI_HOME", str(folder))
    monkeypatch.setenv("BONSAI_MODEL", "practice")
    return folder


class Bonsai:
    """The ``bonsai`` command of this environment, as a real child process in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        script = Path(sys.executable).with_name("bonsai.exe" if os.name == "nt" else "bonsai")
        self.command = [str(script)] if script.exists() else [sys.executable, "-m", "launcher"]

    def env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The child's environment: clean, with BONSAI_HOME, the practice pair as the model, and ``extra``."""
        ours = {"BONSAI_HOME": str(self.home), "BONSAI_MODEL": "practice", "PYTHONUTF8": "1"}
        env = clean_environment(ours)
        if self.command[1:]:  # not installed: the modules come from the checkout
            env["PYTHONPATH"] = str(ROOT)
        return env | dict(extra or {})

    def __call__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
        stdin: str = "",
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end. stdout and stderr are text."""
        return subprocess.run(
            [*self.command, *arguments],
            env=self.env(env),
            cwd=cwd,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )

    def popen(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start it; its output goes to files in the home that ``output`` reads, so that no pipe fills up."""
        with (self.home / "stdout").open("ab") as out, (self.home / "stderr").open("ab") as err:
            return subprocess.Popen(
                [*self.command, *arguments],
                env=self.env(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                encoding="utf-8",
            )

    def output(self, stream: str = "stderr") -> str:
        """What the children started with ``popen`` have written so far."""
        return (self.home / stream).read_text(encoding="utf-8", errors="replace")


@pytest.fixture
def bonsai(home: Path) -> Bonsai:
    return Bonsai(home)


# -- tools ----------------------------------------------------------------------------------------------------


def find_chromium() -> str | None:
    """A browser that Playwright's chromium driver can steer, or None."""
    names = (
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "microsoft-edge",
        "chrome",
        "msedge",
    )
    places = [shutil.which(name) for name in names]
    for app in ("Google Chrome", "Chromium", "Microsoft Edge"):
        places.append(f"/Applications/{app}.app/Contents/MacOS/{app}")
    for folder in (os.environ.get("PROGRAMFILES"), os.environ.get("PROGRAMFILES(X86)")):
        if folder:
            places.append(f"{folder}/Google/Chrome/Application/chrome.exe")
            places.append(f"{folder}/Microsoft/Edge/Application/msedge.exe")
    return next((place for place in places if place and Path(place).is_file()), None)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The browser for tests of the page."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium, Chrome or Edge on this machine")
    return found


def shared_cache() -> Path:
    """What outlives a checkout: the engine built for the tests."""
    base = os.environ.get("LAUNCHER_TEST_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "bonsai-launcher-tests"


def pytest_configure() -> None:
    """A shell that starts the tests in the background has signals ignored, and what is ignored is inherited: the
    programs under test would never hear of Ctrl+C."""
    for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)


BUILT = pytest.StashKey[Path | LauncherError]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the engine before the first test that needs it: it takes minutes, no single test's time-out."""
    if session.config.option.collectonly:
        return
    if any(map(_needs_engine, session.items)):
        session.config.stash[BUILT] = _build_engine(session.config)
    if any(item.get_closest_marker("frozen") for item in session.items):
        session.config.stash[frozen_app.APP] = frozen_app.app(shared_cache() / "app")


def _needs_engine(item: pytest.Item) -> bool:
    """By fixture, by marker, or by a parameter named "built" of a test that runs on several engines."""
    chosen = getattr(getattr(item, "callspec", None), "params", {}).values()
    by_fixture = "built_engine" in getattr(item, "fixturenames", ())
    return by_fixture or "built" in list(chosen) or item.get_closest_marker("engine") is not None


def _build_engine(config: pytest.Config) -> Path | LauncherError:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    shown = -10

    def progress(done: int, total: int, text: str) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 0
        if terminal and (percent >= shown + 10 or not total):
            shown = percent
            terminal.write_line(f"building llama-server for the tests, once: {percent} % {text[:60]}")

    engines, cache = shared_cache() / "engines", shared_cache() / "build"
    try:
        for folder in (engines, cache):
            folder.mkdir(parents=True, exist_ok=True)
        return engine_build.server_binary(
            engine_build.build(engines, cache, targets=BUILT_TARGETS, progress=progress)
        )
    except LauncherError as error:
        return error


@pytest.fixture
def embedded() -> None:
    """For tests that need the embedded engine."""
    pytest.importorskip("xllamacpp", reason="no embedded engine on this platform")


@pytest.fixture(params=["embedded", "built"])
def engine_env(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment that chooses each engine in turn."""
    if request.param == "embedded":
        request.getfixturevalue("embedded")
        return {"BONSAI_ENGINE": "embedded"}
    server: Path = request.getfixturevalue("built_engine")
    return {"BONSAI_LLAMA_SERVER": str(server)}


@pytest.fixture(scope="session")
def app_program(request: pytest.FixtureRequest) -> Path:
    """The packaged app's program; for tests marked frozen."""
    made = request.config.stash[frozen_app.APP]
    if isinstance(made, str):
        pytest.skip(made)
    return made


@pytest.fixture(scope="session")
def built_engine(request: pytest.FixtureRequest) -> Path:
    """The llama-server built from source; llama-speculative-simple and llama-quantize lie beside it."""
    built = request.config.stash[BUILT]
    if isinstance(built, Path):
        return built
    try:
        compiling.find_tools()
    except BuildFailed as error:
        pytest.skip(f"no engine can be built here: {error.what}")
    pytest.fail(f"the engine for the tests cannot be built: {built}", pytrace=False)
