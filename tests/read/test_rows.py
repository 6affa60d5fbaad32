"""Tables of what a reader collected."""

from __future__ import annotations

from course_lib.read.rows import Rows


def test_an_empty_table_has_its_types_and_is_not_shared():
    rows = Rows(["iteration", "loss", "text"], ["iteration"])
    table = rows.table()
    assert list(table.columns) == ["iteration", "loss", "text"]
    assert str(table["iteration"].dtype) == "Int64"
    table["mine"] = 1
    assert "mine" not in rows.table()


def test_numbers_that_are_none_or_too_large_are_unknown():
    rows = Rows(["iteration", "loss"], ["iteration"])
    for iteration, loss in ((1, 2.5), (None, None), (10**400, 10**400), ("x", "y")):
        rows.add(iteration=iteration, loss=loss)
    assert rows.table()["iteration"].isna().tolist() == [False, True, True, True]
