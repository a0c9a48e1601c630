"""Common CSV dialects are read; anything else is refused in a sentence."""

import datetime

import pytest

from examples.report.analysis import analyse
from examples.report.tables import NotATable, read_table


def columns_of(text):
    return {column.name: column for column in analyse(read_table(text.encode()), "x.csv").columns}


def test_common_encodings_delimiters_and_line_ends_are_read():
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        table = read_table("name,age\nAda,36\nBjörn,41\n".encode(encoding))
        assert (table.names, table.columns) == (["name", "age"], [["Ada", "Björn"], ["36", "41"]]), encoding
    for delimiter, newline in ((",", "\n"), (";", "\r\n"), ("\t", "\n"), ("|", "\n")):
        rows = ["city{0}size", "Rome{0}2.8", "Oslo{0}0.7"]
        table = read_table(newline.join(rows).format(delimiter).encode())
        assert (table.names, table.columns) == (["city", "size"], [["Rome", "Oslo"], ["2.8", "0.7"]]), delimiter
    quoted = read_table(b'text,n\n"one,\ntwo",1\n"say ""hi""",2\n')
    assert quoted.columns == [["one,\ntwo", 'say "hi"'], ["1", "2"]]


def test_every_column_has_a_name_of_its_own_and_a_few_uneven_rows_are_left_out():
    assert read_table(b"x,,x\n1,2,3\n").names == ["x", "Column 2", "x (3)"]
    rows = "".join(f"{n},x\n" for n in range(200))
    table = read_table(f"n,t\n{rows}1,2,3\n".encode())
    assert (table.row_count, table.left_out) == (200, 1)


def test_what_is_no_table_is_refused_with_the_reason():
    for content, reason in (
        (b" \r\n\t ", "empty"),
        (b",,\n,,\n", "no rows"),
        (b"a,b\nNA,-\n", "only empty cells"),
        (b"%PDF-1.7", "binary"),
        (bytes(range(256)) * 20, "binary|no text"),
        (b"a,b\n1,2\x00\n", "binary"),
        (b"name,age\n", "no rows"),
        (b"hello", "no rows"),
        (b"Dear Ada.\nHow are you today?\nYours.", "running text"),
        (b"a,b,c\n1,2\n3,4,5,6\n", "uneven"),
        (b'a,b\n1,"2\n' + b"x" * 200_000, "quotation mark"),
    ):
        with pytest.raises(NotATable, match=reason):
            read_table(content)
    for text in ("value\n1\n2.5\n3\n", "name\nada\nbob\n"):
        assert len(read_table(text.encode()).columns) == 1, "a single column is a table when it is no prose"


def test_columns_know_what_they_hold():
    text = "id,when,price,zip,note,none\n" + "".join(
        f"{n},2024-01-{n:02},{n * 1.5},0{1000 + n},n{n},NA\n" for n in range(1, 21)
    )
    columns = columns_of(text)
    kinds = {"id": "number", "when": "date", "price": "number", "zip": "text", "note": "text", "none": "empty"}
    assert {name: column.kind for name, column in columns.items()} == kinds
    assert columns["id"].is_label
    assert not columns["price"].is_label
    assert (len(columns["none"].present), columns["none"].missing) == (0, 20)


def test_numbers_and_dates_are_read_in_common_notations():
    for cells, values in (
        (["1,5", "2,25", "-3"], [1.5, 2.25, -3]),
        (["1e3", "2.5E-2", ".5"], [1000, 0.025, 0.5]),
        (["−4", "+4"], [-4, 4]),
        (["2024-01-31T10:00:00Z", "2024-02-01 11:30"], [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)]),
        (["31.01.2024", "01.02.2024"], [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)]),
    ):
        column = columns_of("value\tkey\n" + "".join(f"{cell}\tk\n" for cell in cells))["value"]
        assert list(column.values) == values, cells
    for cells in (["1e999", "-1e999", "1"], ["inf", "nan", "x"], ["0x10", "1_000", "--"], ["007", "012"]):
        assert columns_of("v,k\n" + "".join(f"{cell},k\n" for cell in cells))["v"].kind == "text", cells
    column = columns_of("v,k\n" + "".join(f"{n},k\n" for n in range(99)) + "about ten,k\n")["v"]
    assert (column.kind, len(column.present), column.odd, column.missing) == ("number", 99, 1, 0)
