"""A JUBE file for a case: the same command, wrapped for benchmarks that are kept and compared.

    course bench --tag 13 --jube > gpt-13.xml
    jube run gpt-13.xml && jube result -a gpt-13_runs

JUBE makes one run of every combination of its parameters: where several values stand, separated by
commas, they are tried in turn.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from course_lib.lab.bench.cases import FREE, Case, case
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.recipes.flags import spelt
from course_lib.mistakes.arguments import explained

LOG = "job.out"
COLUMNS = (
    ("model", "Model"), ("nodes", "Nodes"), ("global_batch", "Batch"), ("pipeline", "Pipeline"),
    ("tensor", "Tensor"), ("tokens_per_s", "Tokens/s"), ("time_to_report_s", "Time to report (s)"),
)  # fmt: skip


@explained("bench.jube", whatever=True)
def jube(tag: str | Case, site: str = "", program: str = gpt.PROGRAM) -> str:
    """The text of the file. Its step calls `course bench`, so that job script, log and result are
    those that the command alone would make."""
    one = case(tag)
    root = Element("jube")
    benchmark = SubElement(root, "benchmark", name=f"gpt-{one.tag}", outpath=f"gpt-{one.tag}_runs")
    SubElement(benchmark, "comment").text = f"GPT of {one.title}: tokens per second"
    _parameters(benchmark, one)
    _step(benchmark, one, site, program)
    _patterns(benchmark)
    _result(benchmark)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _parameters(benchmark: Element, one: Case) -> None:
    layout = one.layout
    given = SubElement(benchmark, "parameterset", name="case")
    values: dict[str, tuple[str, object]] = {
        "model": ("string", one.title),
        "nodes": ("int", one.nodes),
        "tensor": ("int", layout.tensor),
        "pipeline": ("int", layout.pipeline),
        "micro_batch": ("int", layout.micro_batch),
        "accumulation": ("int", layout.micro_batches),
    }
    for name, (kind, value) in values.items():
        SubElement(given, "parameter", name=name, type=kind).text = str(value)
    batch = SubElement(given, "parameter", name="global_batch", type="int", mode="python")
    devices = f"$nodes * {one.devices_per_node}"
    batch.text = f"{devices} // ($tensor * $pipeline) * $micro_batch * $accumulation"


def _step(benchmark: Element, one: Case, site: str, program: str) -> None:
    step = SubElement(benchmark, "step", name="train")
    SubElement(step, "use").text = "case"
    words = [f"course bench --tag {one.tag} --submit --log {LOG}"]
    words += [f"{spelt(name)} ${name}" for name in FREE]
    words += [f"--site {site}"] if site else []
    words += [f"--program {program}"] if program != gpt.PROGRAM else []
    SubElement(step, "do").text = " ".join(words)


def _patterns(benchmark: Element) -> None:
    """What `course bench` prints, so that both tables say the same."""
    found = SubElement(benchmark, "patternset", name="lines")
    lines = {"tokens_per_s": "tokens/s", "time_to_report_s": "time to report \\(s\\)"}
    for name, title in lines.items():
        SubElement(found, "pattern", name=name, type="float").text = f"^{title}: $jube_pat_fp"
    analyser = SubElement(benchmark, "analyser", name="rate")
    SubElement(analyser, "use").text = "lines"
    analyse = SubElement(analyser, "analyse", step="train")
    SubElement(analyse, "file").text = "stdout"


def _result(benchmark: Element) -> None:
    result = SubElement(benchmark, "result")
    SubElement(result, "use").text = "rate"
    table = SubElement(result, "table", name="result", style="pretty")
    for name, title in COLUMNS:
        column = SubElement(table, "column", title=title)
        column.text = name
        if name.endswith("_s"):
            column.set("format", ".2f")
