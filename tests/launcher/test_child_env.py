"""What reaches the programs that we start, and what does not."""

from __future__ import annotations

import pytest

from launcher.child_env import clean_env

LOOPBACK = {"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1"}


def test_options_and_tokens_do_not_reach_children() -> None:
    base = {
        "LLAMA_ARG_N_GPU_LAYERS": "3",
        "LLAMA_ARG_SPEC_TYPE": "ngram-mod",
        "LLAMA_API_KEY": "k",
        "LLAMA_SERVER_ROUTER_PORT": "1",
        "LLAMA_GRAPH_REUSE_DISABLE": "1",
        "GGML_BACKEND_PATH": "/opt/libother.so",
        "GGML_DISABLE_VULKAN": "1",
        "AIP_MODE": "PREDICTION",
        "HF_TOKEN": "t",
        "HUGGING_FACE_HUB_TOKEN": "t",
        "BONSAI_TOKEN": "t",
    }
    assert clean_env(base) == LOOPBACK
    assert "HF_TOKEN" in base


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HTTPS_PROXY",
        "CUDA_VISIBLE_DEVICES",
        "HSA_OVERRIDE_GFX_VERSION",
        "LLAMA_CACHE",
        "HF_HOME",
        "HF_ENDPOINT",
        "GGML_VK_VISIBLE_DEVICES",
        "GGML_CUDA_ENABLE_UNIFIED_MEMORY",
        "GGML_METAL_TENSOR_DISABLE",
    ],
)
def test_what_a_person_has_set_for_the_hardware_and_the_folders_does(name: str) -> None:
    assert clean_env({name: "x"}) == {name: "x", **LOOPBACK}


@pytest.mark.case("D-03")
def test_this_machine_is_never_asked_through_a_proxy() -> None:
    env = clean_env({"NO_PROXY": "example.org, localhost", "no_proxy": "", "HTTP_PROXY": "http://proxy"})
    assert env == {
        "NO_PROXY": "example.org,localhost,127.0.0.1,::1",
        "no_proxy": "localhost,127.0.0.1,::1",
        "HTTP_PROXY": "http://proxy",
    }
    assert clean_env(env) == env


def test_library_path_is_the_persons_own_again_in_the_packaged_app() -> None:
    packaged = {"LD_LIBRARY_PATH": "/app:/mine", "LD_LIBRARY_PATH_ORIG": "/mine", "DYLD_LIBRARY_PATH": "/app"}
    assert clean_env(packaged, frozen=True) == {"LD_LIBRARY_PATH": "/mine", **LOOPBACK}
    assert clean_env(packaged, frozen=False) == {**packaged, **LOOPBACK}
