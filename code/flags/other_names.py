"""Other names of flags: from earlier years, and from other programs.

Earlier names and flags without effect here are accepted with a note. A flag of another program is
refused, and the message says what to write instead."""

from __future__ import annotations

RENAMED = {
    "--model-parallel-size": "--tensor-model-parallel-size",
    "--batch-size": "--micro-batch-size",
    "--activations-checkpoint-method": "--recompute-granularity full --recompute-method",
    "--activations-checkpoint-num-layers": "--recompute-num-layers",
    "--checkpoint-activations": "--recompute-granularity full --recompute-method uniform",
    "--checkpoint-num-layers": "--recompute-num-layers",
    "--recompute-activations-method": "--recompute-method",
    "--profile-execution": "--profile",
    "--use-rotary-position-embeddings": "--position-embedding-type rope",
    "--warmup": "--lr-warmup-fraction",
    "--use-checkpoint-lr-scheduler": "",
    "--log-num-zeros-in-grad": "",
}
# Old flag → why it is not needed.
DROPPED = {
    "--data-impl": "the indexed format is recognised by itself",
    "--profile-name": "traces are named by rank in --profile-dir",
    "--DDP-impl": "gradients always live in one contiguous buffer",
    "--transformer-impl": "there is one implementation",
    "--attention-backend": "PyTorch chooses the attention kernel",
    "--num-workers": "samples are read from a memory map, without workers",
    "--distributed-backend-timeout": "see --distributed-timeout-minutes",
    "--ckpt-format": "checkpoints have one form: plain numbers and JSON",
    "--use-mcore-models": "there is one model",
    "--use-flash-attn": "scaled_dot_product_attention uses it if it can",
    "--no-gradient-accumulation-fusion": "it needs no extension here",
    "--no-masked-softmax-fusion": "it needs no extension here",
    "--no-bias-gelu-fusion": "it needs no extension here",
    "--no-bias-swiglu-fusion": "it needs no extension here",
    "--no-rope-fusion": "it needs no extension here",
    "--no-bias-dropout-fusion": "it needs no extension here",
    "--no-async-tensor-model-parallel-allreduce": "it is not asynchronous here",
    "--overlap-param-gather": "parameters are gathered in one piece",
    "--tensorboard-log-interval": "scalars are written with each line, see --log-interval",
    "--log-timers-to-tensorboard": "iteration time is always written",
    "--log-validation-ppl-to-tensorboard": "it is always written",
    "--log-memory-to-tensorboard": "it is always written",
    "--moe-token-dispatcher-type": "rows travel in two all-to-alls",
    "--moe-grouped-gemm": "experts are multiplied together if PyTorch can",
    "--no-query-key-layer-scaling": "there is none",
    "--attention-softmax-in-fp32": "it always is",
}
# Names of flags in other programs → what to write here instead.
LAUNCHER = "a flag of the launcher: give it before the program's name"
STEPS = "--train-iters, which counts steps"
CURES = {
    "batch-size": "--micro-batch-size for each rank, --global-batch-size for all together",
    "gradient-accumulation-steps": "--global-batch-size: steps × --micro-batch-size × data ranks",
    "learning-rate": "--lr",
    **dict.fromkeys(("epochs", "num-epochs", "num-train-epochs", "max-steps"), STEPS),
    "train-samples": "--train-iters: samples / --global-batch-size",
    "warmup-steps": "--lr-warmup-iters",
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size",
    "dp": "no flag: data parallelism uses the ranks that the other sizes leave",
    "zero-stage": "--use-distributed-optimizer for ZeRO-1, --use-torch-fsdp2 for ZeRO-3",
    "fsdp": "--use-torch-fsdp2",
    "gradient-checkpointing": "--recompute-granularity full",
    "mixed-precision": "--bf16 or --fp16",
    "fp8": "--fp8-format e4m3 or --fp8-format hybrid",
    "resume": "--load",
    "output-dir": "--save",
    "device": "CUDA_VISIBLE_DEVICES: each rank uses the device of its number",
    **dict.fromkeys(
        ("world-size", "nproc-per-node", "nnodes", "node-rank", "nodes", "gpus"), LAUNCHER
    ),
    **dict.fromkeys(("master-addr", "master-port"), LAUNCHER),
    "multi-latent-attention": "this program has no multi-latent attention; "
    "--group-query-attention also keeps fewer keys and values",
}


def translate(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments with current names, and one note for each change."""
    today: list[str] = []
    notes: list[str] = []
    without_effect = False
    for word in argv:
        flag, equals, value = word.partition("=")  # "--flag value" or "--flag=value"
        if without_effect and not word.startswith("--"):
            continue  # its value would be an unknown argument
        without_effect = flag in DROPPED
        if without_effect:
            notes.append(f"{flag} has no effect in this program: {DROPPED[flag]}")
        elif flag in RENAMED:  # its values follow unchanged
            new = RENAMED[flag]
            notes.append(f"{flag} is called {new} today" if new else f"{flag} changes nothing")
            today += new.split() + ([value] if equals else [])
        else:
            today.append(word)
    return today, notes
