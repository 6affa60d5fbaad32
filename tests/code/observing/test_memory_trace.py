"""The memory trace attributes every byte of the recorded steps to a place and a purpose."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import one_run
import pytest

FLAGS = ["--record-memory-history", "--profile", "--profile-step-start", "2", "--profile-step-end",
         "4", "--train-iters", "5", "--log-interval", "5"]  # fmt: skip


def traces(worlds, folder, ranks, flags):
    argv = [*one_run.MODEL, *FLAGS, *flags.split()]
    worlds(ranks).run(one_run.program, argv, {"COURSE_RUN_DIR": str(folder)})
    found = []
    for rank in range(ranks):
        with gzip.open(folder / "memory" / f"rank{rank}.jsonl.gz", "rt") as lines:
            header, *events = [json.loads(line) for line in lines]
        found.append((header, events))
    return found


@pytest.fixture(scope="module")
def plain(worlds, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    [trace] = traces(worlds, folder, 1, "")
    return (*trace, folder)


def test_every_block_is_taken_once_and_given_back_at_most_once(plain):
    _, events, _ = plain
    alive, seen, level = {}, set(), 0
    for kind, time_us, *rest in events:
        assert time_us >= 0
        if kind == "alloc":
            assert rest[0] not in seen
            seen.add(rest[0])
            alive[rest[0]] = rest[1]
        elif kind == "free":
            del alive[rest[0]]
        elif kind == "level":
            level = rest[0]
            assert level == sum(alive.values())
    assert level > 0
    assert [event[1] for event in events] == sorted(event[1] for event in events)


def test_parameters_gradients_and_moments_have_their_sizes(plain):
    header, events, _ = plain
    count = 12 * 4 * 32**2 + 13 * 4 * 32 + (256 + 16) * 32 + 2 * 32
    sizes = dict.fromkeys(header["categories"], 0)
    for kind, _, *rest in events:
        if kind == "alloc":
            sizes[header["categories"][rest[2]]] += rest[1]
    assert sizes["parameters"] == pytest.approx(4 * count, rel=0.05)  # rows are aligned
    assert sizes["gradients"] == sizes["parameters"]
    assert sizes["optimizer"] == pytest.approx(8 * count, rel=0.05)


def test_phases_follow_each_other_for_each_micro_batch_of_each_step(plain):
    _, events, _ = plain
    begins = [tuple(event[2:]) for event in events if event[0] == "begin"]
    ends = [tuple(event[2:]) for event in events if event[0] == "end"]
    main = [b for b in begins if b[0] in ("data", "forward", "backward", "optimizer")]
    assert sorted(map(str, begins)) == sorted(map(str, ends))
    wanted = []
    for step in (3, 4):
        wanted.append(("data", step, None))
        for micro_batch in range(8):
            wanted += [("forward", step, micro_batch), ("backward", step, micro_batch)]
        wanted.append(("optimizer", step, None))
    assert main == wanted


def activations_at_end_of(events, phase):
    """Bytes of activations at the end of each phase of this name."""
    alive, found = {}, []
    for kind, _, *rest in events:
        if kind == "alloc" and rest[2] == 3:
            alive[rest[0]] = rest[1]
        elif kind == "free":
            alive.pop(rest[0], None)
        elif kind == "end" and rest[0] == phase:
            found.append(sum(alive.values()))
    return found


def test_activations_rise_in_forward_and_are_gone_after_backward(plain):
    _, events, _ = plain
    forward, backward = (activations_at_end_of(events, p) for p in ("forward", "backward"))
    assert min(forward) > 20 * max(1, *(after - min(backward) for after in backward))
    assert min(forward) > 3 * max(backward)


def test_recomputation_keeps_less_and_is_marked(worlds, plain, tmp_path):
    flags = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    [(_, events)] = traces(worlds, tmp_path, 1, flags)
    before = max(activations_at_end_of(plain[1], "forward"))
    assert max(activations_at_end_of(events, "forward")) < 0.75 * before
    assert sum(event[0] == "begin" and event[2] == "recompute" for event in events) == 2 * 8 * 4


@pytest.mark.parametrize(
    "flags",
    ["--tensor-model-parallel-size 2 --sequence-parallel", "--pipeline-model-parallel-size 2"],
)
def test_what_was_sent_does_not_pile_up_as_gradients(worlds, tmp_path, flags):
    """Gloo's threads free buffers that the profiler does not record."""
    for header, events in traces(worlds, tmp_path, 2, flags):
        ended = {event[2] for event in events if event[0] == "free"}
        begun = [event for event in events if event[0] == "alloc"]
        stays = [e for e in begun if e[2] not in ended and e[1] > 0 and e[3] > 64]
        assert stays == []
        gradients = header["categories"].index("gradients")
        made = [e for e in begun if e[4] == gradients and e[1] > 0]
        assert made == []


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
def test_more_micro_batches_take_no_more_memory(worlds, tmp_path, schedule):
    """A stage frees a sent tensor after its arrival, not at the end of the step."""
    wide = "--hidden-size 128 --pipeline-model-parallel-size 2 --pipeline-schedule"
    peaks = {}
    for micro_batches in (4, 32):
        folder = tmp_path / str(micro_batches)
        flags = f"{wide} {schedule} --global-batch-size {micro_batches}"
        ranks = traces(worlds, folder, 2, flags)
        peaks[micro_batches] = [max(e[2] for e in events if e[0] == "level") for _, events in ranks]
    sent_bytes = 16 * 128 * 4  # one tensor between the stages
    for few, many in zip(peaks[4], peaks[32], strict=True):
        assert many - few < 5 * sent_bytes


def test_what_a_gpu_did_in_a_phase_is_no_second_phase():
    """On a GPU, a part of a range has the name of the range, begins later and may end after the
    next range begins."""
    from torch._C._profiler import _EventType

    from observing.memory_trace import read

    def event(kind, name, begin_ns, end_ns):
        return SimpleNamespace(typed=(kind, None), name=name, start_time_ns=begin_ns,
                               end_time_ns=end_ns, children=[])  # fmt: skip

    events = [event(_EventType.TorchOp, "ProfilerStep#2", 0, 90),
              event(_EventType.TorchOp, "forward 0", 10, 20),
              event(_EventType.Kineto, "forward 0", 12, 80),
              event(_EventType.TorchOp, "backward 0", 30, 60)]  # fmt: skip
    results = SimpleNamespace(experimental_event_tree=lambda: events)
    recording = SimpleNamespace(profiler=SimpleNamespace(kineto_results=results))
    ranges, _ = read(recording, 3, "cuda")
    assert [(r.phase, r.step, r.begin_ns, r.end_ns) for r in ranges] == [
        ("forward", 3, 10, 20),
        ("backward", 3, 30, 60),
    ]
