"""The lab and the search for advice as the page takes them: what can be measured with these settings, looked up anew each
time, and plans to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from launcher import lab_matrix
from launcher.advise_run import Search
from launcher.advise_setup import search_for, wanted_for
from launcher.chosen import Now
from launcher.hardware.model import Machine
from launcher.lab_setup import LabOptions, Parts, make_spec, spec_of, subject_of, with_budget
from launcher.lab_store import LabStore
from launcher.lab_types import Lab, LabPlan, LabSpec, Subject
from launcher.measure import REMEMBERING
from launcher.methods import PLAIN, Method, Offer
from launcher.paths import Paths
from launcher.plan import make_plan
from launcher.provision import resolve_all


@dataclass(frozen=True)
class Here:
    """What can be measured here: every method with what stands against it, the two ready-made plans, about what;
    and for each purpose ("coding", "chat") the kind of text and the temperature that advice is found with."""

    offers: tuple[Offer, ...]
    quick: LabPlan
    whole: LabPlan
    subject: Subject
    wanted: Mapping[str, tuple[str, float]]

    def fresh(self, method: Method) -> bool:
        """Whether each of its answers needs an engine that was started for it."""
        return not REMEMBERING.isdisjoint(method.types)


class LabPlanner:
    """All calls may be slow and raise LauncherError. ``machine`` may wait until it is known."""

    def __init__(
        self, settings: Now, paths: Paths, env: Mapping[str, str], machine: Callable[[], Machine]
    ) -> None:
        self._settings, self._paths, self._env, self._machine = settings, paths, env, machine
        self.store = LabStore(paths.data)

    def here(self) -> Here:
        """Look at engine and files."""
        parts = self.parts()
        return Here(
            offers=lab_matrix.matrix(parts.resolved, parts.machine),
            quick=make_spec(parts, LabOptions(quick=True)).plan,
            whole=make_spec(parts, LabOptions()).plan,
            subject=parts.subject,
            wanted=wanted_for(LabOptions()),
        )

    def spec(self, plan: LabPlan) -> LabSpec:
        """``plan`` with the launch plan of each of its methods."""
        parts = self.parts()
        return spec_of(parts, plan, lab_matrix.refused(lab_matrix.matrix(parts.resolved, parts.machine)))

    def search(self, language: str) -> Search:
        """What finds the best method here, by texts in ``language`` ("en", "it", "de"). Raises BadInput for another."""
        options = LabOptions(language=language)
        return search_for(self.parts(), self._paths, options, wanted_for(options))

    def again(self, lab_id: str) -> tuple[LabSpec, Lab]:
        """A kept lab and what is needed to go on with it; its budget of time begins anew. Raises BadInput for one of
        another target, drafter, engine or machine."""
        parts = self.parts()
        kept = self.store.resumable(parts.subject, lab_id)
        lab = replace(kept, plan=with_budget(kept.plan, None, kept.spent_s))
        return spec_of(parts, lab.plan, lab.refused), lab

    def parts(self) -> Parts:
        """Engine and files of now, with this machine."""
        settings, machine = self._settings(), self._machine()
        resolved = resolve_all(settings, self._paths, self._env, machine, stand_in=True)
        plain = make_plan(settings, machine, resolved, PLAIN)
        return Parts(settings, machine, resolved, subject_of(plain, machine))
