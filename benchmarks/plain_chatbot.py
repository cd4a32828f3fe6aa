"""The page to compare with: a plain Gradio Chatbot that shows the stream of an engine, updated every 50 ms.

Run by streaming.py as ``python -m benchmarks.plain_chatbot ENGINE_URL PORT HISTORY``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr
import httpx

UPDATE_S = 0.05


def main(engine: str, port: int, history: list[Any]) -> None:
    """Serve until killed."""

    async def answer(prompt: str, messages: list[Any]) -> AsyncIterator[list[Any]]:
        text, done = "", False
        body = {"messages": [{"role": "user", "content": prompt}], "stream": True, "timings_per_token": True}

        async def pump() -> None:
            nonlocal text, done
            async with (
                httpx.AsyncClient(trust_env=False, timeout=600) as client,
                client.stream("POST", f"{engine}/v1/chat/completions", json=body) as response,
            ):
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        choices = json.loads(line[6:])["choices"]
                        text += (choices[0]["delta"].get("content") or "") if choices else ""
            done = True

        task = asyncio.create_task(pump())
        messages = [*messages, {"role": "user", "content": prompt}]
        while not done:
            await asyncio.sleep(UPDATE_S)
            yield [*messages, {"role": "assistant", "content": [{"type": "text", "text": text}]}]
        await task

    with gr.Blocks() as demo:
        chatbot = gr.Chatbot(value=history, height=600, elem_id="chat")
        prompt = gr.Textbox(elem_id="prompt")
        prompt.submit(answer, [prompt, chatbot], chatbot)
    demo.launch(server_name="127.0.0.1", server_port=port, quiet=True, inbrowser=False, ssr_mode=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
