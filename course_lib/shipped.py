"""Place of the files that come with the library, such as lessons, pictures and recordings."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# An installed package holds the files inside; in a clone they lie beside the library.
SHIPPED = next(place for place in (_PACKAGE / "course", _PACKAGE.parent) if place.is_dir())
