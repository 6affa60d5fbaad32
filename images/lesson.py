"""Draws lesson.png: guess, figure and claims of an executed lesson, as the book shows them.

course run 03 --keep --workspace W && course book --workspace W --out BOOK
python images/lesson.py BOOK
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PAGE = "03_data_parallelism.html"
SECTION = "one-node-against-two"
MARGIN_PX = 12


def main(book: Path) -> None:
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 760, "height": 1000})
        page.goto((book / PAGE).resolve().as_uri())
        section = page.locator(f"#{SECTION}")
        measured = section.locator(".cell", has_text="show.scaling(").first
        first = measured.locator(".cell_output").bounding_box()
        claims = section.locator(".cell", has_text="claim(").first.bounding_box()
        if first is None or claims is None:
            raise SystemExit(f"{PAGE} has no section #{SECTION} with a claim; has lesson 03 run?")
        page.screenshot(
            path=Path(__file__).with_suffix(".png"),
            full_page=True,
            clip={
                "x": first["x"] - MARGIN_PX,
                "y": first["y"],
                "width": first["width"] + 2 * MARGIN_PX,
                "height": claims["y"] + claims["height"] - first["y"],
            },
        )
        browser.close()
    picture = Image.open(Path(__file__).with_suffix(".png"))
    picture.quantize(64).save(Path(__file__).with_suffix(".png"), optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
