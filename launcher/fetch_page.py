"""The page's fetch: offers what is lacking, has the model used once it is here, and lets another one be chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from launcher.choose_model import name_of
from launcher.chosen import Chosen
from launcher.errors import BadInput, LauncherError
from launcher.fetch_types import ModelList, Offer
from launcher.fetching import BUSY, NOTHING, FetchJob
from launcher.hardware.model import Machine
from launcher.model_list import list_models
from launcher.offer import make_offer
from launcher.paths import Paths
from launcher.settings import PRACTICE_MODELS, Settings, is_path
from launcher.trio import look_up


class Fetching(FetchJob):
    """``start`` brings the engine up with what ``chosen`` has adopted; ``measuring`` says who has the engines for a
    measurement, or is empty. All may be called from any thread."""

    def __init__(
        self,
        chosen: Chosen,
        paths: Paths,
        env: Mapping[str, str],
        machine: Callable[[], Machine],
        start: Callable[[], None],
        measuring: Callable[[], str] = str,
    ) -> None:
        super().__init__(chosen.now, paths, env, machine, done=self.use)
        self._chosen, self._start, self._measuring = chosen, start, measuring

    def offer(self) -> Offer | None:
        """What could be fetched; None when all is here. Looks at the disk: off the event loop, please."""
        return make_offer(self._now(), self._paths, self._env, self._machine())

    def models(self) -> ModelList:
        """What can be chosen. Looks at the disk and waits for the machine to be known. Raises LauncherError where the
        engine that was asked for cannot be used."""
        return list_models(self._now(), self._paths, self._env, self._machine(), self._chosen.fixed())

    def use(self) -> None:
        """Run what is chosen from now on. As long as its files are not here, what runs goes on."""
        self._adopt()
        self._start()

    def choose(self, name: str) -> None:
        """Ask for another model from now on ("auto": for none); what is here of it is used at once, the rest is offered.
        Raises BadInput while something is fetched, read or measured, and as ``Chosen.choose``."""
        with self._turn:
            who = self._measuring()
            if who:
                raise BadInput(
                    f"The {who} has the engines: another model would end it.", "Wait for its end, or stop it."
                )
            with self._lock:
                if self._state.phase in BUSY:
                    raise BadInput(
                        "Something is being fetched or checked at this moment.", "Cancel that first."
                    )
                self._control.cancel()  # a look for what is unread of the model before
            self._chosen.choose(name, self._machine)
            choices = self.state().choices + 1
            self._tell((), phase="idle", error="", remedy="", choices=choices, **NOTHING)
        if self._adopt():
            self._start()
        self.begin_check()

    def _adopt(self) -> bool:
        """Whether something else is to run from now on."""
        before, now = self._runs(self._chosen.in_use()), self._runs(self._now())
        if before and not now:
            return False
        self._chosen.adopt()
        return before != now or not now  # what stands in for it names it

    def _runs(self, settings: Settings) -> str:
        """Which model a start would run, if it has all that it needs; else empty."""
        model = settings.model.value
        if model in PRACTICE_MODELS or is_path(model):
            return model
        try:
            trio = look_up(settings, self._paths, self._env, self._machine())
        except LauncherError:  # whoever starts is told
            return ""
        return "" if trio.missing else name_of(trio.choice.model)
