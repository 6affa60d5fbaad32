"""Other names of flags: from earlier years, and from other programs.

Earlier names and flags without effect here are accepted with a note. A flag of another program is
refused, and the message says what to write instead."""

from __future__ import annotations

from process.errors import ArgumentsError

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
# Old flag → (its number of values, why it is not needed).
DROPPED = {
    "--data-impl": (1, "the indexed format is recognised by itself"),
    "--profile-name": (1, "traces are named by rank in --profile-dir"),
    "--DDP-impl": (1, "gradients always live in one contiguous buffer"),
    "--transformer-impl": (1, "there is one implementation"),
    "--attention-backend": (1, "PyTorch chooses the attention kernel"),
    "--num-workers": (1, "samples are read from a memory map, without workers"),
    "--distributed-backend-timeout": (1, "see --distributed-timeout-minutes"),
    "--ckpt-format": (1, "checkpoints have one form: plain numbers and JSON"),
    "--use-mcore-models": (0, "there is one model"),
    "--use-flash-attn": (0, "scaled_dot_product_attention uses it if it can"),
    "--no-gradient-accumulation-fusion": (0, "it needs no extension here"),
    "--no-masked-softmax-fusion": (0, "it needs no extension here"),
    "--no-bias-gelu-fusion": (0, "it needs no extension here"),
    "--no-bias-swiglu-fusion": (0, "it needs no extension here"),
    "--no-rope-fusion": (0, "it needs no extension here"),
    "--no-bias-dropout-fusion": (0, "it needs no extension here"),
    "--no-async-tensor-model-parallel-allreduce": (0, "it is not asynchronous here"),
    "--overlap-param-gather": (0, "parameters are gathered in one piece"),
    "--tensorboard-log-interval": (1, "scalars are written with each line, see --log-interval"),
    "--log-timers-to-tensorboard": (0, "iteration time is always written"),
    "--log-validation-ppl-to-tensorboard": (0, "it is always written"),
    "--log-memory-to-tensorboard": (0, "it is always written"),
    "--moe-token-dispatcher-type": (1, "rows travel in two all-to-alls"),
    "--moe-grouped-gemm": (0, "experts are multiplied together if PyTorch can"),
    "--no-query-key-layer-scaling": (0, "there is none"),
    "--attention-softmax-in-fp32": (0, "it always is"),
}
# Names of flags in other programs → what to write here instead.
LAUNCHER = "a flag of the launcher: give it before the program's name"
STEPS = "--train-iters, which counts steps"
NOT_HERE = "this program has no"
CURES = {
    "batch-size": "--micro-batch-size for each rank, --global-batch-size for all together",
    "per-device-train-batch-size": "--micro-batch-size",
    "train-batch-size": "--global-batch-size",
    "train-micro-batch-size-per-gpu": "--micro-batch-size",
    "gradient-accumulation-steps": "--global-batch-size: steps × --micro-batch-size × data ranks",
    "learning-rate": "--lr",
    **dict.fromkeys(("epochs", "num-epochs", "num-train-epochs"), STEPS),
    "max-steps": "--train-iters",
    "max-iters": "--train-iters",
    "train-samples": "--train-iters: samples / --global-batch-size",
    "lr-decay-samples": "--lr-decay-iters: samples / --global-batch-size",
    "lr-warmup-samples": "--lr-warmup-iters: samples / --global-batch-size",
    "warmup-steps": "--lr-warmup-iters",
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "cp": "--context-parallel-size",
    "dp": "no flag: data parallelism uses the ranks that the other sizes leave",
    "data-parallel-size": "no flag: data parallelism takes the ranks that the other sizes leave",
    "zero-stage": "--use-distributed-optimizer for ZeRO-1, --use-torch-fsdp2 for ZeRO-3",
    "fsdp": "--use-torch-fsdp2",
    "deepspeed": "--use-distributed-optimizer for ZeRO-1, --use-torch-fsdp2 for ZeRO-3",
    "gradient-checkpointing": "--recompute-granularity full",
    "mixed-precision": "--bf16 or --fp16",
    "dtype": "--bf16 or --fp16",
    "bfloat16": "--bf16",
    "float16": "--fp16",
    "compile": "--torch-compile",
    "resume": "--load",
    "resume-from-checkpoint": "--load",
    "output-dir": "--save",
    "ckpt-step": "set the step in latest_checkpointed_iteration.txt in the --load folder",
    "max-grad-norm": "--clip-grad",
    "seq-len": "--seq-length",
    "block-size": "--seq-length",
    "n-layer": "--num-layers",
    "n-head": "--num-attention-heads",
    "n-embd": "--hidden-size",
    "device": "CUDA_VISIBLE_DEVICES: each rank uses the device of its number",
    "no-cuda": "CUDA_VISIBLE_DEVICES=-1",
    **dict.fromkeys(
        ("world-size", "nproc-per-node", "nnodes", "node-rank", "nodes", "gpus"), LAUNCHER
    ),
    **dict.fromkeys(("master-addr", "master-port", "ntasks", "gres", "num-gpus"), LAUNCHER),
    "ep": "--expert-model-parallel-size",
    "expert-parallel-size": "--expert-model-parallel-size",
    "fp8": "--fp8-format e4m3 or --fp8-format hybrid",
    "multi-latent-attention": f"{NOT_HERE} multi-latent attention; --group-query-attention also "
    "keeps fewer keys and values",
    "fp8-amax-history-len": f"{NOT_HERE} delayed scaling; leave the flag out: each scale is of the "
    "numbers that it scales",
    "rampup-batch-size": f"{NOT_HERE} batch that grows; give one --global-batch-size",
    "no-save-optim": f"{NOT_HERE} checkpoint without it; leave the flag out",
}


def _takes_values(argv: list[str], at: int) -> int:
    """Return the number of values that follow the flag at this index."""
    end = at + 1
    while end < len(argv) and not argv[end].startswith("--"):
        end += 1
    return end - at - 1


def translate(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments with current names, and one note for each change."""
    today: list[str] = []
    notes: list[str] = []
    at = 0
    while at < len(argv):
        flag, equals, value = argv[at].partition("=")  # "--flag value" or "--flag=value"
        values = _takes_values(argv, at)
        if flag in DROPPED:
            # Remove its value too, which would otherwise be an unknown argument.
            count, reason = DROPPED[flag]
            if count > values and not equals:
                raise ArgumentsError([f"argument {flag}: expected one argument; or leave it out"])
            notes.append(f"{flag} has no effect in this program: {reason}")
            at += 1 + (min(count, values) if not equals else 0)
            continue
        if flag in RENAMED:  # its values follow unchanged
            new = RENAMED[flag]
            notes.append(f"{flag} is called {new} today" if new else f"{flag} changes nothing")
            today += new.split() + ([value] if equals else [])
        else:
            today.append(argv[at])
        at += 1
    return today, notes
