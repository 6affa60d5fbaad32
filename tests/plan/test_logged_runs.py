"""A training log becomes the run that it describes, predicted beside measured."""

import tarfile
from dataclasses import replace

import pytest

from course_lib import plan, read
from course_lib.lab.job.recipe import Recipe

ARGUMENTS = {
    "num_layers": 24, "hidden_size": 2048, "num_attention_heads": 16, "seq_length": 2048,
    "ffn_hidden_size": 8192, "kv_channels": 128, "micro_batch_size": 2, "global_batch_size": 64,
    "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "world_size": 16,
    "num_layers_per_virtual_pipeline_stage": "None", "recompute_granularity": "full",
    "use_distributed_optimizer": True, "sequence_parallel": True, "params_dtype": "torch.bfloat16",
    "transformer_impl": "transformer_engine", "attention_backend": "AttnBackend.auto",
}  # fmt: skip
RUN = plan.Layout(
    data=4, tensor=2, pipeline=2, micro_batch=2, global_batch=64, zero=1, sequence_parallel=True,
    recompute="full",
)  # fmt: skip
PADDED = " > padded vocab (size: 50257) with 175 dummy tokens (new size: 50432)"
TIMER = "    {name} ....................: ({ms:.2f}, {ms:.2f})"


def log(tmp_path, arguments, elapsed_ms=(), timers=None, padded=PADDED):
    """A log as Megatron-LM prints it, with one line for each iteration."""
    lines = ["------------------------ arguments ------------------------"]
    lines += [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items()]
    lines += ["-------------------- end of arguments ---------------------", padded]
    for number, ms in enumerate(elapsed_ms, start=1):
        lines.append(
            f" iteration {number:8}/ 100 | consumed samples: {64 * number} | elapsed time per "
            f"iteration (ms): {ms:.1f} | learning rate: 1.0E-04 | global batch size: 64 | "
            "lm loss: 1.0E+01 |"
        )
        if timers:
            lines.append("(min, max) time across ranks (ms):")
            lines += [TIMER.format(name=name, ms=ms) for name, ms in timers.items()]
    lines.append(
        "[Rank 0] (after 2 iterations) memory (MB) | allocated: 900.0 | max allocated: "
        "9000.0 | reserved: 10240.0 | max reserved: 10240.0"
    )
    path = tmp_path / "out.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read.training_log(path)


def predicted_ms(found):
    return 1e3 * found.estimate.seconds


def test_a_table_of_arguments_is_a_model_and_a_layout(tmp_path):
    found = plan.from_log(log(tmp_path, ARGUMENTS), "H100").estimate
    assert found.model == plan.Model(
        "logged", 24, 2048, 16, 2048, vocabulary=50432, pad_vocabulary_to=1
    )
    assert (found.layout, found.stack.name) == (RUN, "megatron-lm")
    assert found.cluster == plan.cluster("H100", 16)


@pytest.mark.parametrize(
    ("more", "model", "layout"),
    [
        ({"swiglu": True, "normalization": "RMSNorm", "add_bias_linear": False,
          "position_embedding_type": "rope", "untie_embeddings_and_output_weights": True},
         {"activation": "swiglu", "norm": "rmsnorm", "bias": False, "positions": "rotary",
          "tied": False}, {}),
        ({"window_size": "(127, 0)", "window_attn_skip_freq": 2},
         {"window": 128, "windowed": 12}, {}),
        ({"hidden_dropout": 0.0, "attention_dropout": 0.0}, {"dropout": False}, {}),
        ({"group_query_attention": True, "num_query_groups": 4}, {"kv_groups": 4}, {}),
        ({"num_experts": 8, "moe_router_topk": 2, "expert_model_parallel_size": 4,
          "moe_ffn_hidden_size": 1024, "moe_layer_freq": "[0, 1, 1]", "mtp_num_layers": 1,
          "moe_router_num_groups": 4, "moe_router_group_topk": 2},
         {"experts": plan.Experts(8, 2, 0, 1, 8192, groups=4, token_groups=2), "ffn": 1024,
          "mtp_layers": 1}, {"expert": 4}),
        ({"multi_latent_attention": True, "kv_lora_rank": 512, "qk_pos_emb_head_dim": 64,
          "v_head_dim": 128, "qk_head_dim": 128},
         {"latent": plan.Latent(512, 64, 128), "head_size": 192}, {}),
        ({"num_layers_per_virtual_pipeline_stage": 4}, {}, {"virtual": 3}),
        ({"ffn_hidden_size": "8192tied_weights"}, {}, {}),  # two processes wrote into one line
        ({"fp8": "hybrid", "fp8_recipe": "mxfp8"}, {}, {"precision": "mxfp8"}),
        ({"attention_backend": "AttnBackend.unfused"}, {}, {"flash": False}),
        ({"use_torch_fsdp2": True}, {}, {"zero": 3}),
        ({"context_parallel_size": 0}, {}, {}),
    ],
)  # fmt: skip
def test_an_argument_changes_the_run(tmp_path, more, model, layout):
    usual = plan.from_log(log(tmp_path, ARGUMENTS), "H100").estimate
    found = plan.from_log(log(tmp_path, ARGUMENTS | more), "B200").estimate
    assert found.model == replace(usual.model, **model)
    assert found.layout == RUN.but(**layout)


def test_a_log_without_sizes_is_answered_with_the_missing_one_which_can_be_given(tmp_path):
    with pytest.raises(plan.PlanError, match=r"^the log does not state num_layers; use a log"):
        plan.from_log(log(tmp_path, {}), "H100")
    without = log(tmp_path, ARGUMENTS, padded="")
    with pytest.raises(plan.PlanError, match=r"does not state padded_vocab_size; .* give padded"):
        plan.from_log(without, "H100")
    assert plan.from_log(without, "H100", padded_vocab_size=50432).estimate.layout == RUN
    with pytest.raises(
        plan.PlanError, match="padded_vocabulary is not an argument that the planner"
    ):
        plan.from_log(without, "H100", padded_vocab_size=50432, padded_vocabulary=1)
    with pytest.raises(plan.PlanError, match=r"is not a log; use read.training_log"):
        plan.from_log("out.log", "H100")


def test_the_difference_is_explained(tmp_path):
    ms = predicted_ms(plan.from_log(log(tmp_path, ARGUMENTS), "H100"))
    near = plan.from_log(log(tmp_path, ARGUMENTS, [9 * ms, ms, ms, ms]), "H100")
    assert near.seconds == pytest.approx(ms / 1e3, abs=1e-4)  # without the first iteration
    assert "iteration: predicted" in str(near)
    assert "explain" not in str(near).splitlines()[2]
    stalls = plan.from_log(log(tmp_path, ARGUMENTS, [ms, ms, ms, 3 * ms, 3 * ms, 3 * ms]), "H100")
    assert "stalls now and then" in str(stalls)
    slow = plan.from_log(log(tmp_path, ARGUMENTS, [1.2 * ms] * 4), "H100")
    assert "An error in one part alone would explain it: " in str(slow)
    damaged = plan.from_log(log(tmp_path, ARGUMENTS, [ms, ms, float("inf"), float("inf")]), "H100")
    assert damaged.seconds == pytest.approx(near.seconds)
    lost = plan.from_log(log(tmp_path, ARGUMENTS, [50 * ms] * 4), "H100")
    assert "check the arguments and the hardware" in str(lost)
    assert lost.table().set_index("part").measured["peak memory"] == 10.0


def test_timers_of_the_program_show_the_difference(tmp_path):
    ms = predicted_ms(plan.from_log(log(tmp_path, ARGUMENTS), "H100"))
    timers = {"forward-compute": 0.2 * ms, "backward-compute": 0.4 * ms, "optimizer": ms}
    found = plan.from_log(log(tmp_path, ARGUMENTS, [2 * ms] * 4, timers), "H100")
    assert found.timers_s["computing, by timers"] == pytest.approx(0.6 * ms / 1e3, rel=1e-2)
    assert "The largest difference is in optimizer, by timers" in str(found)


def test_arguments_that_the_planner_does_not_know_are_named(tmp_path):
    more = {
        "checkpoint_in_cpu": True, "experimental_attention_variant": "gated_delta_net",
        "attention_output_gate": False, "reset_attention_mask": "None",
    }  # fmt: skip
    unlike = "checkpoint_in_cpu, experimental_attention_variant"
    found = str(plan.from_log(log(tmp_path, ARGUMENTS | more), "H100"))
    assert f"does not know these arguments: {unlike}." in found


@pytest.mark.parametrize("lesson", ["07b_pipelines_and_both", "11_sharded_data_parallelism"])
def test_the_log_of_a_recorded_run_has_the_layout_of_its_recipe(repository, tmp_path, lesson):
    compared = 0
    with tarfile.open(repository / "recordings" / f"{lesson}.runs") as recording:
        recording.extractall(tmp_path, filter="data")
    for path in tmp_path.glob("*/recipe.toml"):
        recipe = Recipe.from_toml(path.read_text())
        if recipe.layout is None or not (path.parent / "out.log").exists():
            continue
        found = plan.from_log(read.training_log(path.parent / "out.log"), plan.box())
        assert (found.estimate.layout, found.estimate.stack.name) == (recipe.layout, "course")
        assert found.estimate.model.but(name=recipe.model.name) == recipe.model.but(
            pad_vocabulary_to=1, dropout=False
        )
        compared += 1
    assert compared >= 3
