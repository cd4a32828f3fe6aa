"""``bonsai``: the engine's owner and the page in one process. The one place where launcher and page meet."""

from __future__ import annotations

import os
import secrets
import webbrowser
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace

from launcher import __version__, console, instance, support_report
from launcher.ask import make_lifecycle
from launcher.chosen import Chosen, Now
from launcher.fetch_page import Fetching
from launcher.hardware.detect import in_background
from launcher.hardware.model import Machine
from launcher.lab_page import LabPlanner
from launcher.learned_page import LearnedPage
from launcher.methods import Method, Offer, default_pair, offered
from launcher.paths import Paths, make_folder
from launcher.plan import LOOPBACK, LaunchPlan, make_plan
from launcher.provision import resolve_all
from launcher.race_store import RaceStore
from launcher.resolved import Resolved
from launcher.settings import Settings, Value
from launcher.store import Store
from launcher.supervise import ports
from launcher.transfer_view import say_readings

LOOKING = "still looking"
CHAT = "chat"  # who has the engine for an answer; all others measure


def run_page(settings: Settings, paths: Paths, env: Mapping[str, str], *, browser: bool) -> None:
    """Serve the page until it is quit; the engine starts behind it and is gone when this returns. When this home's
    page is served already, only show that one.

    Raises PortTaken when BONSAI_UI_PORT was asked for by name and is taken, FolderError when the data
    folder cannot be used. A missing or broken engine or model is shown on the page instead.
    """
    with instance.the_page(paths.run) as page:
        if isinstance(page, instance.Mine):
            _serve(settings, paths, env, page, browser=browser)
            return
        console.say(
            f"Bonsai Launcher is running already: {page.url}  (with the settings it was started with)"
        )
        if browser:
            webbrowser.open(page.url)


def _serve(
    settings: Settings, paths: Paths, env: Mapping[str, str], mine: instance.Mine, *, browser: bool
) -> None:
    from webui.app import PageContext, gradio_environment, serve
    from webui.state import RaceRoom, Row

    # Read by gradio when it is imported. Its folder for uploads would stay behind in the shared temporary one.
    os.environ.update(gradio_environment(env) | {"GRADIO_TEMP_DIR": str(paths.cache / "gradio")})
    looking = in_background()  # a driver may have to be woken up; the page does not wait for it
    host = settings.host.value
    remote = host not in LOOPBACK
    listening = ports.reserve(
        host, settings.ui_port.value, asked_by=settings.ui_port.source if settings.ui_port.asked else None
    )
    port = listening.getsockname()[1]
    password = secrets.token_urlsafe(12) if remote else None
    chosen = Chosen(settings, paths)

    def now() -> Settings:
        # The engine itself always stays on loopback: only the page is for other machines.
        return replace(chosen.in_use(), host=Value("127.0.0.1"))

    def measuring() -> str:
        holder = lifecycle.status().busy_with
        return "" if holder == CHAT else holder

    store = Store(make_folder(paths.data))
    lifecycle = make_lifecycle(now, paths, env, looking, stand_in=True)
    races = _RacePlanner(now, paths, env, looking.result)
    labs = LabPlanner(now, paths, env, looking.result)
    fetching = Fetching(chosen, paths, env, looking.result, lambda: lifecycle.start(None), measuring)
    fetching.on_change(say_readings())

    def report() -> str:
        machine = looking.result() if looking.done() else None
        return support_report.make_report(
            lifecycle.status(), machine, __version__, lifecycle.log_tail(support_report.LOG_LINES)
        )

    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    mine.announce(url)
    context = PageContext(
        lifecycle=lifecycle,
        store=store,
        run_token=secrets.token_urlsafe(24),
        host=host,
        port=port,
        version=__version__,
        settings_rows=lambda: tuple(Row(*row) for row in chosen.now().rows()),
        look=lambda: tuple(Row(*row, pending=row[1] == LOOKING) for row in machine_rows(looking)),
        notices=settings.notices,
        password=password,
        races=RaceRoom(RaceStore(paths.data), races.offers, races.default, races.plans, races.machine),
        lab=labs,
        learned=LearnedPage(paths, looking.result, labs.parts, lifecycle.start),
        fetching=fetching,
        prove=mine.prove,
        report=report,
    )

    def started() -> None:
        # Where nobody asked, what was learned here decides.
        lifecycle.start(settings.speculative.value if settings.speculative.asked else None)
        fetching.begin_check()  # the practice pair stands in for what nobody has read yet
        if port != settings.ui_port.value:
            usual = settings.ui_port.value
            console.warn(f"Port {usual} is taken by {ports.holder(usual)}: this page is at {port}.")
        console.say(f"Bonsai Launcher {__version__}: {url}  (Ctrl+C ends it)")
        if password:
            console.warn(
                "Other machines can connect. HTTP is not encrypted: use it in a network that you trust."
            )
            console.say(f"User bonsai, password (shown once): {password}")
        if browser:
            webbrowser.open(url)

    try:
        serve(context, started=started, sockets=[listening])
    finally:
        fetching.close()
        lifecycle.close()


class _RacePlanner:
    """What can be raced with these settings, looked up anew each time: files may come and go meanwhile."""

    def __init__(
        self, settings: Now, paths: Paths, env: Mapping[str, str], machine: Callable[[], Machine]
    ) -> None:
        self._settings, self._paths, self._env, self.machine = settings, paths, env, machine

    def offers(self) -> tuple[Offer, ...]:
        """Every method, each with what stands against it here."""
        return offered(self._resolved(self._settings()))

    def default(self) -> tuple[Method, Method]:
        """The two that are proposed."""
        settings = self._settings()
        return default_pair(settings, self._resolved(settings))

    def plans(self, a: Method, b: Method) -> tuple[LaunchPlan, LaunchPlan]:
        """A launch plan for each of the two. Raises PlanRefused."""
        settings = self._settings()
        resolved = self._resolved(settings)
        first, second = (make_plan(settings, self.machine(), resolved, method) for method in (a, b))
        return first, second

    def _resolved(self, settings: Settings) -> Resolved:
        return resolve_all(settings, self._paths, self._env, self.machine(), stand_in=True)


def machine_rows(looking: Future[Machine]) -> list[tuple[str, str, str]]:
    """(name, value, source) for the Machine tab: what is known by now, without waiting."""
    if not looking.done():
        return [("Hardware", LOOKING, "a driver may have to wake up")]
    machine = looking.result()
    remarks = machine.remarks()
    names = ["Note"] if len(remarks) == 1 else [f"Note {at}" for at in range(1, len(remarks) + 1)]
    return [(*row, "") for row in [*machine.rows(), *zip(names, remarks, strict=True)]]
