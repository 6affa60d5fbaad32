"""A state folder that exists is trusted only if it is the user's own."""

from __future__ import annotations

import os
import stat

import pytest

from course_lib.box import state_folder
from course_lib.box.queue import store


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711, 0o777, 0o1777, 0o700])
def test_our_own_folder_is_made_private(home, mode):
    home.chmod(mode)
    store.connect().close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_new_folder_is_private_whatever_the_umask(tmp_path):
    old = os.umask(0)
    try:
        state_folder.make_private(str(tmp_path / "a" / "b"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def _give_away(path, lacking):
    if os.getuid():
        lacking("only root can make a file of another account")
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize("command", ["squeue", "sbatch --wrap true", "sacct", "scancel 1"])
def test_a_folder_of_another_account_is_refused_and_nothing_in_it_is_read(
    make_box, lacking, command
):
    box = make_box()
    box.run("squeue")
    _give_away(box.home, lacking)
    before = sorted(path.name for path in box.home.iterdir())
    done = box.run(*command.split(), check=False)
    assert done.returncode == 1
    assert "belongs to another account (number 12345)" in done.stderr
    assert "COURSE_BOX_HOME" in done.stderr
    assert sorted(path.name for path in box.home.iterdir()) == before
    os.chown(box.home, 0, 0)


def test_a_file_that_another_account_prepared_is_refused(home, lacking):
    (home / "names-1.so").write_bytes(b"")
    _give_away(home / "names-1.so", lacking)
    home.chmod(0o777)
    for _ in range(2):  # and it stays so
        with pytest.raises(store.NotOurs, match=r"names-1\.so"):
            store.connect()
