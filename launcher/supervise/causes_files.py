"""Causes that lie in the files: a format, an architecture, a drafter that does not fit, damage."""

from __future__ import annotations

from launcher.supervise.cause import Cause

_PLAIN = "switch speculation off with BONSAI_SPECULATIVE=0"
_OFFSET = r"tensor '(?P<tensor>[^']*)' has offset (?P<have>\d+), expected (?P<want>\d+)"
_LEGACY = (
    "The file itself is sound: keep it. Choose the engine line that it was made for with BONSAI_ENGINE "
    "(old `Q2_0` files: prism-legacy), or fetch the weights for this engine with `bonsai fetch`."
)

FILES = (
    Cause(
        "drafter-architecture",
        (
            "The drafter does not fit this engine: {file} is in the old DSpark format (tensor {tensor}), "
            "which only the prism-legacy engine reads."
        ),
        (
            "Choose BONSAI_ENGINE=prism-legacy with its weights, fetch the converted `dspark-dflash` "
            f"drafter with `bonsai fetch`, or {_PLAIN}."
        ),
        lines=(r"tensor '(?P<tensor>dspark\.[^']*)' has offset",),
        drafter=True,
    ),
    Cause(
        "drafter-architecture",
        (
            "The drafter does not fit this engine: it was written for a build that lays out its tensors "
            "differently (tensor {tensor})."
        ),
        (
            "The file itself is sound: keep it. Choose the drafter made for this engine with "
            f"BONSAI_DRAFTER, or {_PLAIN}."
        ),
        lines=(_OFFSET,),
        part="drafter",
        drafter=True,
    ),
    Cause(
        "legacy-q2_0",
        (
            "The weights are for another build of the engine: {file} holds the legacy Q2_0 layout "
            "(groups of 128), and this engine reads Q2_0 in groups of 64."
        ),
        _LEGACY,
        lines=(r"this file matches the legacy Prism Q2_0 layout",),
    ),
    Cause(
        "legacy-q2_0",
        (
            "The weights are for another build of the engine: {file} lays out its tensors differently "
            "(tensor {tensor} at {have}, this engine expects {want})."
        ),
        _LEGACY,
        lines=(_OFFSET,),
    ),
    Cause(
        "unknown-type",
        "This engine does not know the number format of the {part} ({file}, tensor {tensor}, type {type}).",
        (
            "Choose the engine line that reads it with BONSAI_ENGINE (types 142 PQ2_0 and 143 PTQ1_0: "
            "prism), or fetch weights for this engine with `bonsai fetch`; the file itself is sound."
        ),
        lines=(r"tensor '(?P<tensor>[^']*)' has invalid ggml type (?P<type>\d+)",),
    ),
    Cause(
        "unknown-type",
        "This engine does not know the number format of the {part} ({file}, type {type}).",
        (
            "Choose the engine line that reads it with BONSAI_ENGINE, or fetch weights for this engine "
            "with `bonsai fetch`; the file itself is sound."
        ),
        lines=(
            r"llama_model_loader: unknown type (?P<type>\S+)",
            r"unknown (?:ggml )?type[: ]+(?P<type>\d+)",
        ),
        also=(r"failed to load (?:draft )?model", r"error loading model"),
    ),
    Cause(
        "drafter-architecture",
        "The drafter does not fit this engine: its architecture {arch} is unknown to this llama-server.",
        (
            "Choose the drafter made for this engine with BONSAI_DRAFTER (dspark: prism-legacy; dflash: "
            f"prism and mainline), or {_PLAIN}."
        ),
        lines=(r"(?:unknown|unsupported) model architecture: '(?P<arch>[^']*)'",),
        part="drafter",
        drafter=True,
    ),
    Cause(
        "unknown-architecture",
        "The file given as the model is a drafter: {file} has the architecture {arch}.",
        "Give the target's file in BONSAI_MODEL and this one in BONSAI_DRAFTER.",
        lines=(r"(?:unknown|unsupported) model architecture: '(?P<arch>dspark|dflash|eagle3)'",),
    ),
    Cause(
        "unknown-architecture",
        "This llama-server does not know the architecture {arch} of the model ({file}).",
        "Update the engine with `bonsai fetch --engine-only`, or choose another model with BONSAI_MODEL.",
        lines=(r"(?:unknown|unsupported) model architecture: '(?P<arch>[^']*)'",),
    ),
    Cause(
        "corrupt-file",
        "The {part} is cut off: the data of tensor {tensor} is not in {file}.",
        (
            "Fetch it again with `bonsai fetch`, which checks every byte; a file of your own has to be "
            "copied anew."
        ),
        lines=(r"tensor '(?P<tensor>[^']*)' data is not within the file bounds",),
    ),
    Cause(
        "corrupt-file",
        "The {part} is not a GGUF file: {file} begins with {magic}.",
        "Fetch it again with `bonsai fetch`; a page saved instead of the file begins with '<'.",
        lines=(r"invalid magic characters: (?P<magic>'.{0,12}'), expected",),
    ),
    Cause(
        "missing-file",
        "The {part} cannot be opened: {file} ({why}).",
        "Fetch it with `bonsai fetch`, or correct the path in BONSAI_MODEL or BONSAI_DRAFTER.",
        lines=(
            r"failed to open GGUF file .* \((?P<why>[^()]*)\)",
            r"failed to open \S.*: (?P<why>No such file or directory|Permission denied|Access is denied.*)",
        ),
    ),
    Cause(
        "corrupt-file",
        "The {part} is damaged or cut off: {file} cannot be read ({what}).",
        (
            "Fetch it again with `bonsai fetch`, which checks every byte; a file of your own has to be "
            "copied anew."
        ),
        lines=(
            (
                r"gguf_init_from_\w+: (?P<what>failed to read (?:magic|header|key-value pairs|tensor info|"
                r"tensor data binary blob))"
            ),
            (
                r"gguf_init_from_\w+: (?P<what>bad GGUF version: \d+|string length \d+ exceeds.*|"
                r"duplicate (?:key|tensor name).*)"
            ),
            r"(?P<what>unexpectedly reached end of file)",
            r"(?P<what>read error: .+)",
            r"(?P<what>corrupted model: .+)",
            r"(?P<what>found tensors with invalid data)",
        ),
    ),
    Cause(
        "drafter-misfit",
        (
            "The drafter does not fit the model: the numbers that it passes on have another size ({got} "
            "instead of {want})."
        ),
        f"Choose the drafter trained for exactly these weights with BONSAI_DRAFTER, or {_PLAIN}.",
        lines=(r"embedding size mismatch, got \d+ rows x \d+ = (?P<got>\d+), expected (?P<want>\d+)",),
        drafter=True,
    ),
    Cause(
        "drafter-misfit",
        "The drafter does not fit the model or the kind of speculation asked for ({what}).",
        f"Choose the drafter trained for exactly these weights with BONSAI_DRAFTER, or {_PLAIN}.",
        lines=(
            r"(?P<what>DFlash model has no target_layer_ids)",
            r"(?P<what>DFlash model requires 'target_layers')",
            r"get_sub_batch: (?P<what>failed to add embedding)",
            r"(?P<what>draft model vocab type must match target model)",
            r"(?P<what>draft model is not eagle3)",
            r"(?P<what>draft model number of sequences is incompatible)",
            r"(?P<what>draft-simple requires a draft context)",
            r"(?P<what>failed to create MTP context)",
            r"failed to initialize speculative decoding context: (?P<what>.+)",
        ),
        drafter=True,
    ),
    Cause(
        "drafter-block",
        (
            "This engine stopped at its first draft because the draft length is not the drafter's block "
            "size ({what})."
        ),
        f"Leave BONSAI_SPEC_NMAX unset so that the drafter's own block size is used, or {_PLAIN}.",
        lines=(r"GGML_ASSERT\((?P<what>.{0,200}?(?:n_max|block_size|n_draft|draft_max).{0,100}?)\) failed",),
        with_drafter=True,
        drafter=True,
    ),
    Cause(
        "drafter-misfit",
        "The drafter is of a newer or other kind than this engine reads ({what}).",
        (
            "Update the engine with `bonsai fetch --engine-only`, choose another drafter with "
            f"BONSAI_DRAFTER, or {_PLAIN}."
        ),
        lines=(
            r"(?P<what>wrong number of tensors; expected \d+, got \d+)",
            r"(?P<what>missing tensor '[^']*')",
            r"(?P<what>key not found in model: \S+)",
        ),
        part="drafter",
        drafter=True,
    ),
    Cause(
        "unknown-architecture",
        "The model is of a newer or other kind than this engine reads ({what}).",
        "Update the engine with `bonsai fetch --engine-only`, or choose another model with BONSAI_MODEL.",
        lines=(
            r"(?P<what>wrong number of tensors; expected \d+, got \d+)",
            r"(?P<what>missing tensor '[^']*')",
            r"(?P<what>key not found in model: \S+)",
        ),
    ),
)

# After the memory: a drafter that does not fit into it ends with the same line.
DRAFTER_LAST = (
    Cause(
        "drafter-misfit",
        "The engine could not load the drafter ({file}).",
        f"Choose the drafter made for this engine and these weights with BONSAI_DRAFTER, or {_PLAIN}.",
        lines=(r"failed to load draft model",),
        drafter=True,
    ),
)
