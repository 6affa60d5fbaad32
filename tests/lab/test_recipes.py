"""Recipes of the programs check their layout before a job waits in a queue."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tomli_w

from course_lib.lab.errors import RecipeError
from course_lib.lab.job import site
from course_lib.lab.job.program_files import closure
from course_lib.lab.job.recipe import DEVICE_MEMORY, Recipe
from course_lib.lab.job.recipes import fault, gpt, links, program, shell
from course_lib.lab.job.recipes.keywords import command_line, known_flags
from course_lib.lab.job.script import key, render
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.workspace import programs_folder
from course_lib.mistakes.errors import CourseError
from course_lib.plan import Model

LAYOUTS = [
    {"nodes": 2, "gpus_per_node": 2, "micro_batch": 2, "global_batch": 8},
    {"nodes": 2, "gpus_per_node": 2, "tensor": 2, "pipeline": 2, "global_batch": 4},
    {"nodes": 2, "gpus_per_node": 2, "context": 2, "zero": 1, "precision": "bf16"},
    {"nodes": 1, "gpus_per_node": 2, "pipeline": 2, "virtual": 2, "global_batch": 4},
    {"nodes": 1, "gpus_per_node": 2, "pipeline": 2, "schedule": "gpipe", "global_batch": 2},
    {"nodes": 1, "gpus_per_node": 2, "tensor": 2, "sequence_parallel": True},
    {"nodes": 2, "gpus_per_node": 1, "zero": 3, "recompute": "full", "recompute_layers": 2},
    {"recompute": "selective", "precision": "fp16"},
    {"recompute": "full", "recompute_method": "block"},
]


@pytest.mark.parametrize("given", LAYOUTS)
def test_a_recipe_carries_its_model_and_layout_also_through_its_file(given):
    made = gpt.recipe("x", **given)
    recipe = Recipe.from_toml(tomli_w.dumps({"recipe": made.to_dict()}))
    assert recipe == made
    layout = gpt.layout(recipe)
    for name, value in given.items():
        if hasattr(layout, name):
            assert getattr(layout, name) == value
    assert layout.devices == recipe.devices
    assert layout.recompute == given.get("recompute", "none")
    assert gpt.model(recipe).hidden == gpt.model("tiny").hidden


def test_a_recipe_of_another_program_carries_none():
    for ask in (gpt.model, gpt.layout):
        with pytest.raises(RecipeError, match=r"recipe y has no .*again=True"):
            ask(shell.recipe("y", "true"))


def test_the_layout_of_a_recipe_that_was_varied_follows_its_devices():
    recipe = gpt.recipe("x", nodes=2, gpus_per_node=2, tensor=2, global_batch=4)
    assert gpt.layout(recipe.but(nodes=1)).data == 1
    assert gpt.model(recipe.but(name="y")).name == "y"
    with pytest.raises(RecipeError, match=r"tensor 2 .* there are 1;"):
        recipe.but(nodes=1, gpus_per_node=1)


def test_flags_of_the_model_change_the_model_and_those_of_the_layout_are_refused():
    recipe = gpt.recipe("x", num_layers=6, seq_length=256, vocab_size=1000)
    model = gpt.model(recipe)
    assert (model.layers, model.sequence, model.vocabulary) == (6, 256, 1000)
    assert recipe.flags["--max-position-embeddings"] == "256"
    with pytest.raises(RecipeError, match="does not divide layers 5"):
        gpt.recipe("x", gpus_per_node=2, pipeline=2, num_layers=5)
    with pytest.raises(RecipeError, match=r"num_experts belongs to the model; give model=plan"):
        gpt.recipe("x", num_experts=4, disable_bias_linear=True)
    with pytest.raises(RecipeError, match=r"bf16 belongs to the layout; give it as precision="):
        gpt.recipe("x", bf16=True)


@pytest.fixture
def arguments(monkeypatch):
    """Return the program's own module of flags."""
    folder = programs_folder()
    (file,) = folder.rglob("arguments.py")
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module(".".join(file.relative_to(folder).with_suffix("").parts))


def test_the_flags_that_recipes_know_are_those_of_the_program(arguments):
    actions = arguments.make_parser()._actions
    taken = {flag for action in actions for flag in action.option_strings} - {"-h", "--help"}
    older = {*arguments.other_names.RENAMED, *arguments.other_names.DROPPED}
    ours = {row[0] for row in sys.modules["flags.tables"].OURS}
    listed = {name: set(flags) for name, flags in known_flags().items()}
    assert listed == {"shared": taken - ours, "older": older, "ours": ours}


NUMBERS = [
    (np.int64(2), np.int32(4)), (np.array(2), np.uint8(4)), (pd.Series([2]), pd.Series([4])),
]  # fmt: skip


@pytest.mark.parametrize(("two", "four"), NUMBERS)
def test_numbers_of_a_notebook_s_arithmetic_make_the_same_recipe(two, four):
    usual = {"nodes": 2, "gpus_per_node": 2, "micro_batch": 2, "global_batch": 8, "tensor": 2,
             "iterations": 4, "profile": (2, 4), "device_memory_gib": 0.5, "lr": 0.5,
             "time_limit_minutes": 4, "seq_length": 256, "eval_iters": 2}  # fmt: skip
    theirs = usual | {"nodes": two, "gpus_per_node": two, "micro_batch": two, "tensor": two,
                      "iterations": four, "profile": (two, four), "lr": np.float32(0.5),
                      "device_memory_gib": np.float64(0.5), "time_limit_minutes": four,
                      "seq_length": np.int64(256), "eval_iters": two}  # fmt: skip
    recipe = gpt.recipe("x", **theirs)
    assert recipe == gpt.recipe("x", **usual)
    assert tomli_w.dumps(recipe.to_dict()) == tomli_w.dumps(gpt.recipe("x", **usual).to_dict())
    box = site.preset("box")
    assert key(recipe, box) == key(gpt.recipe("x", **usual), box)
    assert render(recipe, box) == render(gpt.recipe("x", **usual), box)


@pytest.mark.parametrize("wrong", [np.float64(2), np.bool_(True), np.array([1, 2])])
def test_what_is_no_whole_number_is_refused_in_every_form(wrong):
    with pytest.raises(RecipeError, match="nodes"):
        gpt.recipe("x", nodes=wrong)
    with pytest.raises(RecipeError, match="nodes"):
        shell.recipe("x", "true", nodes=wrong)


def test_truth_values_of_a_notebook_s_arithmetic_make_the_same_recipe():
    usual = {"profile": True, "save": True, "swiglu": True, "log_throughput": False}
    theirs = {
        "profile": np.True_,
        "save": np.True_,
        "swiglu": np.True_,
        "log_throughput": np.False_,
    }
    recipe = gpt.recipe("x", **theirs)
    assert recipe == gpt.recipe("x", **usual)
    assert tomli_w.dumps(recipe.to_dict()) == tomli_w.dumps(gpt.recipe("x", **usual).to_dict())


@pytest.mark.parametrize("given", LAYOUTS)
def test_the_program_takes_every_flag(given, arguments):
    recipe = gpt.recipe("x", profile=True, memory=True, save=True, log_throughput=True, **given)
    parsed = arguments.parse_arguments(list(recipe.arguments))
    assert parsed.micro_batch_size == given.get("micro_batch", 1)
    assert parsed.profile
    assert parsed.record_memory_history


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"nodes": 2, "gpus_per_node": 2, "micro_batch": 2, "global_batch": 6},
         ["global_batch 6", "micro_batch 2 × data 4 = 8", "8 or 16"]),
        ({"nodes": 2, "gpus_per_node": 2, "tensor": 3}, ["tensor 3", "there are 4", "divides 4"]),
        ({"gpus_per_node": 8, "tensor": 8}, ["tensor 8", "heads 4"]),
        ({"precision": "fp8"}, ["fp8", "bf16"]),
        ({"zero": 2}, ["zero 2", "0, 1 or 3"]),
        ({"zero": 3, "gpus_per_node": 2, "pipeline": 2}, ["zero 3", "Use zero 1 or pipeline 1"]),
        ({"device_memory_gib": -1}, ["device_memory_gib -1", "above 0"]),
        ({"model": "tinny"}, ["tinny", "tiny"]),
        ({"iterations": 0}, ["iterations 0"]),
        ({"iterations": 5, "profile": (10, 12)}, ["steps 10 to 12", "5 iterations"]),
        ({"profile": (2, 4), "memory": (3, 5)}, ["same steps"]),
        ({"mirco_batch_size": 2}, ["no argument mirco_batch_size", "did you mean micro_batch?"]),
    ],
)  # fmt: skip
def test_an_error_names_the_value_the_rule_and_what_would_work(given, parts):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - of the planner or of the lab
        gpt.recipe("x", **given)
    for part in parts:
        assert part in str(error.value)


def test_the_model_of_the_lab_is_trained_as_published():
    flags = gpt.recipe("x", model="lab").flags
    published = {"--num-layers": "12", "--hidden-size": "768", "--num-attention-heads": "32",
                 "--seq-length": "1024", "--lr": "6e-05", "--adam-beta2": "0.95",
                 "--split": "949,50,1", "--init-method-std": "0.006"}  # fmt: skip
    assert published.items() <= flags.items()


def test_any_flag_can_be_given_and_fields_of_a_recipe_too():
    flags = {"lr": 3e-4, "log_throughput": True, "profile_ranks": [0, 1]}
    recipe = gpt.recipe("x", **flags, time_limit_minutes=3, tee=True, environment={"A": "1"})
    assert recipe.flags["--lr"] == "0.0003"
    assert recipe.flags["--log-throughput"] is True
    assert recipe.flags["--profile-ranks"] == "0 1"
    ranged = gpt.recipe("x", profile_ranks=range(2))
    assert ranged.flags["--profile-ranks"] == "0 1"
    assert ranged.but(name="y").flags["--profile-ranks"] == "0 1"
    assert (recipe.time_limit_minutes, recipe.tee) == (3, True)


def test_megatron_s_own_program_gets_the_same_flags_unchecked():
    recipe = gpt.recipe("x", program="/opt/Megatron-LM/pretrain_gpt.py", some_new_flag=1)
    assert recipe.program == "/opt/Megatron-LM/pretrain_gpt.py"
    assert recipe.flags["--some-new-flag"] == "1"
    assert recipe.flags["--hidden-dropout"] == "0"  # its default is another than ours


MODERN = Model("modern", 2, 64, 8, 32, 1000, kv_groups=2, ffn=192, tied=False, positions="rotary",
               activation="swiglu", norm="rmsnorm", bias=False)  # fmt: skip
MEGATRON = "/opt/Megatron-LM/pretrain_gpt.py"
TINY = str(gpt.model("tiny").vocabulary)


@pytest.mark.parametrize(
    "asked",
    [
        {"tensor": 2, "sequence_parallel": True, "precision": "bf16", "zero": 1},
        {"pipeline": 2, "virtual": 2, "global_batch": 8, "recompute": "full", "profile": True},
        {"context": 2, "recompute": "selective", "precision": "fp16", "memory": True, "save": True},
        {"zero": 3, "model": "lab", "untie_embeddings_and_output_weights": True,
         "log_throughput": True, "profile_ranks": [0, 1]},
    ],
)  # fmt: skip
def test_megatron_s_parser_knows_every_flag_that_a_recipe_renders(shared, asked):
    logs = sorted((shared / "logs" / "megatron").glob("*.log"))
    found = {
        name
        for log in logs
        for name in re.findall(r"(\w+) \.{3,} ", log.read_text(errors="replace"))
    }
    assert len(found) > 200
    recipe = gpt.recipe("x", nodes=2, gpus_per_node=2, program=MEGATRON, **asked)
    wanted = {flag[2:].replace("-", "_") for flag in recipe.flags}
    assert {name for name in wanted if not {name, name.removeprefix("no_")} & found} == set()


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"save": True, "iterations": 8}, {"--save-interval": "8"}),
        ({"save": True, "save_interval": 3}, {"--save-interval": "3"}),
        ({"zero": 3, "untie_embeddings_and_output_weights": True},
         {"--no-gradient-accumulation-fusion": True}),
        ({"mock_data": True}, {"--tokenizer-type": "NullTokenizer", "--vocab-size": TINY}),
        ({"exit_duration_in_mins": 5.0}, {"--exit-duration-in-mins": "5"}),
        ({"hidden_dropout": 0.1}, {"--hidden-dropout": "0.1", "--attention-dropout": "0"}),
    ],
)  # fmt: skip
def test_megatron_s_program_is_told_what_it_wants_to_be_told(asked, wanted):
    theirs = gpt.recipe("x", nodes=2, program=MEGATRON, **asked)
    assert wanted.items() <= theirs.flags.items()
    ours = gpt.recipe("x", nodes=2, **asked)
    assert "--no-gradient-accumulation-fusion" not in ours.flags
    assert ours.environment == {}


@pytest.mark.parametrize(
    ("asked", "queues"),
    [
        ({}, None), ({"pipeline": 2}, None), ({"tensor": 2}, "1"), ({"context": 2}, "1"),
        ({"tensor": 2, "environment": {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}}, "32"),
        ({"tensor": 2, "zero": 3, "untie_embeddings_and_output_weights": True}, None),
    ],
)  # fmt: skip
def test_megatron_gets_one_queue_per_device_with_tensor_or_context_ranks(asked, queues):
    recipe = gpt.recipe("x", nodes=2, gpus_per_node=2, program=MEGATRON, **asked)
    assert recipe.environment.get("CUDA_DEVICE_MAX_CONNECTIONS") == queues


@pytest.mark.parametrize(
    ("asked", "cure"),
    [
        ({"zero": 3}, "give untie_embeddings_and_output_weights=True, or use zero 1"),
        ({"zero": 3, "precision": "fp16", "untie_embeddings_and_output_weights": True}, "bf16"),
        ({"gpus_per_node": 2, "pipeline": 2, "schedule": "gpipe"}, "leave it out"),
    ],
)
def test_what_megatron_s_program_refuses_is_refused_before_it_waits_in_a_queue(asked, cure):
    with pytest.raises(RecipeError, match=f"Megatron-LM's program refuses this: .*{cure}"):
        gpt.recipe("x", program=MEGATRON, **asked)
    assert isinstance(gpt.recipe("x", **asked), Recipe)


def test_a_recipe_with_gaps_says_which_and_runs_nothing(lab, capsys):
    recipe = gpt.recipe("tp2pp2", nodes=2, gpus_per_node=2, tensor=..., pipeline=2, lr=...)
    assert isinstance(recipe, Unfinished)
    assert recipe.missing == ("tensor", "lr")
    assert lab.script(recipe) is recipe
    run = lab.submit(recipe)
    run.watch()
    assert run.wait() == "UNFINISHED"
    assert "still to fill in: tensor, lr" in capsys.readouterr().out
    assert repr(lab.clean(run)) == "nothing to delete"
    assert lab.runs().empty


def test_any_program_can_be_given_its_flags_and_its_place():
    made = program.recipe("a", "accumulate_ddp.py", nodes=2, sync="last", tee=True)
    assert (made.program, made.arguments) == ("accumulate_ddp.py", ("--sync", "last"))
    assert (made.nodes, made.gpus_per_node, made.tee) == (2, 1, True)
    assert program.recipe("a", "accumulate_ddp.py", sync=...).missing == ("sync",)
    small = program.recipe("a", "train_vit.py", device_memory_gib=0.5)
    assert small.environment == {DEVICE_MEMORY: str(2**29)}
    with pytest.raises(RecipeError, match="device_memory_gib -1 is too small; use one above 0"):
        program.recipe("a", "train_vit.py", device_memory_gib=-1)


def test_a_script_with_gaps_names_its_lines():
    script = shell.script("x", "#!/bin/bash\n#SBATCH --nodes=...\n# well ...\nsrun a --tp ____\n")
    assert isinstance(script, Unfinished)
    assert [line.partition(":")[0] for line in script.missing] == ["line 2", "line 4"]


def test_shell_lines_with_a_gap_as_a_value_name_them_and_dots_in_a_text_are_none():
    unfinished = shell.recipe("x", "srun a --tp ... \\\n  --pp=2\nn=...\n# --tp ...\n", nodes=...)
    assert isinstance(unfinished, Unfinished)
    assert [line.partition(":")[0] for line in unfinished.missing] == ["nodes", "line 1", "line 3"]
    assert not isinstance(shell.recipe("y", 'echo "waiting ..."; sleep 1; echo ...'), Unfinished)


@pytest.mark.parametrize(
    ("heading", "nodes", "gpus", "minutes"),
    [
        ("#SBATCH --nodes=2 --gpus-per-node=a100:4\n#SBATCH --time=1:30:00", 2, 4, 90),
        ("#SBATCH -N 2 -t 0:30", 2, 0, 1),
        ("#SBATCH -N2\n#SBATCH --gres=gpu:v100:3,shard:2\n#SBATCH -t 2-0", 2, 3, 2880),
        ("#SBATCH --nodes 2\n#SBATCH --gpus=8 # eight in all", 2, 4, 60),
        ("#SBATCH --ntasks-per-node=4 --gpus-per-task=1", 1, 4, 60),
        ("echo first\n#SBATCH --nodes=9", 1, 0, 60),
        ("#SBATCH --comment='unbalanced", 1, 0, 60),
    ],
)
def test_what_a_script_asks_for_is_read_from_its_heading(heading, nodes, gpus, minutes):
    recipe = shell.script("x", f"#!/bin/bash\n{heading}\nhostname\n")
    assert (recipe.nodes, recipe.gpus_per_node, recipe.time_limit_minutes) == (nodes, gpus, minutes)


def test_links_take_the_flags_of_their_program():
    recipe = links.recipe("roads", bytes=5.2e6, repeat=10, algorithm="ring")
    assert recipe.arguments == (
        "--bytes",
        "5200000",
        "--repeat",
        "10",
        "--algorithm",
        "ring",
    )
    assert recipe.devices == 4


def test_values_of_flags():
    given = {"a": True, "b": False, "c": None, "d": 1.5, "e_f": "x y", "g": [1, 2], "h": 1e-5}
    words = ("--a", "--d", "1.5", "--e-f", "x y", "--g", "1", "2", "--h", "1e-05")
    assert command_line(given) == words


def test_the_version_of_a_program_covers_what_it_imports():
    programs = programs_folder()
    found = closure(programs / "pretrain_gpt.py")
    names = {path.relative_to(programs).as_posix() for path in found}
    assert {"pretrain_gpt.py", "flags/arguments.py", "flags/other_names.py"} <= names
    assert "parallel/schedules.py" in names
    assert "measure_links.py" not in names


BY_FLAGS = {
    "group_query_attention": True, "num_query_groups": 2, "position_embedding_type": "rope",
    "normalization": "RMSNorm", "swiglu": True, "disable_bias_linear": True,
    "ffn_hidden_size": 192, "untie_embeddings_and_output_weights": True,
}  # fmt: skip


def test_a_model_of_today_reaches_the_program_whole(arguments):
    recipe = gpt.recipe("x", model=MODERN)
    parsed = arguments.parse_arguments(list(recipe.arguments))
    assert (parsed.num_query_groups, parsed.ffn_hidden_size) == (2, 192)
    assert (parsed.group_query_attention, parsed.swiglu, parsed.disable_bias_linear) == (True,) * 3
    assert (parsed.position_embedding_type, parsed.normalization) == ("rope", "RMSNorm")
    assert gpt.model(recipe) == replace(MODERN, name="x")


def test_a_model_of_today_may_be_told_by_flags(arguments):
    plain = Model("modern", 2, 64, 8, 32, 1000)
    told = gpt.recipe("x", model=plain, **BY_FLAGS)
    assert gpt.model(told) == replace(MODERN, name="x")
    one = gpt.recipe("x", model=plain, group_query_attention=True)
    parsed = arguments.parse_arguments(list(one.arguments))
    assert gpt.model(one).kv_groups == parsed.num_query_groups == 1
    gated = gpt.recipe("x", model=plain, swiglu=True)
    parsed = arguments.parse_arguments(list(gated.arguments))
    assert gpt.model(gated).ffn == parsed.ffn_hidden_size
    wider = gpt.model(gpt.recipe("x", model=plain, hidden_size=128, num_attention_heads=16))
    assert (wider.kv_groups, wider.ffn, wider.head_size) == (16, 512, 8)


@pytest.mark.parametrize(
    "wrong", [{"model": "vit-weather"}, {"model": "tiny", "num_query_groups": 3}]
)
def test_a_model_that_the_program_cannot_train_is_refused(wrong):
    with pytest.raises(RecipeError):
        gpt.recipe("x", **wrong)


def test_an_unknown_argument_is_told_in_the_name_of_the_function_that_was_called():
    with pytest.raises(TypeError, match=r"^shell\.recipe has no argument node; did you mean nodes"):
        shell.recipe("pair", "hostname", node=2)


@pytest.mark.parametrize("value", [True, 1.5, "4", float("nan"), -3, [6], np.float64(2.5), 10**30])
@pytest.mark.parametrize("name", ["rank", "iteration"])
def test_a_fault_that_would_never_happen_is_refused(name, value):
    assert fault.recipe("x", "killed", **{name: np.int64(3)}).flags["--planted-fault"]
    with pytest.raises(CourseError, match=f"`?{name}`?.*(whole number|too small|too large)"):
        fault.recipe("x", "killed", **{name: value})


def test_a_fault_has_a_rank_and_an_iteration_of_its_run():
    with pytest.raises(CourseError, match="rank 2 is too large; use 1 or less"):
        fault.recipe("x", "killed", nodes=1)
    with pytest.raises(CourseError, match="iteration 4 is too large; use 3 or less"):
        fault.recipe("x", "killed", iterations=3)
    assert fault.recipe("x", iterations=3).flags["--train-iters"] == "3"


@pytest.mark.parametrize("value", [True, 1.5, "4", float("nan"), -3, [6]])
@pytest.mark.parametrize("name", ["mean_s", "seed", "save_interval", "attempts"])
def test_restarts_take_whole_numbers(name, value):
    with pytest.raises(CourseError, match=f"{name}.*(whole number|too small)"):
        fault.restarts("x", **{name: value})
