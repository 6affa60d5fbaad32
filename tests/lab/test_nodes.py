"""What could never run is refused before it is submitted, and says what the site has."""

from __future__ import annotations

import pytest

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import shell
from course_lib.lab.queue.nodes import ask as nodes_of
from course_lib.lab.queue.nodes import asked, described, too_much

SMALL = "printf '%s\\n' 'n1|idle|gpu:2|main*|8|16000' 'n2|mixed|gpu:a100:2(S:0)|main*|8|16000'"
MIXED = f"{SMALL} 'n3|idle|(null)|thin|128+|256000' 'n4|idle|gpu:8|fat|64|512000'"


@pytest.fixture
def nodes(fake):
    def read(line):
        fake("sinfo", line.replace("|", "\x1f"))
        from course_lib.lab.queue.slurm import Slurm

        return nodes_of(Slurm())

    return read


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gpus-per-node": "16"}, "16 devices on a node; no node has more than 2"),
        ({"gres": "gpu:a100:3"}, "3 devices on a node; no node has more than 2"),
        ({"gpus-per-task": "1", "ntasks-per-node": "4"}, "4 devices on a node"),
        ({"gpus": "5"}, "5 devices; all nodes together have 4"),
        ({"nodes": "3"}, "3 nodes; there are 2 nodes"),
        ({"nodes": "3-4"}, "3 nodes; there are 2 nodes"),
        ({"cpus-per-task": "5", "ntasks-per-node": "2"}, "10 CPUs on a node; no node has more"),
        ({"mem": "20G"}, "20480 MiB on a node; no node has more than 16000"),
        ({"partition": "thin", "gpus-per-node": "1"}, "no node offers any to Slurm"),
        ({"partition": "fat", "nodes": "2"}, "2 nodes; there is 1 node"),
    ],
)
def test_more_than_any_node_has_is_named_with_what_there_is(nodes, options, said):
    assert said in "; ".join(too_much(options, nodes(MIXED)))


@pytest.mark.parametrize(
    "options",
    [
        {"gpus-per-node": "2", "nodes": "2"},
        {"nodes": "1-4", "gpus": "4"},
        {"gres": "gpu:2", "cpus-per-task": "8", "mem": "0"},
        {"partition": "fat", "gpus-per-node": "8"},
        {"partition": "thin", "cpus-per-task": "128"},
        {"partition": "unheard-of"},
        {},
    ],
)
def test_what_nodes_have_is_not_refused(nodes, options):
    assert too_much(options, nodes(MIXED)) == []


def test_nothing_is_refused_where_the_cluster_does_not_say_what_it_has(nodes):
    assert too_much({"gpus-per-node": "16"}, nodes("exit 1")) == []
    assert too_much({"gpus-per-node": "16"}, nodes("echo no table")) == []


def test_options_are_read_from_a_script_in_every_form():
    text = (
        "#!/bin/bash\n# words\n\n#SBATCH --nodes=2 --gres gpu:3\n#SBATCH -c 4 -n8\n"
        "#SBATCH --mem='4G' # enough\n#SBATCH --nodes=1\nsrun --nodes=7 true\n#SBATCH --nodes=9\n"
    )
    assert asked(text) == {
        "nodes": "1", "gres": "gpu:3", "cpus-per-task": "4", "ntasks": "8", "mem": "4G",
    }  # fmt: skip


def test_a_site_is_described_by_its_kinds_of_nodes(nodes):
    assert described(nodes(MIXED)) == (
        "2 nodes with 2 devices, 8 CPUs and 16000 MiB each; "
        "1 node with 0 devices, 128 CPUs and 256000 MiB; 1 node with 8 devices, 64 CPUs and "
        "512000 MiB"
    )


@pytest.mark.parametrize(
    "recipe",
    [
        shell.recipe("wide", "true", gpus_per_node=16),
        shell.recipe("fat", "true", directives={"mem": "900G"}),
        shell.recipe("many", "true", nodes=64),
        Recipe(name="own", script="#!/bin/bash\n#SBATCH -N2 --gpus-per-node=9\ntrue\n"),
    ],
    ids=lambda recipe: recipe.name,
)
def test_the_lab_submits_nothing_that_could_never_run(lab, recipe):
    with pytest.raises(RecipeError, match=r"could never run on \w+: it asks for .* has 2 nodes"):
        lab.submit(recipe)
    assert lab.runs().empty
    assert lab.queue().empty
    assert not list(lab.workspace.runs.glob("*"))
