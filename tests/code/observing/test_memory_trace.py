"""The memory trace says where every byte of the recorded steps was, and what for."""

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


def test_the_header_says_what_ran(plain):
    header, *_ = plain
    assert header["format"] == "course-memory-1"
    assert (header["rank"], header["world_size"], header["device"]) == (0, 1, "cpu")
    assert header["layout"] == {"tensor": 1, "context": 1, "data": 1, "pipeline": 1}


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


def test_a_float32_copy_of_float16_gradients_lives_no_longer_than_the_step(worlds, tmp_path):
    [(header, events)] = traces(worlds, tmp_path, 1, "--fp16 --initial-loss-scale 1024")
    temporary = header["categories"].index("temporary")
    blocks = {number: size for kind, _, number, size, what in
              (event for event in events if event[0] == "alloc") if what == temporary}  # fmt: skip
    freed = {event[2] for event in events if event[0] == "free"}
    left = sum(size for number, size in blocks.items() if number not in freed)
    assert left < 100_000  # 59 584 gradients are 238 KB in float32


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
    """Bytes of activations when each such phase ends."""
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


def test_a_pipelines_first_stage_keeps_more_micro_batches(worlds, tmp_path):
    first, last = traces(worlds, tmp_path, 2, "--pipeline-model-parallel-size 2")
    assert first[0]["layout"]["pipeline"] == 2
    names = [[e[2:] for e in events if e[0] == "begin" and e[2] in ("forward", "backward")][:3]
             for _, events in (first, last)]  # fmt: skip
    assert [name[0] for name in names[0]] == ["forward", "forward", "backward"]
    assert [name[0] for name in names[1]] == ["forward", "backward", "forward"]


def test_an_interleaved_pipeline_names_the_chunk_in_both_traces(worlds, tmp_path):
    flags = "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1"
    (_, events), _ = traces(worlds, tmp_path, 2, flags)
    works = [tuple(e[2:]) for e in events if e[0] == "begin" and e[2] in ("forward", "backward")]
    assert works[:5] == [("forward", 3, 0, 0), ("forward", 3, 1, 0), ("forward", 3, 0, 1),
                         ("forward", 3, 1, 1), ("forward", 3, 2, 0)]  # fmt: skip
    assert len(set(works)) == len(works) == 2 * 2 * 8 * 2
    [path] = (tmp_path / "profile").glob("rank0.*.pt.trace.json.gz")
    with gzip.open(path, "rt") as text:
        names = {event.get("name") for event in json.load(text)["traceEvents"]}
    assert {"forward 0 chunk 0", "backward 7 chunk 1"} <= names


def test_the_profiler_trace_has_the_named_ranges_and_memory(plain):
    *_, folder = plain
    [path] = (folder / "profile").glob("rank0.*.pt.trace.json.gz")
    with gzip.open(path, "rt") as text:
        events = json.load(text)["traceEvents"]
    names = {event.get("name") for event in events}
    assert {"forward 0", "backward 7", "optimizer", "data", "[memory]"} <= names
    assert sum(str(name).startswith("ProfilerStep#") for name in names) == 2


def test_a_block_whose_release_nobody_saw_ends_when_its_place_is_taken_again():
    from observing.memory_trace import lives

    blocks = lives([(0, 7, 100), (5, 7, 40), (9, 7, -40), (11, 7, 60)])
    assert [(block.begin_ns, block.end_ns) for block in blocks] == [(0, 5), (5, 9), (11, None)]


def test_what_a_thread_gave_back_ended_with_the_collective_after_it():
    """In a pipeline too: gradients summed over a tensor group had piled up there until the step's
    end, three of them in the trace of eight micro-batches."""
    from observing.memory_blocks import Block, Range, end_unseen

    made, sent = Block(7, 100, begin_ns=2), Block(8, 100, begin_ns=2, end_ns=9, seen=True)
    ranges = [
        Range("backward", 0, 0, 1, 6),
        Range("communication", 0, None, 3, 4),
        Range("backward", 0, 1, 7, 12),
    ]
    end_unseen([made, sent], ranges, {})
    assert (made.end_ns, sent.end_ns) == (4, 9)


@pytest.mark.parametrize(
    "flags",
    ["--tensor-model-parallel-size 2 --sequence-parallel", "--pipeline-model-parallel-size 2"],
)
def test_what_was_sent_does_not_pile_up_as_gradients(worlds, tmp_path, flags):
    """Gloo's threads give buffers back where the profiler does not look."""
    for header, events in traces(worlds, tmp_path, 2, flags):
        ended = {event[2] for event in events if event[0] == "free"}
        begun = [event for event in events if event[0] == "alloc"]
        stays = [e for e in begun if e[2] not in ended and e[1] > 0 and e[3] > 64]
        assert stays == []
        gradients = header["categories"].index("gradients")
        made = [e for e in begun if e[4] == gradients and e[1] > 0]
        assert made == []


def test_gradients_of_sharded_parameters_are_gradients_in_every_step(worlds, tmp_path):
    header, events = traces(worlds, tmp_path, 2, "--use-torch-fsdp2")[0]
    gradients = header["categories"].index("gradients")
    steps = {3: 0, 4: 0}
    now = 0
    for event in events:
        if event[0] == "begin" and event[2] == "backward":
            now = event[3]
        if event[0] == "alloc" and event[1] > 0 and event[4] == gradients:
            steps[now] += event[3]
    count = 12 * 4 * 32**2 + 13 * 4 * 32 + (256 + 16) * 32 + 2 * 32
    for size in steps.values():
        assert size == pytest.approx(4 * count / 2, rel=0.05)


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
def test_more_micro_batches_take_no_more_memory(worlds, tmp_path, schedule):
    """What a stage has sent is let go once it has arrived, not at the end of the step."""
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
    """Its part of a range has the range's name, begins later and may end after the next began."""
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
