"""A person at the page, by its own routes: sends messages, reads what comes, sees the state of the engine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

QUIET_S = 60.0  # without a byte a tab gives up; far beyond every bound


class Exchange:
    """A message and its answer, read on a thread of its own. ``text``: what has been shown so far; ``done``: the turn as
    it was kept; ``told``: why there is none; ``waits``: what was said meanwhile; ``cut``: the page itself went away."""

    def __init__(self, client: httpx.Client, message: dict[str, Any]) -> None:
        self.message = message
        self.begun: dict[str, Any] = {}
        self.text, self.told, self.cut = "", "", ""
        self.waits: list[str] = []
        self.reading = 0  # tokens of the prompt that have been read
        self.done: dict[str, Any] | None = None
        self.over = threading.Event()
        self._history: list[tuple[float, int]] = []  # when how many characters had been shown
        self._client = client
        self._thread = threading.Thread(target=self._run, name="tab", daemon=True)
        self._thread.start()

    @property
    def conversation(self) -> str:
        return str(self.begun.get("begin", {}).get("id", ""))

    @property
    def ended(self) -> str:
        """How the answer ended, empty while it runs or where it was not kept."""
        return str(self.done["ended"]) if self.done else ""

    @property
    def complete(self) -> bool:
        return bool(self.done and self.done["ended"] in ("stop", "length") and self.done["content"])

    @property
    def said(self) -> str:
        """What a person reads of why it ended as it did."""
        return " ".join([self.told, self.cut, str(self.done["note"]) if self.done else ""]).strip()

    def shown(self, until: float) -> str:
        """What had been shown then (monotonic)."""
        return self.text[: max((size for at, size in self._history if at <= until), default=0)]

    def wait(self, seconds: float) -> bool:
        """Until it is over."""
        return self.over.wait(seconds)

    def _run(self) -> None:
        try:
            with self._client.stream("POST", "/bonsai/chat", json=self.message) as reply:
                if reply.status_code != 200:
                    self._refused(reply)
                    return
                rest = b""
                for piece in reply.iter_raw():
                    *frames, rest = (rest + piece).split(b"\n\n")
                    for frame in frames:
                        self._take(json.loads(frame.removeprefix(b"data: ")))
        except httpx.HTTPError as error:
            self.cut = f"{type(error).__name__}: {error}"
        finally:
            self.over.set()

    def _refused(self, reply: httpx.Response) -> None:
        body = reply.read()
        try:
            answer = json.loads(body)
            self.told = f"{answer['error']} {answer['remedy']}"
        except (ValueError, KeyError):
            self.told = f"{reply.status_code}: {body[:300]!r}"

    def _take(self, frame: dict[str, Any]) -> None:
        if "begin" in frame:
            self.begun = frame
        if "t" in frame:
            self.text += frame["t"]
            self._history.append((time.monotonic(), len(self.text)))
        if "wait" in frame:
            self.waits.append(frame["wait"])
        if "reading" in frame:
            self.reading = frame["reading"]["done"]
        if "broken" in frame:
            self.told = f"{frame['broken']['error']} {frame['broken']['remedy']}"
        self.done = frame.get("done", self.done)


class Browser:
    """Has the page open once ``open`` has returned."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.exchanges: list[Exchange] = []
        self._client = httpx.Client(
            base_url=url,
            trust_env=False,
            headers={"Origin": url},
            timeout=httpx.Timeout(QUIET_S, connect=5),
        )

    def ready(self) -> bool:
        """Whether the whole page is there."""
        try:
            return bool(self._client.get("/bonsai/ready", timeout=2).json()["ready"])
        except (httpx.HTTPError, ValueError):
            return False

    def open(self, seconds: float, given_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the page and take its cookie; False: it has not come, or ``given_up`` says that it will not."""
        end = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > end or given_up():
                return False
            time.sleep(0.05)
        return self._client.get("/").status_code == 200

    def status(self) -> dict[str, Any]:
        """The engine's state as the page shows it, empty where it does not answer."""
        try:
            found: dict[str, Any] = self._client.get("/bonsai/machine", timeout=5).json()["status"]
        except (httpx.HTTPError, ValueError, KeyError):
            return {}
        return found

    def phase(self) -> str:
        return str(self.status().get("phase", ""))

    def say(self, text: str, after: Exchange | None = None) -> Exchange:
        """Send a message, in the conversation of ``after`` or in a new one."""
        message: dict[str, Any] = {"action": "send", "text": text}
        if after is not None and after.conversation:
            message["conversation"] = after.conversation
        self.exchanges.append(Exchange(self._client, message))
        return self.exchanges[-1]

    def stop(self, exchange: Exchange) -> None:
        """Press Stop."""
        self._client.post("/bonsai/stop", json={"answer": exchange.begun["answer"]})

    def switch(self, speculative: bool | None) -> None:
        """The page's switch for speculation; None: the button that starts the engine."""
        self._client.post("/bonsai/engine", json={"speculative": speculative})

    def quit(self) -> None:
        """The button."""
        self._client.post("/bonsai/quit", json={})

    def set(self, **changes: Any) -> None:
        """Settings for answers."""
        self._client.put("/bonsai/settings", json=changes).raise_for_status()

    def close(self) -> None:
        self._client.close()
