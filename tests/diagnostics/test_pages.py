from unlazy.diagnostics.pages import item, share, table


def test_columns_are_right_aligned_and_remarks_are_not():
    assert table([("n", "error"), ("10", "0.5"), ("2000", "0.25")]) == [
        "     n  error",
        "    10    0.5",
        "  2000   0.25",
    ]
    assert table([("n", ""), ("10", "far"), ("2000", "")], (5,)) == ["      n", "     10  far", "   2000"]


def test_items_hang_under_their_value():
    first, second = item("error", " ".join(["word"] * 25)).splitlines()
    assert first.startswith("error            word")
    assert len(first) <= 100
    assert second.startswith(" " * 17 + "word")


def test_shares_of_a_variance_say_when_there_is_nothing_left():
    assert [share(value) for value in (1e-9, 0.001, 0.5, 123.4)] == ["<1e-08", "0.001", "0.500", "1.2e+02"]
