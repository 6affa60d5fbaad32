"""The server behind the link is private and supervised, and shows the folder of the last
request."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import gpu_trace
import psutil
import pytest
from board import PATIENCE_S, jupyter, wait_until

from course_lib.lab.jupyter.private_server import open_server
from course_lib.lab.tensorboard import Link, proxy_entry, tensorboard


def test_the_socket_is_for_its_owner_alone(tmp_path):
    tmp_path.chmod(0o700)
    before = os.umask(0)
    try:
        server = open_server(str(tmp_path / "socket"), None)
        server.server_close()
        assert (tmp_path / "socket").stat().st_mode & 0o077 == 0
    finally:
        os.umask(before)


def test_outside_of_jupyter_the_link_says_where_to_find_it(monkeypatch):
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    link = tensorboard()
    assert link == Link("")
    assert list(link._repr_mimebundle_()) == ["text/plain"]
    assert "JupyterLab" in repr(link)


def test_under_jupyterhub_the_link_has_the_hubs_prefix(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/한 a/")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    link = tensorboard("profiler")
    assert link.url == "/user/%ED%95%9C%20a/tensorboard/#pytorch_profiler"


def test_the_scalars_open_with_the_loss_in_front(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/a/")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    address = urlsplit(tensorboard("scalars").url)
    assert (address.path, address.fragment) == ("/user/a/tensorboard/", "timeseries")
    [pinned] = json.loads(parse_qs(address.query)["pinnedCards"][0])
    assert pinned == {"plugin": "scalars", "tag": "lm loss"}


def test_an_unknown_tab_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="use one of scalars, profiler"):
        tensorboard("profile")


def test_the_command_survives_templates_and_its_icon_exists():
    entry = proxy_entry()
    command = entry["command"]("/x/socket")
    assert command[1:3] == ["-m", "course_lib.lab.tensorboard"]
    assert [part.format(port=0, unix_socket="", base_url="") for part in command]
    assert Path(entry["launcher_entry"]["icon_path"]).read_text().startswith("<svg")
    assert entry["unix_socket"] is True


def test_without_webcomponents_the_trace_view_explains_itself(monkeypatch, tmp_path):
    from course_lib.lab.tensorboard import plugin

    monkeypatch.setenv("COURSE_WEBCOMPONENTS", str(tmp_path))
    assert b"show.timeline" in plugin._static("trace_embedding.html")


@pytest.mark.parametrize("name", ["index.html", "trace_embedding.html"])
def test_no_page_of_the_tab_loads_a_script_from_the_web(name):
    from course_lib.lab.tensorboard import plugin

    assert b'src="http' not in plugin._static(name)
    assert b'src="http' in (plugin.STATIC / name).read_bytes()  # or this mends nothing


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_listens_on_the_network_and_nothing_outlives_the_jupyter_server(tmp_path):
    first = tmp_path / "runs" / "first-1" / "profile" / "rank0.1.pt.trace.json.gz"
    gpu_trace.write(first, 0, 1)
    with jupyter(tmp_path) as server:
        plugin = f"{server.url}tensorboard/data/plugin/pytorch_profiler/runs?token=secret"
        wait_until(lambda: _runs(plugin) == ["first-1/profile"])
        started = server.started("tensorboard")
        assert started
        kinds = [c for one in started for c in one.net_connections("inet") if c.status == "LISTEN"]
        assert kinds == []
        sockets = {c.laddr for one in started for c in one.net_connections("unix") if c.laddr}
        folders = {Path(path).parent for path in sockets if str(path).startswith("/")}
        assert folders
        assert {folder.stat().st_mode & 0o077 for folder in folders} == {0}

        late = tmp_path / "runs" / "late-2" / "profile"
        late.mkdir(parents=True)
        shutil.copy(first, late)
        wait_until(lambda: _runs(plugin) == ["first-1/profile", "late-2/profile"])

        server.process.kill()  # no chance to tidy up
        _, left = psutil.wait_procs(started, timeout=PATIENCE_S)
        assert left == []


def _runs(url: str) -> list[str]:
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=60) as answer:
            facts = json.load(answer)
    except OSError:  # 503 while it loads, nothing at all on a machine that is busy
        return []
    return [] if facts["loading"] else facts["runs"]


def test_the_lab_links_to_its_own_runs(lab, monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/x/")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("JPY_PARENT_PID", "4711")
    assert lab.tensorboard("profiler").url == "/user/x/tensorboard/#pytorch_profiler"
