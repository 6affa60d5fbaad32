"""A configuration of Hugging Face becomes the model that it describes."""

from __future__ import annotations

import json

import pytest

from course_lib import plan

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 8192,
}  # fmt: skip
QWEN = LLAMA | {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
    "vocab_size": 151936, "decoder_sparse_step": 1,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "vocab_size": 129280, "tie_word_embeddings": False,
    "n_group": 8, "topk_group": 4,
}  # fmt: skip
GPT_2 = {
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
    "vocab_size": 50257,
}  # fmt: skip
GEMMA = {
    "model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
    "intermediate_size": 14336, "vocab_size": 256000,
}  # fmt: skip
GPT_OSS = LLAMA | {
    "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24,
    "num_attention_heads": 64, "head_dim": 64, "intermediate_size": 2880,
    "num_local_experts": 32, "num_experts_per_tok": 4, "vocab_size": 201088,
}  # fmt: skip
SCOUT = {
    "model_type": "llama4",
    "text_config": LLAMA
    | {
        "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48,
        "num_attention_heads": 40, "head_dim": 128, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_local_experts": 16, "num_experts_per_tok": 1,
        "vocab_size": 202048,
    },
}  # fmt: skip


DBRX = {
    "model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48, "max_seq_len": 32768,
    "attn_config": {"kv_n_heads": 8}, "vocab_size": 100352, "tie_word_embeddings": False,
    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (LLAMA, 8.03), (QWEN, 30.5), (DEEPSEEK, 671), (GPT_2, 0.1244), (GEMMA, 9.24),
        (GPT_OSS, 20.9), (SCOUT, 107.8), (DBRX, 131.6),
    ],
)  # fmt: skip
def test_a_configuration_has_the_parameters_of_its_model_card(config, billions):
    assert plan.parameters(plan.from_hf(config)).total / 1e9 == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize(
    ("more", "window"),
    [
        ({"sliding_window": 128}, (128, 32)),
        ({"sliding_window": None}, (0, 0)),
        ({"sliding_window": 128, "use_sliding_window": False}, (0, 0)),
        ({"sliding_window": 128, "layer_types": ["full_attention"] * 32}, (0, 0)),
        ({"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 16},
         (128, 16)),
        ({"sliding_window": 128, "sliding_window_pattern": 6}, (128, 27)),
        ({"sliding_window": 128, "model_type": "gemma2"}, (128, 16)),
    ],
)  # fmt: skip
def test_layers_with_a_window_are_counted(more, window):
    found = plan.from_hf(LLAMA | more)
    assert (found.window, found.windowed) == window


def test_layers_for_multi_token_prediction_count_and_can_be_left_out():
    """The card of DeepSeek-V3: 685 billion in all, 14 of them for the further token; of these, 1.85
    are the embedding and the head, which the checkpoint repeats."""
    found = plan.from_hf(DEEPSEEK | {"num_nextn_predict_layers": 1})
    without = found.but(mtp_layers=0)
    assert without == plan.from_hf(DEEPSEEK)
    more = plan.parameters(found).total - plan.parameters(without).total
    shared = 2 * found.vocabulary * found.hidden
    assert (more + shared) / 1e9 == pytest.approx(13.5, abs=0.5)


def test_configurations_of_models_in_the_table_are_the_models_of_the_table():
    for config, name in ((LLAMA, "llama-8b"), (QWEN, "qwen3-30b-a3b"), (DEEPSEEK, "deepseek-v3")):
        known = plan.preset(name)
        found = plan.from_hf(config, sequence=known.sequence)
        assert found.but(name="") == known.but(name="")


def test_a_file_or_its_folder_is_read_and_gives_the_name(tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    for path in (folder, str(folder), folder / "config.json"):
        assert plan.from_hf(path).name == "my-model"


def test_sequences_are_those_asked_for_or_the_usual_ones():
    assert plan.from_hf(LLAMA).sequence == 4096
    assert plan.from_hf(GPT_2).sequence == 1024
    assert plan.from_hf(LLAMA, sequence=131072).sequence == 131072


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "has no num_attention_heads or n_head"),
        (LLAMA | {"hidden_size": "wide"}, "hidden_size"),
        (LLAMA | {"num_hidden_layers": 1e300}, "num_hidden_layers"),
        (LLAMA | {"hidden_size": -1}, "hidden_size"),
        ({"is_encoder_decoder": True, "d_model": 512}, "has is_encoder_decoder"),
        (LLAMA | {"mamba_d_state": 16}, "in every layer"),
        (LLAMA | {"ssm_state_size": 128}, "has ssm_state_size"),
        (LLAMA | {"layer_types": ["linear_attention"] * 32}, "has linear_attention"),
        (DEEPSEEK | {"topk_group": 9}, "token_groups 9 is too large; use 8 or less"),
        (DEEPSEEK | {"num_nextn_predict_layers": -1}, "num_nextn_predict_layers -1"),
        (QWEN | {"num_experts_per_tok": 200}, "more than the 128 experts"),
        ({"text_config": 3}, "has no num_attention_heads"),
        (3, "config = 3 is not a configuration"),
        ("/no/such/config.json", "cannot be read"),
    ],
)
def test_what_is_no_decoder_is_refused(config, words):
    with pytest.raises(plan.PlanError, match=words):
        plan.from_hf(config)


def test_a_file_that_holds_no_configuration_is_refused(tmp_path):
    for text in ("[1, 2]", "{", "\0", "", "[" * 100_000):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(plan.PlanError):
            plan.from_hf(tmp_path)
