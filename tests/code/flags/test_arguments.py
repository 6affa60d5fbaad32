"""Flags: today's names, older spellings with a note, and help for the misspelt."""

from __future__ import annotations

import pytest

from flags.arguments import parse_arguments
from process.errors import ArgumentsError


def parse(text):
    return parse_arguments(text.split())


def refusal(words):
    """What the program says of these words, a line for each problem; exit code 2 follows."""
    with pytest.raises(ArgumentsError) as error:
        parse_arguments(words)
    return error.value.problems


def test_older_spellings_mean_what_they_meant_and_are_noted():
    args = parse(
        "--activations-checkpoint-method block --activations-checkpoint-num-layers 2 "
        "--data-impl mmap --profile-execution --profile-name mine --seed 7 --train-iters 20"
    )
    assert (args.recompute_granularity, args.recompute_method) == ("full", "block")
    assert args.recompute_num_layers == 2
    assert args.profile
    assert args.seed == 7
    text = "\n".join(args.notes)
    assert "--activations-checkpoint-method is called --recompute-granularity full" in text
    assert "--profile-execution is called --profile today" in text
    assert "--data-impl changes nothing" in text


def test_an_older_spelling_with_an_equals_sign_keeps_its_value():
    args = parse("--activations-checkpoint-num-layers=3 --checkpoint-activations --data-impl=mmap")
    assert args.recompute_num_layers == 3
    assert args.recompute_method == "uniform"


def test_todays_flags_leave_no_note():
    assert parse("--recompute-granularity selective --bf16").notes == []


def test_a_megatron_command_line_is_taken_as_it_is():
    args = parse(
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 2 "
        "--num-layers 8 --hidden-size 64 --num-attention-heads 8 --seq-length 64 --bf16 "
        "--max-position-embeddings 64 --micro-batch-size 2 --global-batch-size 16 "
        "--recompute-granularity full --recompute-method block --recompute-num-layers 1 "
        "--use-distributed-optimizer --sequence-parallel --train-iters 100 --log-interval 5 "
        "--num-layers-per-virtual-pipeline-stage 2 --log-throughput --tensorboard-dir there "
        "--profile --use-pytorch-profiler --profile-step-start 3 --profile-step-end 5 "
        "--profile-ranks 0 1 --record-memory-history --memory-snapshot-path there/s.pickle "
        "--save there --load there --save-interval 10 --eval-interval 50 --eval-iters 2 "
        "--split 969,30,1 --seed 7 --exit-duration-in-mins 5 --distributed-backend gloo "
        "--data-path 0.3 one 0.7 two --tokenizer-type GPT2BPETokenizer --vocab-file vocab.json "
        "--merge-file merges.txt --lr 6e-5 --min-lr 6e-6 --lr-decay-style cosine "
        "--lr-decay-iters 800 --lr-warmup-fraction .01 --weight-decay 1e-1 --clip-grad 1.0 "
        "--adam-beta1 0.9 --adam-beta2 0.95 --init-method-std 0.006 "
        "--attention-dropout 0.0 --hidden-dropout 0.0"
    )
    assert args.notes == []
    assert args.pipeline_schedule == "interleaved"
    assert (args.profile_ranks, args.data_path) == ([0, 1], ["0.3", "one", "0.7", "two"])
    assert args.memory_snapshot_path == "there/s.pickle"


def test_a_misspelt_flag_is_answered_with_the_nearest():
    told = refusal(["--tensor-model-paralel-size", "2"])
    assert "nearest to --tensor-model-paralel-size: --tensor-model-parallel-size" in told[0]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--fp16 --bf16", "choose one of"),
        ("--torch-compile --hidden-dropout 0.1", "dropout sets a seed for every mask; choose one"),
        ("--hidden-size 100 --num-attention-heads 3", "cannot be split"),
        ("--profile --profile-step-start 5 --profile-step-end 5", "must lie before"),
        ("--micro-batch-size 0", "--micro-batch-size 0: give a whole number from 1"),
        ("--cuda-graphs", "--cuda-graphs needs --torch-compile"),
        ("--max-position-embeddings 8 --seq-length 16", "less than --seq-length 16"),
        ("--num-query-groups 2", "no effect without --group-query-attention"),
        ("--group-query-attention --num-query-groups 3", "equal groups; use one of 1, 2, 4"),
        ("--group-query-attention --num-query-groups 0", "--num-query-groups 0: give a whole"),
        ("--position-embedding-type rope --rotary-percent 0.1", "an even number from 2 to 32"),
        ("--position-embedding-type rope --rotary-percent 0.3", "an even number from 2 to 32"),
        ("--swiglu --hidden-size 16", "makes an MLP of width 0"),
    ],
)
def test_values_that_cannot_work_are_told(flags, told):
    assert told in "\n".join(refusal(flags.split()))


def test_the_shape_of_the_model_has_megatrons_defaults():
    args = parse("")
    assert (args.num_query_groups, args.ffn_hidden_size) == (args.num_attention_heads, 512)
    args = parse("--group-query-attention --swiglu --hidden-size 384")
    assert (args.num_query_groups, args.ffn_hidden_size) == (1, 1024)


def test_rotary_positions_have_an_older_spelling():
    args = parse("--use-rotary-position-embeddings")
    assert args.position_embedding_type == "rope"
    assert "is called --position-embedding-type rope today" in args.notes[0]


def test_a_run_folder_takes_what_no_flag_places_elsewhere(monkeypatch):
    monkeypatch.setenv("COURSE_RUN_DIR", "/somewhere/run-1")
    args = parse("--profile-dir elsewhere")
    assert args.tensorboard_dir == "/somewhere/run-1/tensorboard"
    assert args.profile_dir == "elsewhere"
    assert args.memory_dir == "/somewhere/run-1/memory"


def test_bfloat16_sums_gradients_in_float32():
    assert parse("--bf16").accumulate_allreduce_grads_in_fp32
    assert not parse("--fp16").accumulate_allreduce_grads_in_fp32
