"""Measured links and recorded load, from files made by hand and by the programs themselves."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib import read
from course_lib.read.measurements.link_times import fit_line


def sample(source, destination, size, time, kind="point_to_point"):
    return {
        "kind": kind,
        "source": source,
        "destination": destination,
        "size_bytes": size,
        "repeat": 3,
        "time_us": time,
    }


def report(**more):
    """A report of links with 10 us + 1 GB/s inside a node and 100 us + 0.1 GB/s between nodes."""
    node = ["n1", "n1", "n2"]
    samples = [
        sample(a, b, size, (10 + size / 1e3) if node[a] == node[b] else (100 + size / 1e2))
        for a, b in ((0, 1), (0, 2), (1, 2))
        for size in (1000, 100_000, 10_000_000)
    ]
    ranks = [{"rank": r, "node": node[r], "device": "cpu", "pid": r} for r in range(3)]
    return {
        "format": "course-links-1",
        "backend": "gloo",
        "device": "cpu",
        "world_size": 3,
        "ranks": ranks,
        "samples": samples,
        "all_reduce": None,
    } | more


def test_latency_and_bandwidth_worked_out_by_hand(write, tmp_path):
    write("run/links.json", json.dumps(report()))
    links = read.links(tmp_path / "run")
    assert links.latency_us.loc[0, 1] == links.latency_us.loc[1, 0] == 11
    assert links.latency_us.loc[2, 0] == 110
    assert links.bandwidth_gb_s.loc[0, 1] == pytest.approx(10e6 / 10_010 / 1e3)
    table = links.table.set_index("link")
    assert table.loc["inside a node"].tolist() == pytest.approx([0.011, 1.0])
    assert table.loc["between the nodes"].tolist() == pytest.approx([0.11, 0.1])
    fits = links.fits[links.fits["kind"] == "point_to_point"]
    assert len(fits) == 6
    assert (fits["r2"] > 0.999999).all()


def test_a_link_on_which_large_messages_were_held_up_still_has_its_latency(write, tmp_path):
    held_up = report()
    for one in held_up["samples"]:
        if one["size_bytes"] == 10_000_000:
            one["time_us"] *= 100
    write("run/links.json", json.dumps(held_up))
    links = read.links(tmp_path / "run")
    assert links.fits["alpha_us"].min() == 0, "their line leads below nothing"
    assert links.table["latency_ms"].tolist() == pytest.approx([0.011, 0.11])


def test_repeated_all_reduces(write):
    repeated = {"size_bytes": 5_200_000, "algorithm": "ring", "times_us": [1000.0, 2500]}
    links = read.links(write("links.json", json.dumps(report(samples=[], all_reduce=repeated))))
    assert links.all_reduce_ms == [1.0, 2.5]
    assert (links.all_reduce_bytes, links.algorithm) == (5_200_000, "ring")
    assert links.fits.empty
    assert links.latency_us.isna().all().all()


@given(st.floats(0.1, 1e4), st.floats(0.001, 100))
def test_the_fit_finds_the_line_it_came_from(alpha_us, bandwidth_gb_s):
    sizes = [1024 * 4**n for n in range(9)]
    found = fit_line(sizes, [alpha_us + size / bandwidth_gb_s / 1e3 for size in sizes])
    assert found[0] == pytest.approx(alpha_us, rel=1e-3, abs=1e-6)
    assert found[1] == pytest.approx(bandwidth_gb_s, rel=1e-3)


def test_fits_are_never_negative():
    alpha, beta, _ = fit_line([1000, 2000, 4000], [5.0, 20.0, 45.0])
    assert alpha >= 0
    assert beta > 0
    assert fit_line([], [])[0] != fit_line([], [])[0]


def test_a_line_that_does_not_fit_its_messages_has_a_low_r2():
    sizes = [1024 * 4**n for n in range(7)]
    times = [925, 1100, 1400, 900, 1200, 1000, 1978]
    assert fit_line(sizes, times)[2] < 0.9


def test_if_small_messages_took_longest_the_largest_message_tells_the_rate():
    alpha, beta, _ = fit_line([1024, 2**20, 2**22], [5000, 3000, 1000])
    assert alpha == 0
    assert beta == pytest.approx(2**22 / 1000 / 1e3)


def test_what_a_buffer_swallows_does_not_make_the_link_look_wider():
    """Times of a link of 0.125 GB/s whose first 31 KB pass at once."""
    sizes = [1024 * 4**n for n in range(7)]
    times = [40 + max(size / 5, (size - 31_250) / 0.125) / 1e3 for size in sizes]
    alpha, beta, _ = fit_line(sizes, times)
    assert alpha == pytest.approx(40, abs=10)
    assert beta == pytest.approx(0.125, rel=0.02)


def test_missing_links_say_what_to_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"run measure_links\.py"):
        read.links(tmp_path)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def measure(repository, folder, *arguments, ranks=3):
    """Run measure_links.py on three ranks. To the program, the last rank seems to be on another
    node."""
    shared = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(ranks),
        "COURSE_RUN_DIR": str(folder),
    }
    command = [sys.executable, str(repository / "code/measure_links.py"), *arguments]
    started = [
        subprocess.Popen(
            command,
            env=shared | {"RANK": str(r), "LOCAL_RANK": str(r), "SLURMD_NODENAME": f"n{r // 2}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * ranks, outputs
    return outputs[0][0]


def test_measure_links_times_all_pairs(repository, tmp_path):
    pytest.importorskip("torch")
    text = measure(repository, tmp_path, "--max-bytes", "65536", "--repeat", "3")
    assert "bandwidth of the largest message (GB/s)" in text
    links = read.links(tmp_path)
    assert (links.backend, links.world_size) == ("gloo", 3)
    assert links.ranks["node"].tolist() == ["n0", "n0", "n1"]
    off_diagonal = links.latency_us.isna().to_numpy() ^ True
    assert off_diagonal.sum() == 6
    pairs = links.samples.groupby("kind")["size_bytes"].nunique()
    assert pairs["point_to_point"] == pairs["all_reduce"] == 4
    assert links.table["link"].tolist() == ["inside a node", "between the nodes"]
    assert (links.samples["time_us"] > 0).all()


def test_measure_links_repeats_one_size(repository, tmp_path):
    """The program checks the sum of each all-reduce; this one goes round two rings as well."""
    measure(repository, tmp_path, "--bytes", "4100", "--repeat", "4", "--algorithm", "hierarchical")
    links = read.links(tmp_path)
    assert len(links.all_reduce_ms) == 4
    assert (links.all_reduce_bytes, links.algorithm) == (4100, "hierarchical")


def look(unix_s, node="n1", received=0, **more):
    return json.dumps(
        {
            "unix_s": unix_s,
            "node": node,
            "cpu_percent": 50.0,
            "memory_used_bytes": 10,
            "memory_total_bytes": 20,
            "network_in_bytes": received,
            "network_out_bytes": 7,
            "ranks": [{"rank": 3, "pid": 9, "cpu_percent": 99.0, "memory_bytes": 5}],
            "devices": [{"device": 0, "utilisation_percent": 80}],
        }
        | more
    )


def test_load_and_rates(write, tmp_path):
    write("run/monitor/n1.jsonl", "\n".join([look(100, received=1000), look(102, received=5000)]))
    write("run/monitor/n2.jsonl", look(101, "n2") + "\n" + look(103, "n2")[:40])
    found = read.monitor(tmp_path / "run")
    load = found.load
    assert load["time_s"].tolist() == [0, 1, 2]
    assert load["node"].tolist() == ["n1", "n2", "n1"]
    assert load["network_in_bytes_s"].fillna(-1).tolist() == [-1, -1, 2000]
    assert found.ranks["rank"].tolist() == [3, 3, 3]
    assert found.devices["utilisation_percent"].tolist() == [80, 80, 80]
    assert found.start_unix_s == 100


def test_the_load_of_a_slot_without_a_pace_is_the_load_of_its_core(write, tmp_path):
    rank = {"rank": 4, "pid": 10, "cpu_percent": 30.0, "slot_percent": 90.0}
    write("run/monitor/n1.jsonl", look(100) + "\n" + look(101, ranks=[rank]))
    found = read.monitor(tmp_path / "run").ranks
    assert found["slot_percent"].tolist() == [99.0, 90.0]
    assert found["cpu_percent"].tolist() == [99.0, 30.0]


def test_only_the_end_of_a_long_record(write):
    path = write("n1.jsonl", "".join(look(second) + "\n" for second in range(100)))
    found = read.monitor(path, last_bytes=3 * len(look(99)) + 10)
    assert found.load["time_s"].tolist() == [0, 1, 2]
    assert found.start_unix_s == 97


def test_nothing_recorded_yet(tmp_path):
    (tmp_path / "monitor").mkdir()
    assert read.monitor(tmp_path).load.empty


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(st.sampled_from([*report(), "unix_s", "devices", "network_in_bytes"]), JSON),
    st.binary(max_size=20),
)
def test_nothing_raises(tmp_path_factory, fields, noise):
    folder = tmp_path_factory.mktemp("fuzz")
    data = json.dumps(report() | fields).encode()
    for content in (data, data[: len(data) // 2] + noise, noise):
        (folder / "links.json").write_bytes(content)
        links = read.links(folder)
        assert len(links.latency_us) == links.world_size
        assert links.table is not None
        assert isinstance(links.all_reduce_ms, list)
        (folder / "monitor.jsonl").write_bytes(
            content + b"\n" + look(**{"unix_s": 5} | fields).encode()
        )
        assert read.monitor(folder / "monitor.jsonl").load is not None


@pytest.mark.parametrize("time_us", ["9" * 400, "1e-300", "1e300"])
def test_a_time_that_none_can_have_is_no_measurement(tmp_path, time_us):
    sizes = [2**power for power in range(10, 20, 2)]
    samples = [
        f'{{"kind": "point-to-point", "source": 0, "destination": 1, "size_bytes": {size}, '
        f'"time_us": {time}, "fastest_us": {time}, "repeat": 3}}'
        for size in sizes
        for time in (10 + size / 1e3, time_us)
    ]
    ranks = '[{"rank": 0, "node": "a"}, {"rank": 1, "node": "b"}]'
    path = tmp_path / "links.json"
    path.write_text(f'{{"ranks": {ranks}, "samples": [{", ".join(samples)}]}}')
    fits = read.links(path).fits
    assert fits["bandwidth_gb_s"].iloc[0] == pytest.approx(1.0)
