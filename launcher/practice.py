"""The practice pair on disk: a target and a DSpark drafter whose greedy text is known in advance.

No language model: attention and feed-forward weights are zero, so the target's next token depends on the
last one alone, by the table of launcher.practice_recipe. The layers are computed all the same, so a run
costs what a model of that size costs.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launcher.amounts import size
from launcher.errors import FolderError
from launcher.practice_recipe import (
    AGREEMENT,
    BLOCK_SIZE,
    KINDS,
    NORMAL,
    SIZES,
    Expected,
    PracticeSize,
    Recipe,
    expected_acceptance,
    full_agreement,
    kind_of,
    known_text,
    known_thinking,
    make_recipe,
)

__all__ = [
    "AGREEMENT",
    "BLOCK_SIZE",
    "KINDS",
    "SIZES",
    "Expected",
    "PracticePair",
    "PracticeSize",
    "ensure_pair",
    "expected_acceptance",
    "kind_of",
    "known_text",
    "known_thinking",
    "on_disk",
    "write_pair",
]

# Goes up whenever the files must change although their recipe's digest stays the same.
_VERSION = 1
_CONTEXT = 32_768
_MARKOV_RANK = 256
# Logit of the one token that follows; all others stay near zero, so that sampling at usual
# temperatures gives the known text as well.
_LOGIT = 40.0
_STALE = 1800  # seconds
_TARGET_NAME = "Bonsai practice target (not a language model)"
_DRAFTER_NAME = "Bonsai practice drafter (not a language model)"


@dataclass(frozen=True)
class PracticePair:
    """Two verified files. ``agreement`` is the drafter's, by kind of text."""

    target: Path
    drafter: Path
    size: PracticeSize
    agreement: Mapping[str, float] = field(hash=False)


def ensure_pair(
    folder: Path, size: str = "small", *, agreement: Mapping[str, float] | None = None
) -> PracticePair:
    """The pair of that size in ``folder``, written if it is missing, broken or of another version.

    What is there is verified by size and sha256 on every call. Files get their names only when whole, so
    any number of processes may call this at once. ``agreement`` overrides the drafter's share of agreement
    by kind of text; each combination has files of its own. Raises FolderError (read-only, full, no folder),
    KeyError for an unknown size and ValueError for a bad agreement.
    """
    pair, manifest = _names(folder, size, agreement)
    shape = pair.size
    recipe = make_recipe(agreement)
    version = _version(recipe, shape)
    if _intact(pair, manifest, version):
        return pair
    with _folder_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _require_space(folder, shape, len(recipe.tokens))
        _sweep(folder)
        mark = uuid.uuid4().hex[:12]
        parts = [
            path.with_name(f".{path.name}.{mark}.part") for path in (pair.target, pair.drafter, manifest)
        ]
        try:
            write_pair(parts[0], parts[1], shape, recipe)
            names = (pair.target, pair.drafter, manifest)
            files = {path.name: _fingerprint(part) for path, part in zip(names[:2], parts[:2], strict=True)}
            parts[2].write_text(json.dumps({"version": version, "files": files}, indent=1), encoding="utf-8")
            for part, path in zip(parts, names, strict=True):
                try:
                    part.replace(path)
                except PermissionError:
                    # Windows: another process just wrote the same file and uses it already.
                    if not path.is_file() or _fingerprint(path) != _fingerprint(part):
                        raise
        finally:
            for part in parts:
                part.unlink(missing_ok=True)
    return pair


def on_disk(folder: Path, size: str = "small") -> PracticePair | None:
    """The pair that ensure_pair left in ``folder``, or None when it would write it anew. Goes by version and
    file sizes, hashes nothing and writes nothing. KeyError for an unknown size."""
    pair, manifest = _names(folder, size, None)
    kept = _kept(manifest, _version(make_recipe(), pair.size))
    whole = all(_size(path) == kept.get(path.name, {}).get("bytes") for path in (pair.target, pair.drafter))
    return pair if kept and whole else None


def _names(folder: Path, size: str, agreement: Mapping[str, float] | None) -> tuple[PracticePair, Path]:
    """The pair's files, whether they are there or not, and its manifest."""
    shares = full_agreement(agreement)
    stem = f"practice-{size}"
    if shares != AGREEMENT:
        stem += "-" + hashlib.sha256(json.dumps(sorted(shares.items())).encode()).hexdigest()[:8]
    target, drafter = folder / f"{stem}-target.gguf", folder / f"{stem}-drafter.gguf"
    return PracticePair(target, drafter, SIZES[size], shares), folder / f"{stem}.json"


def _version(recipe: Recipe, shape: PracticeSize) -> str:
    parts = [_VERSION, recipe.digest(), asdict(shape), _LOGIT, _MARKOV_RANK, _CONTEXT]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _kept(manifest: Path, version: str) -> dict[str, Any]:
    """File name -> size and sha256 as written down with the files; empty unless of that version."""
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
        if found["version"] == version and all(isinstance(entry, dict) for entry in found["files"].values()):
            return dict(found["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return {}


def _intact(pair: PracticePair, manifest: Path, version: str) -> bool:
    kept = _kept(manifest, version)
    try:
        return bool(kept) and all(
            # The size first: a truncated file is not worth hashing.
            _size(path) == kept[path.name]["bytes"] and kept[path.name] == _fingerprint(path)
            for path in (pair.target, pair.drafter)
        )
    except (OSError, KeyError):
        return False


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _fingerprint(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": digest}


def _sweep(folder: Path) -> None:
    """Remove what writers that were killed left behind; writing takes seconds, so what is old is dead."""
    for path in folder.glob(".practice-*.part"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE:
                path.unlink()


def _require_space(folder: Path, shape: PracticeSize, n_vocab: int) -> None:
    """Refuse before writing rather than after a gigabyte. Eight-bit weights take 34 bytes for 32 values."""
    layer = shape.n_embd * (3 * shape.n_embd + 3 * shape.n_ff)
    needed = (shape.n_layer + 1) * layer * 34 // 32 + n_vocab * shape.n_embd * 8 + (4 << 20)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FolderError(
            f"The practice pair needs {size(needed)} in {folder}, but {size(free)} are free.",
            "Free some space, or choose another data folder with BONSAI_HOME.",
        )


@contextmanager
def _folder_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        other = "Choose another data folder with BONSAI_HOME."
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or error.errno is None:
            # numpy reports a write that was cut short without an error number.
            raise FolderError(
                f"There is no room for the practice pair in {folder}.", f"Free some space. {other}"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise FolderError(
                f"The folder {folder} cannot be written to, so the practice pair has no place.",
                f"Make it writable. {other}",
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise FolderError(f"{folder} is a file where a folder is needed.", other) from error
        raise FolderError(f"The practice pair cannot be written to {folder}: {error}.", other) from error


def write_pair(
    target: Path,
    drafter: Path,
    shape: PracticeSize,
    recipe: Recipe | None = None,
    *,
    drafter_n_embd: int | None = None,
    drafter_recipe: Recipe | None = None,
    drafter_arch: str = "dflash",
    target_layers: tuple[int, ...] | None = None,
    block_size: int = BLOCK_SIZE,
) -> None:
    """Write both GGUF files as they are; OSError from the disk passes through.

    The keyword arguments make pairs that do not fit, for tests: a drafter of another hidden size, with
    other tokens, of another architecture, reading other layers.
    """
    recipe = recipe or make_recipe()
    _write_target(target, shape, recipe)
    layers = target_layers or (1, shape.n_layer // 2, shape.n_layer - 1)
    n_embd = drafter_n_embd or shape.n_embd
    head = PracticeSize("drafter", n_embd, 1, shape.n_ff, shape.n_head)
    _write_drafter(drafter, head, drafter_recipe or recipe, layers, block_size, drafter_arch)


def _write_target(path: Path, shape: PracticeSize, recipe: Recipe) -> None:
    import numpy as np

    out = _writer(path, "qwen3", _TARGET_NAME, shape, recipe)
    out.add_chat_template(recipe.template)
    embedding = _signs(len(recipe.tokens), shape.n_embd)
    out.add_tensor("token_embd.weight", embedding)
    out.add_tensor("output_norm.weight", np.ones(shape.n_embd, np.float32))
    out.add_tensor("output.weight", _lookup(recipe.successor, embedding))
    for index in range(shape.n_layer):
        _add_layer(out, index, shape)
    _finish(out)


def _write_drafter(
    path: Path,
    shape: PracticeSize,
    recipe: Recipe,
    layers: tuple[int, ...],
    block_size: int,
    arch: str,
) -> None:
    import numpy as np

    out = _writer(path, arch, _DRAFTER_NAME, shape, recipe)
    out.add_uint32(f"{arch}.block_size", block_size)
    out.add_array(f"{arch}.target_layers", list(layers))
    out.add_bool(f"{arch}.sample_from_anchor", True)
    out.add_bool(f"{arch}.has_confidence_head", False)
    n_vocab = len(recipe.tokens)
    out.add_tensor("token_embd.weight", _signs(n_vocab, shape.n_embd))
    # Logits before the Markov head are zero: the guess comes from the last token alone.
    _add_zeros(out, "output.weight", n_vocab, shape.n_embd)
    for name in ("output_norm.weight", "enc.output_norm.weight"):
        out.add_tensor(name, np.ones(shape.n_embd, np.float32))
    _add_zeros(out, "fc.weight", shape.n_embd, len(layers) * shape.n_embd)
    rows = _signs(n_vocab, _MARKOV_RANK)
    out.add_tensor("markov_w1.weight", rows)
    out.add_tensor("markov_w2.weight", _lookup(recipe.guess, rows))
    _add_layer(out, 0, shape)
    _finish(out)


def _writer(path: Path, arch: str, name: str, shape: PracticeSize, recipe: Recipe) -> Any:
    """A GGUF writer with everything but tensors and what target or drafter alone have."""
    import gguf

    out = gguf.GGUFWriter(path, arch)
    out.add_name(name)
    out.add_license("apache-2.0")
    out.add_context_length(_CONTEXT)
    out.add_embedding_length(shape.n_embd)
    out.add_block_count(shape.n_layer)
    out.add_feed_forward_length(shape.n_ff)
    out.add_head_count(shape.n_head)
    out.add_head_count_kv(shape.n_head // 2)
    out.add_key_length(shape.n_embd // shape.n_head)
    out.add_value_length(shape.n_embd // shape.n_head)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_freq_base(1e6)
    out.add_tokenizer_model("llama")
    out.add_token_list([token.text.encode() for token in recipe.tokens])
    out.add_token_scores([-1000.0 if token.type == NORMAL else 0.0 for token in recipe.tokens])
    out.add_token_types([token.type for token in recipe.tokens])
    out.add_bos_token_id(recipe.bos)
    out.add_eos_token_id(recipe.eos)
    out.add_unk_token_id(recipe.unknown)
    out.add_mask_token_id(recipe.mask)
    out.add_add_bos_token(False)
    out.add_add_space_prefix(False)
    return out


def _finish(out: Any) -> None:
    try:
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_tensors_to_file()
    finally:
        out.close()


def _add_layer(out: Any, index: int, shape: PracticeSize) -> None:
    import numpy as np

    n_embd, n_ff, n_head = shape.n_embd, shape.n_ff, shape.n_head
    norms = {"attn_norm": n_embd, "ffn_norm": n_embd, "attn_q_norm": n_embd // n_head}
    norms["attn_k_norm"] = n_embd // n_head
    for name, width in norms.items():
        out.add_tensor(f"blk.{index}.{name}.weight", np.ones(width, np.float32))
    weights = {
        "attn_q": (n_embd, n_embd),
        "attn_k": (n_embd // 2, n_embd),
        "attn_v": (n_embd // 2, n_embd),
        "attn_output": (n_embd, n_embd),
        "ffn_gate": (n_ff, n_embd),
        "ffn_up": (n_ff, n_embd),
        "ffn_down": (n_embd, n_ff),
    }
    for name, (rows, columns) in weights.items():
        _add_zeros(out, f"blk.{index}.{name}.weight", rows, columns)


def _add_zeros(out: Any, name: str, rows: int, columns: int) -> None:
    """A zero matrix in Q8_0: blocks of 32 values in 34 bytes, all of them zero."""
    import gguf
    import numpy as np

    zeros = np.zeros((rows, columns // 32 * 34), np.uint8)
    out.add_tensor(name, zeros, raw_dtype=gguf.GGMLQuantizationType.Q8_0)


def _signs(rows: int, columns: int) -> Any:
    """A matrix of 1 and -1, the same on every machine: rows are nearly orthogonal to each other."""
    import numpy as np

    count = rows * columns
    source = random.Random(f"practice signs/{columns}")  # noqa: S311 - must come out the same everywhere
    bits = np.unpackbits(np.frombuffer(source.randbytes(-(-count // 8)), np.uint8), count=count)
    return (bits.astype(np.float16) * 2 - 1).reshape(rows, columns)


def _lookup(table: Mapping[int, int], rows: Any) -> Any:
    """Output weights W with argmax(W @ rows[token]) == table[token]: row t of W sums up the rows of the
    tokens that t follows, scaled so that a match gives the logit _LOGIT."""
    import numpy as np

    count, width = rows.shape
    weights = np.zeros((count, width), np.float32)
    before, after = np.array(list(table)), np.array(list(table.values()))
    np.add.at(weights, after, rows[before].astype(np.float32) * (_LOGIT / width))
    return weights.astype(np.float16)
