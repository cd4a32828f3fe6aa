"""The bytes of llama-server's chat stream, as the paced server writes them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def head(status: int, length: str, content_type: str) -> bytes:
    """The head of an HTTP answer that ends its connection."""
    return (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\nServer: llama.cpp\r\n"
        f"Content-Type: {content_type}\r\n{length}\r\nConnection: close\r\n\r\n"
    ).encode()


def refusal_body(code: int, message: str, kind: str) -> dict[str, dict[str, Any]]:
    return {"error": {"code": code, "message": message, "type": kind}}


class Stream:
    """One answer on ``writer``, counting as the server does."""

    def __init__(
        self, alias: str, timings: str, prompt: int, cut_bytes: int, writer: asyncio.StreamWriter
    ) -> None:
        self._writer = writer
        self._where = timings
        self._prompt = prompt
        self._cut = cut_bytes
        self._predicted = self._drafted = self._accepted = 0
        self._tail = (
            f'"created":1700000000,"id":"chatcmpl-paced","model":{json.dumps(alias)},'
            '"system_fingerprint":"paced","object":"chat.completion.chunk"'
        )

    def progress(self, processed: int) -> None:
        told = f'"prompt_progress":{{"total":{self._prompt},"cache":0,"processed":{processed},"time_ms":1}}'
        self._chunk('{"role":"assistant","content":null}', "null", self._timings(0.0), told)

    def block(self, drafted: int, accepted: int) -> None:
        self._drafted += drafted
        self._accepted += accepted

    def token(self, kind: str, text: str, seconds: float) -> None:
        self._predicted += 1
        if self._predicted == 1:
            self._chunk('{"role":"assistant","content":null}', "null")
        self._chunk(f'{{"{kind}":{json.dumps(text, ensure_ascii=False)}}}', "null", self._timings(seconds))

    def finish(self, reason: str, seconds: float) -> None:
        everywhere = self._where in {"all", "finish"}
        self._chunk("{}", f'"{reason}"', self._timings(seconds, force=True) if everywhere else "")
        if self._where == "usage":
            usage = f'"usage":{{"prompt_tokens":{self._prompt},"completion_tokens":{self._predicted}}}'
            self._event(f'{{"choices":[],{usage},{self._timings(seconds, force=True)},{self._tail}}}')
        self._event("[DONE]")
        self.end()

    def error(self) -> None:
        self._event(json.dumps(refusal_body(500, "Compute error.", "server_error")))
        self._event("[DONE]")
        self.end()

    def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")

    def die(self) -> None:
        self._writer.transport.abort()

    def _timings(self, seconds: float, *, force: bool = False) -> str:
        if self._where != "all" and not force:
            return ""
        spent = max(seconds * 1000, 0.001)
        speed = (self._predicted - 1) / spent * 1000 if self._predicted > 1 else 0.0
        drafts = ""
        if self._drafted:
            drafts = f',"draft_n":{self._drafted},"draft_n_accepted":{self._accepted}'
        return (
            f'"timings":{{"cache_n":0,"prompt_n":{self._prompt},"prompt_ms":20.0,"prompt_per_token_ms":1.0,'
            f'"prompt_per_second":1000.0,"predicted_n":{self._predicted},"predicted_ms":{spent:.3f},'
            f'"predicted_per_token_ms":{spent / max(1, self._predicted - 1):.5f},'
            f'"predicted_per_second":{speed:.5f}{drafts}}}'
        )

    def _chunk(self, delta: str, reason: str, *more: str) -> None:
        choice = f'"choices":[{{"finish_reason":{reason},"index":0,"delta":{delta}}}]'
        self._event("{" + ",".join([choice, self._tail, *filter(None, more)]) + "}")

    def _event(self, payload: str) -> None:
        data = f"data: {payload}\n\n".encode()
        size = self._cut or len(data)
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
