"""Everything that a broken catalog is refused for."""

from __future__ import annotations

import pytest

from launcher.catalog import Catalog, parse
from launcher.errors import CatalogError

DIGEST = "0123456789abcdef" * 4
SMALL = f"""
[[model]]
family = "ternary"
name = "1B"
label = "One"
repo = "owner/one-gguf"
licence = "MIT"
revision = "{DIGEST[:40]}"
methods = ["ngram-simple"]
[model.facts]
architecture = "qwen3"
hidden_size = 64
vocab_size = 100
[[model.weights]]
name = "one-Q2_0.gguf"
format = "q2_0-g128"
bytes = 10
sha256 = "{DIGEST}"
[[model.drafter]]
name = "one-dspark.gguf"
method = "draft-dspark"
[model.drafter.facts]
architecture = "dspark"
hidden_size = 64
target_layers = [1, 2]

[[line]]
name = "old"
repo = "owner/engine"
tag = "v1"
formats = ["q2_0-g128"]
drafters = ["dspark"]
spec_types = ["draft-dspark", "ngram-simple"]
flags = ["-m", "--spec-type"]
[[line.build]]
system = "Linux"
arch = "x86_64"
backend = "cuda"
cuda = "12.8"
assets = [{{ name = "a.tar.gz", sha256 = "{DIGEST}" }}, {{ name = "b.tar.gz" }}]
[[line.build]]
system = "Linux"
arch = "x86_64"
backend = "cpu"
assets = [{{ name = "cpu.tar.gz" }}]
"""
BUILD = SMALL[SMALL.index("[[line.build]]") :]
MODEL = SMALL[: SMALL.index("[[line]]")]


def test_a_small_catalog_is_read() -> None:
    found = parse(SMALL, "small.toml")
    assert isinstance(found, Catalog)
    assert found.models[0].drafters[0].file.revision == DIGEST[:40]
    assert [asset.sha256 for asset in found.lines[0].builds[0].assets] == [DIGEST, None]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[model]]", "[[model]", "it is no valid TOML"),
        (SMALL, "", "model is missing"),
        (SMALL[SMALL.index("[[line]]") :], "", "line is missing"),
        (SMALL, "model = 3\n", "model must be a list of tables"),
        (SMALL, "model = [3]\n", "is no table of keys and values"),
        (SMALL, SMALL + '[[lines]]\nname = "x"\n', "lines is not a known key; did you mean line?"),
        ("methods =", "method =", "model ternary 1B: method is not a known key; did you mean methods?"),
        ("bytes = 10", "size = 10", "model ternary 1B, one-Q2_0.gguf: size is not a known key"),
        ('label = "One"', "", "model ternary 1B: label is missing"),
        ('label = "One"', "label = 1", "label must be a text"),
        ('licence = "MIT"', "", "model ternary 1B: licence is missing"),
        ('label = "One"', 'label = " "', "label is empty"),
        ('label = "One"', 'label = "a\\nb"', "label is empty or holds control characters"),
        (
            'family = "ternary"',
            'family = "tern"',
            "family is 'tern', but must be one of ternary, bonsai, bonsai2",
        ),
        ('name = "1B"', 'name = "a b"', "name must consist of letters"),
        (
            'repo = "owner/one-gguf"',
            'repo = "one-gguf"',
            "repo is 'one-gguf', but must be an owner and a name",
        ),
        ('repo = "owner/one-gguf"', 'repo = "https://x/y"', "but must be an owner and a name"),
        (
            f'revision = "{DIGEST[:40]}"',
            'revision = "main"',
            "revision must be 40 lower-case hexadecimal digits",
        ),
        ("bytes = 10", "bytes = 0", "one-Q2_0.gguf: bytes is 0, but must be above zero"),
        ("bytes = 10", 'bytes = "10"', "bytes must be a whole number"),
        ("bytes = 10", "bytes = true", "bytes must be a whole number"),
        (
            f'sha256 = "{DIGEST}"\n',
            f'sha256 = "{DIGEST[:63]}"\n',
            "64 lower-case hexadecimal digits, but has 63 letters",
        ),
        (f'sha256 = "{DIGEST}"\n', f'sha256 = "{DIGEST.upper()}"\n', "sha256 must be 64 lower-case"),
        ('"one-Q2_0.gguf"', '"*.gguf"', "but must be one file's exact name"),
        ('"one-Q2_0.gguf"', '"../one.gguf"', "but must be one file's exact name"),
        ('"one-Q2_0.gguf"', '"a..b.gguf"', "but must be one file's exact name"),
        ('"one-Q2_0.gguf"', '"sub/one.gguf"', "but must be one file's exact name"),
        ('"one-Q2_0.gguf"', '"one.bin"', "but must be one file's exact name (.gguf)"),
        ('"one-dspark.gguf"', '"one-Q2_0.gguf"', "file one-Q2_0.gguf is there 2 times"),
        ('format = "q2_0-g128"', 'format = "q2_0"', "format is 'q2_0', but must be one of q2_0-g128"),
        ('format = "q2_0-g128"', 'format = "pq2_0"', "no line reads pq2_0, the format of one-Q2_0.gguf"),
        (
            'method = "draft-dspark"',
            'method = "dspark"',
            "method is 'dspark', but must be one of draft-simple",
        ),
        (
            'method = "draft-dspark"',
            'method = "draft-simple"',
            "one-dspark.gguf does not fit: its architecture is dspark",
        ),
        ('method = "draft-dspark"', 'method = "draft-dflash"', "does not fit: its architecture is dspark"),
        (
            'method = "draft-dspark"',
            'method = "draft-eagle3"',
            "does not fit: its architecture is dspark, not eagle3",
        ),
        (
            "hidden_size = 64\ntarget",
            "hidden_size = 65\ntarget",
            "its hidden size is 65, but the target's is 64",
        ),
        (
            "target_layers = [1, 2]",
            "target_layers = [2, 1]",
            "target_layers must hold different whole numbers",
        ),
        (
            "target_layers = [1, 2]",
            "target_layers = [true]",
            "target_layers must hold different whole numbers",
        ),
        ('architecture = "qwen3"', "", "model ternary 1B, facts: architecture is missing"),
        ("vocab_size = 100", "vocab_size = -1", "vocab_size is -1, but must be above zero"),
        ("vocab_size = 100", "vocabulary = 100", "vocabulary is not a known key"),
        (
            'methods = ["ngram-simple"]',
            'methods = ["draft-mtp"]',
            "methods holds 'draft-mtp', but only ngram-simple",
        ),
        ('methods = ["ngram-simple"]', 'methods = ["ngram-mod"]', "no line that reads it does ngram-mod"),
        (
            'label = "One"',
            'label = "One"\nno_drafter = "none"',
            "no_drafter must say why there is no drafter",
        ),
        (MODEL, MODEL + MODEL, "model ternary 1B is there 2 times"),
        (
            'drafters = ["dspark"]',
            'drafters = ["dflash"]',
            "no line reads one-Q2_0.gguf and one-dspark.gguf together",
        ),
        (
            'spec_types = ["draft-dspark", ',
            "spec_types = [",
            "no line reads one-Q2_0.gguf and one-dspark.gguf together",
        ),
        ('formats = ["q2_0-g128"]', 'formats = ["q2_0-g129"]', "formats holds 'q2_0-g129', but only"),
        ('formats = ["q2_0-g128"]', "", "line old: formats is missing"),
        ('formats = ["q2_0-g128"]', 'formats = "q2_0-g128"', "formats must be a list"),
        ('formats = ["q2_0-g128"]', "formats = [3]", "formats holds 3, which is no text"),
        ('formats = ["q2_0-g128"]', 'formats = ["q1_0", "q1_0"]', "formats holds 'q1_0' twice"),
        ('drafters = ["dspark"]', 'drafters = ["dspar"]', "drafters holds 'dspar', but only dspark"),
        ('"draft-dspark", "ngram-simple"]', '"draft"]', "spec_types holds 'draft', but only"),
        ('flags = ["-m", ', 'flags = ["m", ', "flags holds 'm', which is no option"),
        ('tag = "v1"', "", "line old: repo, tag and builds belong together"),
        ('repo = "owner/engine"', "", "line old: repo, tag and builds belong together"),
        (BUILD, "", "line old: repo, tag and builds belong together"),
        (
            'system = "Linux"',
            'system = "linux"',
            "line old, a build: system is 'linux', but must be one of Linux",
        ),
        ('arch = "x86_64"', 'arch = "x64"', "arch is 'x64', but must be one of x86_64, arm64"),
        ('backend = "cpu"', 'backend = "hip"', "backend is 'hip', but must be one of cpu, cuda"),
        ('backend = "cpu"', 'backend = "metal"', "metal is there on Darwin alone"),
        ('backend = "cpu"', 'backend = "cuda"', "cuda is the toolkit's version"),
        ('backend = "cpu"', 'backend = "cpu"\ncuda = "12.4"', "cuda is the toolkit's version"),
        ('cuda = "12.8"', 'cuda = "12"', "cuda is '12', but must be a version"),
        ('assets = [{ name = "cpu.tar.gz" }]', "assets = []", "build Linux x86_64 cpu: assets is empty"),
        ('assets = [{ name = "cpu.tar.gz" }]', "", "build Linux x86_64 cpu: assets is missing"),
        ('"b.tar.gz"', '"a.tar.gz"', "build Linux x86_64 cuda 12.8: asset a.tar.gz is there 2 times"),
        ('"b.tar.gz"', '"b.exe"', "must be one file's exact name (.zip or .tar.gz)"),
        ('"b.tar.gz"', '"llama-*.tar.gz"', "must be one file's exact name"),
        (BUILD, BUILD + BUILD, "the build for Linux x86_64 cuda 12.8 is there 2 times"),
        (SMALL, SMALL + SMALL[SMALL.index("[[line]]") :], "line old is there 2 times"),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(old: str, new: str, said: str) -> None:
    assert old in SMALL
    with pytest.raises(CatalogError) as caught:
        parse(SMALL.replace(old, new, 1), "small.toml")
    assert caught.value.what.startswith("small.toml")
    assert said in caught.value.what
    assert caught.value.what.count(". ") == 0, "one sentence"
    assert caught.value.remedy
