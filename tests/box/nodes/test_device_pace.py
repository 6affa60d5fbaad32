"""The rate of a device slot is chosen once for a box, and every process with a device gets it."""

from __future__ import annotations

import pytest

from course_lib.box import devices
from course_lib.box.settings import Settings

FOUR = {"nodes": 2, "devices_per_node": 2, "device_pace": "auto"}


@pytest.fixture
def cores(tmp_path, monkeypatch):
    """`cores(n)` sets the number of cores of a separate box without GPUs."""
    monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(devices, "find", devices.Gpus)

    def there_are(number):
        monkeypatch.setattr(devices, "usable_cores", lambda: float(number))

    there_are(2)
    return there_are


@pytest.mark.parametrize(
    ("slots", "cores", "factor"),
    [(4, 2, 3.0), (4, 1.5, 4.0), (4, 3, 2.0), (4, 4, 1.0), (2, 8, 1.0), (8, 6, 2.0), (0, 2, 1.0)],
)
def test_slots_share_the_cores_with_a_margin_if_cores_are_too_few(slots, cores, factor):
    assert devices.factor_for(slots, cores) == factor


def test_a_choice_stays_when_the_cores_change_and_says_how_to_choose_again(cores, tmp_path):
    assert devices.of_slot(Settings(**FOUR)).factor == 3.0
    assert devices.of_slot(Settings(**FOUR)).why == "4 slots on 2 cores"
    cores(1)
    later = devices.of_slot(Settings(**FOUR))
    kept = tmp_path / "home" / "device_pace.txt"
    assert later.factor == 3.0
    assert later.why == f"4 slots on 2 cores; now 1 core, so remove {kept} to choose again"
    kept.unlink()
    assert devices.of_slot(Settings(**FOUR)).factor == 6.0


def test_gpus_are_as_fast_as_they_are(cores, monkeypatch):
    monkeypatch.setattr(devices, "find", lambda: devices.Gpus(maker="nvidia", names=("0",)))
    assert devices.of_slot(Settings(**FOUR, gpus="share")).factor == 1.0
    few = devices.of_slot(Settings(**FOUR))
    assert few.factor == 3.0
    assert few.unused.startswith(
        "1 GPU for 4 slots, so the slots compute on processors; with gpus = 'share'"
    )
    none = devices.of_slot(Settings(**FOUR, gpus="none"))
    assert (none.factor, none.unused) == (3.0, "")


@pytest.mark.parametrize(
    ("files", "least"),
    [
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        ({"sys/fs/cgroup/a/cpu.max": "max 100000\n", "sys/fs/cgroup/cpu.max": "30000 100000"}, 0.3),
        ({"sys/fs/cgroup/a/b/cpu.max": "20000 100000\n"}, 0.2),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "40000\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 0.4),
    ],
)  # fmt: skip
def test_the_share_of_a_container_counts_as_cores(tmp_path, files, least):
    files = {"proc/self/cgroup": "0::/a/b\n", **files}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert devices.usable_cores(str(tmp_path)) == least


TOLD = "srun bash -c 'echo ${COURSE_DEVICE_PACE:-none}'; echo ${COURSE_DEVICE_PACE:-none}"


@pytest.fixture
def paced(box):
    """The box of all these tests, with a pace for one test."""
    path = box.home / "box.toml"
    before = path.read_text()

    def by(factor):
        path.write_text(before.replace("device_pace = 1", f"device_pace = {factor}"))
        return box

    yield by
    path.write_text(before)


def test_what_has_a_device_is_told_its_pace_unless_the_user_says_another(paced):
    box = paced(3)
    assert box.result(TOLD, "--gpus-per-node=1").split() == ["3", "3"]
    own = box.result(TOLD, "--gpus-per-node=1", "--export=ALL,COURSE_DEVICE_PACE=1")
    assert own.split() == ["1", "1"]
    exported = box.result(f"export COURSE_DEVICE_PACE=2\n{TOLD}", "--gpus-per-node=1")
    assert exported.split() == ["2", "2"]
    assert box.result(TOLD).split() == ["none", "none"]


def test_a_node_says_what_its_slots_are(paced):
    box = paced(1)
    assert "Comment" not in box.run("scontrol", "show", "node").stdout
    paced(2.5)
    told = box.run("scontrol", "show", "node", "node1").stdout
    assert "   Comment=device_pace=2.5 (set in box.toml)\n" in told
