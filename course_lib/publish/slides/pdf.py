"""Print each deck as PDF with an installed browser: chromium or a relative."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Time for the page to load and lay out, by the browser's virtual clock.
READY_MS = 120_000
LIMIT_S = 300
TRIES = 5  # on a busy machine, one empty page may come out before the deck is laid out
PAGE = re.compile(rb"/Type\s*/Page\b")


def print_all(folder: Path) -> Iterator[str]:
    """Print the decks. Yield a line per deck: its file, or the reason for a failure."""
    program = next(filter(None, map(shutil.which, BROWSERS)), "")
    if not program:
        yield "no PDF: chromium is not installed (on Debian and Ubuntu: apt-get install chromium)"
        return
    for page in sorted(folder.glob("part*.html")):
        file = page.with_suffix(".pdf")
        with tempfile.TemporaryDirectory(prefix="course-browser-") as home:
            command = [
                program, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={home}",
                "--no-pdf-header-footer", f"--virtual-time-budget={READY_MS}",
                f"--print-to-pdf={file}", f"{page.as_uri()}?print-pdf",
            ]  # fmt: skip
            if os.geteuid() == 0:
                command.append("--no-sandbox")
            try:
                for _try in range(TRIES):
                    subprocess.run(command, timeout=LIMIT_S, capture_output=True, check=False)
                    if is_whole := file.is_file() and len(PAGE.findall(file.read_bytes())) > 1:
                        break
            except (OSError, subprocess.TimeoutExpired) as error:
                yield f"{file.name} could not be printed: {error}"
                continue
        yield file.name if is_whole else f"{file.name} could not be printed"
