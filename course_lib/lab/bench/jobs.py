"""The job of a case: the recipe that `run` submits, its script for any site, and a JUBE file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from course_lib.lab.bench.cases import CASES, FREE, Case, case
from course_lib.lab.errors import RecipeError
from course_lib.lab.job.quote import word
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.recipes.keywords import flag_of
from course_lib.lab.job.script import Script, render
from course_lib.lab.job.site import Site, preset
from course_lib.mistakes.arguments import explained

OPTIMIZER = {
    "lr": 1e-4, "min_lr": 1e-5, "lr_decay_style": "cosine", "weight_decay": 0.1, "clip_grad": 1.0,
    "adam_beta1": 0.9, "adam_beta2": 0.999, "seed": 42,
}  # fmt: skip
LOSS_SCALE = {"initial_loss_scale": 4096.0, "loss_scale_window": 500, "hysteresis": 2}
MEGATRON = {
    "use_flash_attn": True,
    "position_embedding_type": "rope",
    "distributed_backend": "nccl",
}
ENVIRONMENT = {
    # One work queue per device keeps communication in its place between the kernels.
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    # A rank that waits too long ends the job, which otherwise holds 384 devices to the limit.
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
}  # fmt: skip
JUBE = Path(__file__).with_name("jube.xml.j2")
BUILD = "from megatron.core.datasets.utils import compile_helpers; compile_helpers()"


@explained("bench.recipe", whatever=True)
def recipe(tag: str | Case, *, program: str = gpt.PROGRAM, **more: Any) -> Recipe:
    """Return the training run of a case. `program` may be the path of Megatron-LM's
    pretrain_gpt.py. `more` goes on to `gpt.recipe`."""
    one = case(tag)
    flags: dict[str, Any] = dict(OPTIMIZER)
    layout, megatron = one.layout, program != gpt.PROGRAM
    if layout.precision == "fp16":
        flags |= LOSS_SCALE
    if megatron:
        flags |= MEGATRON | {"before": _build_step(program)}
    if one.tag != "box":
        flags |= {"environment": ENVIRONMENT, "tee": True, "time_limit_minutes": 30}
    name = f"gpt-{one.tag}"
    if one != CASES[one.tag]:
        name += f"-n{one.nodes}-t{layout.tensor}-p{layout.pipeline}"
        name += f"-mb{layout.micro_batch}-x{layout.micro_batches}"
    made = gpt.recipe(
        name, nodes=one.nodes, gpus_per_node=one.devices_per_node, model=one.model, program=program,
        micro_batch=layout.micro_batch, global_batch=layout.global_batch,
        tensor=layout.tensor, pipeline=layout.pipeline, zero=layout.zero,
        sequence_parallel=layout.sequence_parallel, precision=layout.precision,
        recompute="selective" if one.tag != "box" else "none",
        iterations=one.iterations, **(flags | {"log_interval": one.log_interval} | more),
    )  # fmt: skip
    if not isinstance(made, Recipe):
        raise RecipeError(str(made))
    return made


def _build_step(program: str) -> str:
    """Return a command that compiles Megatron-LM's helpers once. Otherwise every rank of every node
    would compile them into the same folder at first use."""
    folder = program.rpartition("/")[0] or "."
    return f'PYTHONPATH={word(folder)} srun --nodes=1 --ntasks=1 python -c "{BUILD}"'


@explained("bench.script", whatever=True)
def script(
    tag: str | Case, site: str | Site, *, program: str = gpt.PROGRAM, partition: str = "",
    account: str = "", **more: Any,
) -> Script:  # fmt: skip
    """Return the batch script of a case at a site or preset. Presets name the partition for
    lessons, which may be too small; `partition` names a different one."""
    where = preset(site) if isinstance(site, str) else site
    chosen = {"partition": partition or where.partition, "account": account or where.account}
    return render(recipe(tag, program=program, **more), where.but(**chosen))


@explained("bench.jube", whatever=True)
def jube(tag: str | Case, site: str = "", program: str = gpt.PROGRAM) -> str:
    """Return the text of a JUBE file. Its step calls `course bench`, so it makes the same job
    script, log and result as the command."""
    from jinja2 import Environment, StrictUndefined

    one = case(tag)
    words = [f"{flag_of(name)} ${name}" for name in FREE]
    words += [f"--site {site}"] if site else []
    words += [f"--program {program}"] if program != gpt.PROGRAM else []
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = environment.from_string(JUBE.read_text(encoding="utf-8"))
    return template.render(case=one, layout=one.layout, options=" ".join(words)) + "\n"
