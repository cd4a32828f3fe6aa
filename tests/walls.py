"""What each room of the source may touch, read from its syntax tree. ``tests/test_walls.py`` applies it."""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# Standard modules that compute and nothing else.
COMPUTING = {
    "__future__", "bisect", "collections", "dataclasses", "difflib", "enum", "functools", "hashlib", "html",
    "itertools", "json", "math", "random", "re", "shlex", "statistics", "string", "textwrap", "tomllib", "types",
    "typing", "unicodedata",
}  # fmt: skip

# Rooms that decide or decode: same input, same output, and nothing else happens.
PURE = {
    "launcher/advise.py", "launcher/advise_model.py", "launcher/amounts.py", "launcher/archive_names.py",
    "launcher/catalog_fields.py", "launcher/catalog_parse.py", "launcher/catalog_table.py",
    "launcher/choose.py", "launcher/choose_builds.py", "launcher/choose_model.py", "launcher/choose_parts.py",
    "launcher/config_edit.py",
    "launcher/fit.py", "launcher/need.py", "launcher/gguf_formats.py", "launcher/expected.py",
    "launcher/client/decode.py", "launcher/client/events.py",
    "launcher/client/figures.py", "launcher/client/refusal.py", "launcher/client/sse.py",
    "launcher/client/thinking.py", "launcher/errors.py", "launcher/hardware/model.py",
    "launcher/devices.py", "launcher/drafter_kinds.py", "launcher/fetch_types.py", "launcher/hardware/parse.py",
    "launcher/ladder.py",
    "launcher/lab_advice.py", "launcher/lab_matrix.py", "launcher/lab_stats.py", "launcher/lab_types.py",
    "launcher/markdown.py", "launcher/memory.py", "launcher/methods.py",
    "launcher/pair.py", "launcher/plain_values.py", "launcher/race_figures.py", "launcher/race_prompts.py",
    "launcher/race_record.py", "launcher/race_stats.py", "launcher/race_types.py", "launcher/race_verdict.py",
    "launcher/plan.py", "launcher/practice_recipe.py", "launcher/practice_texts.py",
    "launcher/resolved.py", "launcher/settings.py",
    "launcher/supervise/cause.py", "launcher/supervise/causes.py", "launcher/supervise/causes_files.py",
    "launcher/supervise/causes_machine.py", "launcher/supervise/causes_start.py", "launcher/supervise/diagnose.py",
    "launcher/supervise/exits.py", "webui/conversation.py",
    "webui/draft.py", "webui/figures.py",
}  # fmt: skip
# What they may take from rooms that do more: value types.
VALUE_TYPES = {
    "launcher/catalog.py", "launcher/gguf_header.py", "launcher/gguf_parse.py", "launcher/store.py",
}  # fmt: skip

# Who may use what, and everybody else may not. ``sys.x`` and ``os.x`` are attributes, the rest modules.
ONLY: dict[str, set[str]] = {
    # cli reads it once; the others hand it on to a child process or to gradio, and look for nothing in it
    # but the compiler that CXX names, and the GPUs that the driver's own variables hide.
    "os.environ": {
        "launcher/cli_options.py",
        "launcher/compiling.py",
        "launcher/engine_probe.py",
        "launcher/hardware/detect.py",
        "launcher/page.py",
        "launcher/streams.py",  # where logs lie, before anything can be read
    },
    "os.getenv": set(),
    "os.putenv": set(),
    "sys.argv": {"launcher/__main__.py", "launcher/embedded.py"},
    # one place for each choice between systems
    "sys.platform": {
        "launcher/compiling.py",
        "launcher/embedded.py",
        "launcher/engine_build.py",
        "launcher/engine_probe.py",
        "launcher/quarantine.py",
        "launcher/serve.py",
        "launcher/supervise/_posix.py",
        "launcher/supervise/system.py",
    },
    "platform": {
        "launcher/alert.py",
        "launcher/embedded.py",
        "launcher/engine_build.py",
        "launcher/hardware/*.py",
    },
    "subprocess": {
        "launcher/compiling.py",
        "launcher/engine_probe.py",
        "launcher/supervise/*.py",
    },
    "os.system": set(),
    "os.popen": set(),
    "multiprocessing": set(),
    "ctypes": {
        "launcher/alert.py",
        "launcher/embedded.py",
        "launcher/hardware/probes.py",
        "launcher/supervise/_*.py",
    },
    "psutil": {"launcher/hardware/*.py", "launcher/supervise/*.py"},
    "socket": {
        "launcher/client/loopback.py",
        "launcher/fetch_http.py",
        "launcher/fetch_seam.py",
        "launcher/supervise/ports.py",
        "webui/app.py",
    },
    "http.client": {"launcher/instance.py"},  # one question to this machine, before anything slow is loaded
    "httpx": {
        "launcher/client/http.py",
        "launcher/client/loopback.py",
        "launcher/fetch_http.py",
        "launcher/fetch_net.py",
        "launcher/fetch_seam.py",
        "launcher/releases.py",
        "launcher/supervise/server.py",
    },
    "httpcore": {"launcher/fetch_http.py"},
    "certifi": {"launcher/fetch_net.py"},
    "urllib.request": set(),
    "requests": set(),
    "httpx2": {"launcher/hub.py"},  # what huggingface_hub is given as its client
    "huggingface_hub": {"launcher/hub.py"},
    "xllamacpp": {"launcher/embedded.py"},
    "gguf": {"launcher/practice.py"},
    "numpy": {"launcher/practice.py"},
    "platformdirs": {"launcher/paths.py"},
    "typer": {"launcher/cli*.py"},
    "rich": {"launcher/console.py", "launcher/transfer_view.py"},
    "gradio": {"webui/*.py"},
    "uvicorn": {"webui/app.py"},
    "webbrowser": {"launcher/alert.py", "launcher/page.py"},
    "webui": {"webui/*.py", "launcher/page.py"},
}

# What the page knows of the launcher: values, the client, the store, the owner of the engine, measurements.
WEBUI_TAKES = {
    "launcher/advise.py", "launcher/advise_model.py", "launcher/advise_run.py",
    "launcher/amounts.py",
    "launcher/client/events.py", "launcher/client/http.py", "launcher/errors.py", "launcher/fetch_types.py",
    "launcher/lifecycle.py", "launcher/lab.py", "launcher/lab_advice.py", "launcher/lab_export.py",
    "launcher/lab_matrix.py", "launcher/lab_stats.py", "launcher/lab_store.py", "launcher/lab_types.py",
    "launcher/methods.py", "launcher/plan.py", "launcher/race.py",
    "launcher/race_export.py", "launcher/race_figures.py", "launcher/race_prompts.py",
    "launcher/race_store.py", "launcher/race_types.py", "launcher/resolved.py", "launcher/store.py",
    "launcher/hardware/model.py",
}  # fmt: skip

PRINTERS = {"launcher/console.py", "launcher/embedded.py"}
FILE_CALLS = {"read_text", "write_text", "read_bytes", "write_bytes", "mkdir", "unlink", "touch", "iterdir"}
MOST_LINES = 400


@dataclass(frozen=True)
class Import:
    """One import statement: ``module`` as dotted text, ``names`` what ``from`` takes out of it.

    ``lazy``: inside a function; ``typing``: for annotations only.
    """

    module: str
    names: tuple[str, ...]
    line: int
    lazy: bool
    typing: bool

    def touches(self, package: str) -> bool:
        """Whether it loads ``package``, a module in it, or takes that very name."""
        dotted = (self.module, *(f"{self.module}.{name}" for name in self.names))
        return any(it == package or it.startswith(package + ".") for it in dotted)

    def only_from(self, files: set[str]) -> bool:
        """Whether all that it loads of ours lies in ``files``."""
        if _file(self.module) in files:
            return True
        return bool(self.names) and all(_file(f"{self.module}.{name}") in files for name in self.names)


@dataclass(frozen=True)
class Source:
    """One file, read once: its imports, the dotted attributes it uses, and its calls by line."""

    path: str
    imports: tuple[Import, ...]
    attributes: tuple[tuple[int, str], ...]
    calls: tuple[tuple[int, str], ...]  # "print", "open" for builtins, ".read_text" for methods
    lines: int


def read(path: str, text: str) -> Source:
    """``path`` is relative to the checkout, with slashes."""
    tree = ast.parse(text, path)
    attributes, calls = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.append((node.lineno, f"{node.value.id}.{node.attr}"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.append((node.lineno, node.func.id))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            calls.append((node.lineno, f".{node.func.attr}"))
    imports = tuple(_imports(tree, lazy=False, typing=False))
    return Source(path, imports, tuple(attributes), tuple(calls), text.count("\n") + 1)


def _imports(node: ast.AST, *, lazy: bool, typing: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(it.name, (), child.lineno, lazy, typing) for it in child.names)
        elif isinstance(child, ast.ImportFrom):
            module = "." * child.level + (child.module or "")
            yield Import(module, tuple(it.name for it in child.names), child.lineno, lazy, typing)
        else:
            late = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            yield from _imports(child, lazy=lazy or late, typing=typing or checking)


def _file(module: str) -> str:
    return module.replace(".", "/") + ".py"


def wrong_users(source: Source) -> Iterator[str]:
    """ONLY: a module or attribute used by somebody who may not."""
    for used, allowed in ONLY.items():
        if any(fnmatch.fnmatchcase(source.path, pattern) for pattern in allowed):
            continue
        lines = [it.line for it in source.imports if it.touches(used) and not it.typing]
        lines += [line for line, attribute in source.attributes if attribute == used]
        for line in lines:
            yield f"{source.path}:{line} uses {used}, which only {sorted(allowed) or 'nobody'} may"


def impure(source: Source) -> Iterator[str]:
    """PURE: only computing modules and one another, and no file is touched."""
    if source.path not in PURE:
        return
    for it in source.imports:
        if (
            it.module.split(".")[0] not in COMPUTING
            and not it.typing
            and not it.only_from(PURE | VALUE_TYPES)
        ):
            yield f"{source.path}:{it.line} is pure and must not import {' '.join((it.module, *it.names))}"
    for line, name in file_calls(source):
        yield f"{source.path}:{line} is pure and must not touch files ({name})"


def file_calls(source: Source) -> Iterator[tuple[int, str]]:
    """Calls of the builtin ``open`` and of the methods by which a Path touches the disk."""
    for line, name in source.calls:
        if name == "open" or (name.startswith(".") and name[1:] in FILE_CALLS):
            yield line, name.lstrip(".")


def eager_page(source: Source) -> Iterator[str]:
    """The launcher meets the page only inside a function: every other command starts without gradio."""
    if source.path.startswith("launcher/"):
        for it in source.imports:
            if it.touches("webui") and not it.lazy and not it.typing:
                yield f"{source.path}:{it.line} imports {it.module} at its top; only inside a function"


def nosy_page(source: Source) -> Iterator[str]:
    """The page takes only what it is shown, and reads no file but its own static ones."""
    if not source.path.startswith("webui/"):
        return
    for it in source.imports:
        if it.touches("launcher") and not it.only_from(WEBUI_TAKES):
            taken = " ".join((it.module, *it.names))
            yield f"{source.path}:{it.line} takes {taken}, which the page has no business with"
    if not any(it.touches("importlib.resources") for it in source.imports):
        for line, name in file_calls(source):
            yield f"{source.path}:{line} touches files ({name}); the store does that"


def talkers(source: Source) -> Iterator[str]:
    """Only the console prints."""
    for line, name in source.calls:
        if name in ("print", "input") and source.path not in PRINTERS:
            yield f"{source.path}:{line} calls {name}; use launcher.console"


def relative(source: Source) -> Iterator[str]:
    """Imports name their whole path, so that these rules can read them."""
    for it in source.imports:
        if it.module.startswith("."):
            yield f"{source.path}:{it.line} imports relatively; write the whole path"


def too_long(source: Source) -> Iterator[str]:
    """A long file holds more than one idea."""
    if source.lines > MOST_LINES:
        yield f"{source.path} has {source.lines} lines; {MOST_LINES} at most, divide it"


RULES: tuple[Callable[[Source], Iterator[str]], ...] = (
    wrong_users,
    impure,
    eager_page,
    nosy_page,
    talkers,
    relative,
    too_long,
)


def complaints(path: str, text: str) -> list[str]:
    """Everything that is wrong with one file; ``path`` is relative to the checkout, with slashes."""
    source = read(path, text)
    return list(dict.fromkeys(text for rule in RULES for text in rule(source)))
