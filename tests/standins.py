"""Small files under the real names of a trio, for the hub and the release server on loopback."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher import catalog
from launcher.catalog import Build, Facts, Line
from launcher.choose import Choice, choose
from launcher.hardware.detect import detect
from launcher.hardware.model import Machine
from launcher.settings import resolve
from tests.launcher.gguf_bytes import STR, U32, array, entry, gguf, tensor

ENGINE_TOOL = Path(__file__).parent / "fakes" / "engine_tool.py"


@dataclass(frozen=True)
class Standins:
    """``hub``: repository to name to bytes; ``releases``: (repository, tag) to asset to bytes."""

    choice: Choice
    hub: Mapping[str, Mapping[str, bytes]]
    releases: Mapping[tuple[str, str], Mapping[str, bytes]]


def standins(
    env: Mapping[str, str] | None = None,
    machine: Machine | None = None,
    *,
    weights_bytes: int = 300_000,
    program: str | None = None,
    target: bytes | None = None,
) -> Standins:
    """The files of the trio that these settings choose. ``program``: the text of the script llama-server in the
    engine's archive (default: a tool that answers as the fork does); ``target``: the bytes of the weights."""
    choice = choose(resolve({}, env or {}), machine or detect(), catalog.load())
    weights = choice.weights.file
    hub: dict[str, dict[str, bytes]] = {
        weights.repo: {weights.name: target or model(choice.model.facts, weights_bytes)}
    }
    if choice.drafter:
        file = choice.drafter.file
        hub.setdefault(file.repo, {})[file.name] = model(choice.drafter.facts, weights_bytes // 3)
    releases: dict[str, bytes] = {}
    for build in choice.builds:
        for asset in build.assets:
            releases[asset.name] = engine_archive(choice.line, build, program or engine_script("fork"))
    return Standins(choice, hub, {(choice.line.repo, choice.line.tag): releases})


def engine_script(mode: str) -> str:
    """A llama-server that only answers questions about itself, in a mode of engine_tool."""
    return f'#!/bin/sh\nexec "{sys.executable}" "{ENGINE_TOOL}" {mode} "$@"\n'


def engine_archive(line: Line, build: Build, program: str) -> bytes:
    """A tar.gz with one top folder, a program and a library with its links, as releases have them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        top = f"llama-{line.tag}-{build.backend}"
        for name, data, mode in (
            ("llama-server", program.encode(), 0o755),
            ("libllama.so.0.13.1", bytes(range(256)) * 400, 0o644),
        ):
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size, info.mode = len(data), mode
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo(f"{top}/libllama.so.0")
        link.type, link.linkname = tarfile.SYMTYPE, "libllama.so.0.13.1"
        archive.addfile(link)
    return out.getvalue()


def model(facts: Facts, size: int) -> bytes:
    """A GGUF of about ``size`` bytes whose header says what the catalog expects; its weights are noise."""
    arch, keys = facts.architecture, []
    for name, value in (
        ("block_count", facts.layers),
        ("embedding_length", facts.hidden_size),
        ("context_length", facts.context_length),
        ("attention.head_count", facts.head_count),
        ("attention.head_count_kv", facts.head_count_kv),
        ("attention.key_length", facts.key_length),
        ("attention.value_length", facts.value_length),
        ("full_attention_interval", facts.attention_interval),
        (f"{arch}.block_size" if arch == "dspark" else "block_size", facts.block_size),
    ):
        if value is not None:
            keys.append(entry(f"{arch}.{name}", U32, value))
    if facts.target_layers:
        keys.append(array(f"{arch}.{arch}.target_layer_ids", U32, list(facts.target_layers)))
    keys.append(entry("tokenizer.chat_template", STR, "{{ messages }}"))
    if facts.vocab_size is not None:
        keys.append(entry(f"{arch}.vocab_size", U32, facts.vocab_size))
    blocks = size // (34 * 8) * 8
    name = "markov.weight" if arch in ("dspark", "dflash") else "token_embd.weight"
    whole = gguf([entry("general.architecture", STR, arch), *keys], [tensor(name, (32, blocks), 8, 0)], 0)
    noise = bytes((index * 7919 + index // 251) % 256 for index in range(4096))
    return whole + (noise * (34 * blocks // 4096 + 1))[: 34 * blocks]
