"""Everything that can go wrong and is the person's business: one sentence, one remedy.

LauncherError
├── BadInput            exit 2: something given to us is wrong
│   ├── SettingsError       a flag, BONSAI_* variable or line of config.toml
│   ├── PlanRefused         parts that cannot work together, or a value the model does not allow
│   └── PortTaken           a port asked for by name answers already
├── FileProblem         exit 3: a file or folder on this machine
│   ├── GgufError           missing, truncated, foreign or hostile model file
│   ├── FolderError         data or cache folder: read-only, full, not a folder
│   ├── CatalogError        catalog.toml says something that cannot be
│   └── StoreError          a conversation or measurement that cannot be read or written
├── FetchProblem        exit 6: something that could not be fetched; what is here already stays
│   ├── NetworkProblem      no connection, a cut one, a stalled one, a certificate, a proxy
│   ├── HubProblem          missing, gated or private, a refused token, a rate limit
│   ├── ReleaseProblem      no such release or asset, a rate limit
│   ├── DigestMismatch      other bytes or size than pinned or published
│   ├── NoSpace             the disk is too small for what is to come
│   ├── ArchiveError        an archive that is damaged or reaches out of its folder
│   ├── Cancelled           the person stopped it; the part is kept
│   └── NotFetched          it would have to be fetched first, and nobody has agreed
├── EngineProblem       exit 4: llama-server or what stands for it
│   ├── EngineMissing       none on this machine, or not the one asked for
│   ├── NotAnEngine         a program that is not a llama-server
│   ├── EngineDied          ended while loading or working; carries the log's last lines
│   └── BuildFailed         building from source
└── AnswerProblem       exit 5: the engine answered, but not with an answer
    ├── EngineUnreachable   connection refused, cut or silent
    ├── ServerRefused       an HTTP error with the server's own message
    └── ContextFull         the conversation no longer fits
"""

from __future__ import annotations


class LauncherError(Exception):
    """What failed (``what``, a full sentence) and what to try (``remedy``, may be empty)."""

    exit_code = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(f"{what} {remedy}".strip())


class BadInput(LauncherError):
    exit_code = 2


class SettingsError(BadInput):
    pass


class PlanRefused(BadInput):
    pass


class PortTaken(BadInput):
    pass


class FileProblem(LauncherError):
    exit_code = 3


class GgufError(FileProblem):
    pass


class FolderError(FileProblem):
    pass


class StoreError(FileProblem):
    pass


class CatalogError(FileProblem):
    pass


class FetchProblem(LauncherError):
    exit_code = 6


class NetworkProblem(FetchProblem):
    pass


class HubProblem(FetchProblem):
    pass


class ReleaseProblem(FetchProblem):
    pass


class DigestMismatch(FetchProblem):
    pass


class NoSpace(FetchProblem):
    pass


class ArchiveError(FetchProblem):
    pass


class Cancelled(FetchProblem):
    pass


class NotFetched(FetchProblem):
    pass


class EngineProblem(LauncherError):
    exit_code = 4


class EngineMissing(EngineProblem):
    pass


class NotAnEngine(EngineProblem):
    pass


class EngineDied(EngineProblem):
    """``log_tail`` holds the engine's last lines, ``returncode`` its exit status (None: unknown). ``cause``: why we ended
    it ourselves, where its log cannot tell: "port" (somebody else answers there) or "loopback"; else empty."""

    def __init__(
        self,
        what: str,
        remedy: str = "",
        *,
        log_tail: str = "",
        returncode: int | None = None,
        cause: str = "",
    ) -> None:
        super().__init__(what, remedy)
        self.cause = cause
        self.log_tail = log_tail
        self.returncode = returncode


class BuildFailed(EngineProblem):
    pass


class AnswerProblem(LauncherError):
    exit_code = 5


class EngineUnreachable(AnswerProblem):
    pass


class ServerRefused(AnswerProblem):
    """``status`` is the HTTP status, ``kind`` llama-server's error type (may be empty)."""

    def __init__(self, what: str, remedy: str = "", *, status: int = 0, kind: str = "") -> None:
        super().__init__(what, remedy)
        self.status = status
        self.kind = kind


class ContextFull(AnswerProblem):
    """``needed`` and ``context`` are in tokens."""

    def __init__(self, needed: int, context: int) -> None:
        super().__init__(
            f"The conversation needs {needed} tokens, but the context holds {context}.",
            "Start a new conversation, delete old messages, or raise BONSAI_CTX.",
        )
        self.needed = needed
        self.context = context
