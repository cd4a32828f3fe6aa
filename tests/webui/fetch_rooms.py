"""A room that fetches nothing: it says what it is told, from another thread, as the real one does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from launcher.errors import LauncherError
from launcher.fetch_types import FetchState, Item, ModelList, ModelRow, Offer

GB = 10**9
ENGINE = Item(
    "engine",
    "llama-prism-b9596-9fcaed7-bin-linux-cuda-12.8-x64.tar.gz",
    218_400_000,
    0,
    "waiting",
    "github.com/PrismML-Eng/llama.cpp, release prism-b9596-9fcaed7",
)
WEIGHTS = Item(
    "weights",
    "Ternary-Bonsai-27B-Q2_0.gguf",
    7_165_121_600,
    0,
    "waiting",
    "huggingface.co/prism-ml/Ternary-Bonsai-27B-gguf",
)
DRAFTER = Item(
    "drafter",
    "Ternary-Bonsai-27B-dspark-Q4_1.gguf",
    1_946_393_568,
    0,
    "waiting",
    "huggingface.co/prism-ml/Ternary-Bonsai-27B-gguf",
)
ITEMS = (ENGINE, WEIGHTS, DRAFTER)
TOTAL = sum(it.total or 0 for it in ITEMS)
OFFER = Offer(
    title="Ternary Bonsai 27B",
    why=(
        ("model", "the default: the largest ternary model that fits this machine"),
        ("engine", "the build for CUDA 12.8: the driver supports 12.9"),
        ("weights", "Q2_0 with groups of 128, the format that this engine reads without a conversion"),
        ("drafter", "trained for exactly these weights; used once speculation is switched on"),
    ),
    items=ITEMS,
    to_fetch=TOTAL,
    folder="/home/someone/.local/share/bonsai-launcher",
    disk_needed=TOTAL + 600_000_000,
    disk_free=212 * GB,
    disk_ok=True,
    memory="11.4 of 23.6 GB of the GPU's memory with a context of 32,768 tokens.",
    memory_ok=True,
    left_out=(
        ("Ternary-Bonsai-27B-Q2_g64.gguf", "the frozen Prism build does not read groups of 64"),
        ("Vulkan build", "CUDA is there and faster"),
    ),
    notices=(),
    offers=("Bonsai 27B (1 bit) takes 3.8 GB instead: set BONSAI_FAMILY=bonsai.",),
    licence="Apache-2.0",
)
HERE = replace(WEIGHTS, have=WEIGHTS.total or 0, state="done", where="/data/models/x.gguf", in_place=True)

MODELS = ModelList(
    rows=(
        ModelRow(
            "ternary/27B", "Ternary Bonsai 27B", 9_111_515_168, False, "no", True, "Fits on the GPU",
            "Needs 8.3 GiB of 23.3 GiB free on the GPU (weights 6.7, cache 1.1, buffers 0.5; 0.5 stays free).",
            "Comes with a drafter that was trained for it (draft-dspark)", True, "Apache-2.0", automatic=True,
        ),
        ModelRow(
            "ternary/8B", "Ternary Bonsai 8B", 2_310_125_920, False, "yes", True, "Fits on the GPU",
            "Needs 4.7 GiB of 23.3 GiB free on the GPU (weights 2.2, cache 2.2, buffers 0.3; 0.5 stays free).",
            "No drafter is published for this size", False, "Apache-2.0",
        ),
        ModelRow(
            "bonsai/27B", "Bonsai 27B (1-bit)", 3_803_452_480, True, "unread", True, "Partly on the GPU",
            "Needs 4.1 GiB of 4.2 GiB free on the GPU and 1.1 GiB of 31.0 GiB free in RAM.",
            "Comes with a drafter that was trained for it (draft-dspark)", True, "Apache-2.0",
        ),
        ModelRow(
            "bonsai2/27B", "Ternary Bonsai 2 27B", 5_946_648_928, False, "no", False, "Does not run here",
            "The weights of Ternary Bonsai 2 27B do not fit the engine: it does not read groups of 128.",
            "No official drafter is published for Bonsai 2", False, "Apache-2.0", "Bonsai 2 runs plain.",
        ),
    ),
    automatic="Ternary Bonsai 27B",
)  # fmt: skip

FOUND = replace(WEIGHTS, state="found", where="/data/models/x.gguf", source="")


class Room:
    """``calls``: what the page asked for. ``problem``: raised by everything that may raise."""

    def __init__(self, offer: Offer | None = OFFER) -> None:
        self.offered = offer
        self.calls: list[str] = []
        self.looks = 0
        self.problem: LauncherError | None = None
        self.listeners: list[Callable[[FetchState], None]] = []
        items = offer.items if offer else ()
        self.now = FetchState("idle", items, offer.to_fetch if offer else None, 0)
        self.listed = MODELS

    def offer(self) -> Offer | None:
        self.looks += 1
        if self.problem:
            raise self.problem
        return self.offered

    def state(self) -> FetchState:
        return self.now

    def on_change(self, callback: Callable[[FetchState], None]) -> Callable[[], None]:
        self.listeners.append(callback)
        return lambda: self.listeners.remove(callback)

    def begin(self) -> None:
        self._asked("begin", "running")

    def pause(self) -> None:
        self._asked("pause", "paused")

    def resume(self) -> None:
        self._asked("resume", "running")

    def cancel(self) -> None:
        self._asked("cancel", "cancelled")

    def retry(self) -> None:
        self._asked("retry", "running")

    def use(self) -> None:
        self._asked("use", self.now.phase)

    def models(self) -> ModelList:
        if self.problem:
            raise self.problem
        return self.listed

    def choose(self, name: str) -> None:
        """What is chosen is offered."""
        if self.problem:
            raise self.problem
        self.calls.append(f"choose {name}")
        rows = tuple(replace(row, chosen=row.name == name, automatic=False) for row in self.listed.rows)
        self.listed = MODELS if name == "auto" else replace(self.listed, rows=rows)
        title = next((row.label for row in rows if row.chosen), MODELS.automatic)
        self.offered = replace(OFFER, title=title)
        self.become(phase="idle", choices=self.now.choices + 1)

    def _asked(self, name: str, phase: str) -> None:
        if self.problem:
            raise self.problem
        self.calls.append(name)
        self.become(phase=phase, error="", remedy="")

    def become(self, **changes: Any) -> None:
        """Change the state and tell it, from another thread."""
        self.now = replace(self.now, **changes)

        def tell() -> None:
            for listener in list(self.listeners):
                listener(self.now)

        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()

    def came(self, part: str, have: int, **changes: Any) -> None:
        """``have`` bytes of a part are here; ``changes`` are for its item."""
        rate = 84_300_000.0

        def changed(item: Item) -> Item:
            left = ((item.total or 0) - have) / rate
            values: dict[str, Any] = {
                "have": have,
                "state": "running",
                "rate": rate,
                "left_s": left,
                **changes,
            }
            return replace(item, **values)

        items = tuple(changed(it) if it.part == part else it for it in self.now.items)
        total = sum(it.have for it in items)
        self.become(items=items, have=total, rate=rate, left_s=((self.now.total or 0) - total) / rate)

    def done(self) -> None:
        """Everything is here."""
        items = tuple(replace(it, have=it.total or 0, state="done", rate=None) for it in self.now.items)
        self.offered = None
        self.become(phase="done", items=items, have=self.now.total or 0, rate=None, left_s=None)
