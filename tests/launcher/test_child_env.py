from __future__ import annotations

from launcher.child_env import clean_env


def test_options_and_tokens_do_not_reach_children() -> None:
    base = {
        "LLAMA_ARG_N_GPU_LAYERS": "3",
        "LLAMA_ARG_SPEC_TYPE": "ngram-mod",
        "LLAMA_API_KEY": "k",
        "LLAMA_SERVER_ROUTER_PORT": "1",
        "AIP_MODE": "PREDICTION",
        "HF_TOKEN": "t",
        "BONSAI_TOKEN": "t",
        "PATH": "/bin",
        "HTTPS_PROXY": "http://proxy",
        "CUDA_VISIBLE_DEVICES": "1",
        "LLAMA_CACHE": "/c",
    }
    assert clean_env(base) == {
        "PATH": "/bin",
        "HTTPS_PROXY": "http://proxy",
        "CUDA_VISIBLE_DEVICES": "1",
        "LLAMA_CACHE": "/c",
    }
    assert "HF_TOKEN" in base


def test_library_path_is_the_persons_own_again_in_the_packaged_app() -> None:
    packaged = {"LD_LIBRARY_PATH": "/app:/mine", "LD_LIBRARY_PATH_ORIG": "/mine", "DYLD_LIBRARY_PATH": "/app"}
    assert clean_env(packaged, frozen=True) == {"LD_LIBRARY_PATH": "/mine"}
    assert clean_env(packaged, frozen=False) == packaged
