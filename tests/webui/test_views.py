"""What the strip and the figures say of how the engine drafts: the whole method."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.lifecycle import Status
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan, make_plan
from launcher.settings import resolve
from tests import plans
from webui.figures import engine_label
from webui.views import status_view

ENGINE = replace(
    plans.ENGINE,
    flags=plans.FLAGS | {"--spec-draft-p-min", "-ngld"},
    spec_types=frozenset({"none", "draft-dspark", "ngram-mod"}),
)


def plan(method: Method) -> LaunchPlan:
    return make_plan(resolve({}, {}), plans.MACHINE, plans.resolved(engine=ENGINE), method)


@pytest.mark.parametrize(
    ("method", "label", "on"),
    [
        (PLAIN, "", False),
        (Method("draft-dspark", 4), "dspark 4", True),
        (Method("ngram-mod"), "ngram-mod", True),
        (Method("draft-dspark", 4, p_min=0.5), "dspark 4, p-min 0.5", True),
        (
            Method("ngram-mod,draft-dspark", 2, draft_on="ngld0"),
            "ngram-mod + dspark 2, draft off the GPU's memory",
            True,
        ),
    ],
)
def test_the_whole_method_is_told(method: Method, label: str, on: bool) -> None:
    made = plan(method)
    found = status_view(Status("ready", "Ready.", made, speculative=on))["speculation"]
    assert (found["label"], found["on"]) == (label, on)
    assert engine_label(made).rsplit(" · ", 1)[-1] == (f"speculation {label}" if on else "plain")
