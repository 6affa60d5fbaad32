"""Lists of causes and cures from which a learner chooses the diagnosis of a blind case.

The causes include every kind of fault in the blind cases, and three more that learners often
suspect. Notebooks show the texts in the learner's language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from pandas.io.formats.style import Styler

from course_lib.words import _


@dataclass(frozen=True)
class Cause:
    """One kind of fault.

    `looks` says what a run with this fault shows. `look` says where to find evidence, without
    naming the fault. `place` is the faulty part: one "rank", one "node", "rank 0", "all" ranks, or
    a "disk". All ranks use the disk, and rank 0 reports its fault.
    """

    title: str
    looks: str
    look: str
    cures: tuple[str, ...]
    place: str = "rank"


def causes() -> dict[str, Cause]:
    """Return all causes by key, in alphabetical order of the keys."""
    log = _("Read the log from the first line that is not a setting. run.failure names this line.")
    tasks = f"{log} {_('How many tasks were killed, and on which nodes?')}"
    diary = _("No rank printed an error. Compare the diaries of the ranks: run.diary.findings.")
    stacks = _(
        "The run hung before it ended. Which rank was not in a collective, and where was "
        "it? lab.stacks(run) shows it while the run hangs. Afterwards, a note near the end of the "
        "log names it."
    )
    meeting = _(
        "Before the first step all ranks meet. Which of them came to the meeting point, which did "
        "not, and to which name and port did each connect?"
    )
    memory = _(
        "A rank was refused memory. Was its memory constant before? "
        'run.diary.beside("memory_mib") shows it.'
    )
    numbers = _(
        "A number became NaN. Which rank's loss was NaN first, and what was it one step earlier? "
        'run.diary.beside("loss") shows it.'
    )
    sizes = _(
        "A process ended inside a collective. What does the library say about the sizes? Run the "
        'same recipe with environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}.'
    )
    found = {
        "stuck": Cause(_("a rank hangs while it waits for data"),
            _("one rank waits for something else, while all other ranks wait in a collective"),
            stacks, ("reader-timeout",)),
        "skipped": Cause(_("a rank skips a step"),
            _("a rank finishes before the other ranks, which wait for it in their last step"),
            stacks, ("equal-steps",)),
        "shape": Cause(_("a rank calls a collective of a different shape"),
            _("the library says that sizes do not match, and DETAIL names both sizes"),
            sizes, ("equal-shapes",)),
        "hoard": Cause(_("a rank asks for too much memory within one step"),
            _("one rank's allocation is refused, and its memory was constant until then"),
            memory, ("keep-numbers", "smaller-batch")),
        "leak": Cause(_("the memory of a rank grows with each step"),
            _("one rank's memory rises by the same amount each step, until it is refused"),
            memory, ("keep-numbers",)),
        "killed": Cause(_("one process was killed"),
            _("srun reports one killed task, and the other ranks report a lost peer"),
            tasks, ("from-checkpoint", "host-memory")),
        "node-dies": Cause(_("a whole node is gone"),
            _("srun reports that all tasks of one node were killed"),
            tasks, ("from-checkpoint", "exclude"), "node"),
        "slow-rank": Cause(_("the device of one rank is slower than the others"),
            _("steps take longer, and one rank computes longer than the others"),
            diary, ("exclude",)),
        "wrong-port": Cause(_("one rank was given a different port"),
            _("one rank connects to a different port than the other ranks"),
            meeting, ("same-port",)),
        "wrong-master": Cause(_("the ranks of one node were given a wrong address of the master"),
            _("all ranks of a node connect to a different address, such as their own"),
            meeting, ("first-node",), "node"),
        "bad-name": Cause(_("the master's name cannot be resolved"),
            _("a rank connects to a name that its node does not know"),
            meeting, ("first-node",)),
        "port-taken": Cause(_("another program has taken the port"),
            _("rank 0 cannot open its port: the address is in use"),
            log, ("free-port",), "rank 0"),
        "bad-sample": Cause(_("one sample makes the loss NaN"),
            _("one rank's loss is NaN first, and becomes NaN again with the same sample"),
            numbers, ("filter-samples",)),
        "exploding": Cause(_("the training diverges: its learning rate is too high"),
            _("the loss of all ranks jumps within a step or two before it is NaN"),
            numbers, ("lower-rate",), "all"),
        "same-data": Cause(_("all ranks read the same samples"),
            _("in each step all ranks read samples with the same checksums"),
            diary, ("sampler-rank",), "all"),
        "unequal-weights": Cause(_("a rank started with different weights"),
            _(
                "from the start, the checksum of one rank's weights differs from the other ranks' "
                "checksums"
            ),
            diary, ("broadcast",)),
        "same-dropout": Cause(_("all ranks draw the same dropout masks"),
            _("the random generators of all ranks are in the same state after each step"),
            diary, ("seed-by-rank",), "all"),
        "same-order": Cause(_("every epoch has the same order of samples"),
            _("after some steps the same samples come again in the same order"),
            diary, ("set-epoch",), "all"),
        "disk-full": Cause(_("the disk is full"),
            _("checkpoints fail with the operating system's message for a full disk"),
            log, ("free-disk",), "disk"),
        "no-internet": Cause(_("the program downloads something, and nodes have no internet"),
            _("a request to the internet fails before the ranks meet"),
            log, ("download-before",), "all"),
        "missing-module": Cause(_("a node lacks a Python module"),
            _("Python says on one node that a module does not exist"),
            log, ("same-modules",), "node"),
        "old-module": Cause(_("a node has an old version of a Python module"),
            _("Python finds the module on one node, but not the function in it"),
            log, ("same-modules",), "node"),
        "firewall": Cause(_("a firewall blocks the traffic between the nodes"),
            _("ranks use the right name and port but get no answer until the time-out"),
            meeting, ("open-firewall",), "node"),
        "slow-network": Cause(_("the network between the nodes is slow"),
            _("collectives take longer on all ranks, while each rank's own time is as before"),
            diary, ("faster-network",), "all"),
        "broken-device": Cause(_("a device computes wrongly"),
            _("from some step on, the numbers of one rank are different"),
            diary, ("exclude",)),
    }  # fmt: skip
    return dict(sorted(found.items()))


def cures() -> dict[str, str]:
    """Return all cures by key, in alphabetical order of the keys."""
    found = {
        "reader-timeout": _("give the data loader a time-out, so that it fails instead of hanging"),
        "equal-steps": _(
            "let all ranks take the same number of steps: pad or drop samples in the same way on "
            "all"
        ),
        "equal-shapes": _("let all ranks reduce the same gradients: freeze the same layers on all"),
        "keep-numbers": _("keep numbers (.item()), not tensors, and release unused ones"),
        "smaller-batch": _("use a smaller micro-batch or shorter sequences"),
        "from-checkpoint": _("continue from the last checkpoint, and save often enough"),
        "host-memory": _(
            "find in sacct what ended the process, and ask Slurm for more memory (--mem)"
        ),
        "exclude": _("exclude this node (--exclude), and report it to the administrators"),
        "same-port": _("set MASTER_PORT in one place, from which all ranks read it"),
        "first-node": _("set MASTER_ADDR for all ranks to the first node that scontrol lists"),
        "free-port": _("move the job to a port that no other job uses, computed from its job id"),
        "filter-samples": _("filter out samples without tokens, or divide by at least 1"),
        "lower-rate": _("lower the learning rate, warm up for longer, or clip the gradients"),
        "sampler-rank": _("tell the sampler its rank and the number of ranks"),
        "broadcast": _("broadcast the weights of rank 0 to all ranks before the first step"),
        "seed-by-rank": _("add the rank to the seed of the random generator"),
        "set-epoch": _("tell the sampler each new epoch (set_epoch)"),
        "free-disk": _("delete old checkpoints, keep only the last few, or use another disk"),
        "download-before": _(
            "download the data on a login node before the job, to the shared disk"
        ),
        "same-modules": _("install the same modules in the same versions on all nodes"),
        "open-firewall": _("let the administrators open the ports between the nodes"),
        "faster-network": _("use the fast network interface, or send fewer but larger messages"),
        "longer-timeout": _("raise the time-out of the collectives"),
    }
    return dict(sorted(found.items()))


def causes_table() -> Styler:
    """Return the numbered list of causes as a notebook table."""
    rows = [(key, cause.title, cause.looks) for key, cause in causes().items()]
    return _numbered(rows, ["cause", _("what is wrong"), _("what the run shows")])


def cures_table() -> Styler:
    """Return the numbered list of cures as a notebook table."""
    return _numbered(list(cures().items()), ["cure", _("what to do")])


def _numbered(rows: Sequence[tuple[str, ...]], columns: list[str]) -> Styler:
    table = pd.DataFrame(rows, columns=columns, index=range(1, len(rows) + 1))
    heads = table.style.set_table_styles([{"selector": "th", "props": "text-align: left"}])
    aligned = heads.map(lambda _: "text-align: left")
    return aligned.format({columns[0]: "<code>{}</code>"})


def chosen(answer: object, choices: dict[str, str]) -> str | None:
    """Return the key of a choice given by key, number or text; else None."""
    if isinstance(answer, int) and not isinstance(answer, bool):
        answer = str(answer)
    wanted = _plain(answer) if isinstance(answer, str) else ""
    for number, (key, text) in enumerate(choices.items(), start=1):
        if wanted in (str(number), _plain(key), _plain(text)):
            return key
    return None


def no_choice(choices: dict[str, str]) -> str:
    """List the choices after an invalid answer."""
    lines = [f"{n:4}  {key}: {text}" for n, (key, text) in enumerate(choices.items(), start=1)]
    choose = _("Choose one of these by its name or its number (this was not scored):")
    return "\n".join([choose, *lines])


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text).strip(" .!`'\"").lower()
