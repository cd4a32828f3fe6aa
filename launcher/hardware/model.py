"""What is known of this machine. Unknown is None, never a guess."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """Memory in bytes. ``gpus`` are not probed by this version: the engine itself says what it uses."""

    system: str  # "Linux", "Darwin", "Windows"
    arch: str  # "x86_64", "arm64", ...
    cpu: str | None
    cores: int | None
    threads: int | None
    ram_bytes: int | None
    ram_free_bytes: int | None

    def rows(self) -> list[tuple[str, str]]:
        """(what, value) lines for people."""

        def gib(count: int | None) -> str:
            return "unknown" if count is None else f"{count / 2**30:.1f} GiB"

        return [
            ("System", f"{self.system} on {self.arch}"),
            ("Processor", self.cpu or "unknown"),
            ("Cores", f"{self.cores or 'unknown'} ({self.threads or 'unknown'} threads)"),
            ("Memory", f"{gib(self.ram_bytes)}, {gib(self.ram_free_bytes)} free"),
        ]
