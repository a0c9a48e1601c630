"""Any common dialect of CSV is read; what is no table is refused in a sentence."""

import json
import zipfile

import pytest

from examples.report.columns import DateColumn, NumberColumn, TextColumn, YesNoColumn, described
from examples.report.decoding import NotATable
from examples.report.table import read_table


def columns_of(text):
    return {column.name: column for column in described(read_table(text.encode()))}


def test_any_encoding_is_read():
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"):
        table = read_table("name,age\nAda,36\nBjörn,41\n".encode(encoding))
        assert (table.names, table.columns) == (["name", "age"], [["Ada", "Björn"], ["36", "41"]]), encoding
    assert read_table("name,n\nAda’s,1\n“B”,2".encode("cp1252")).columns[0] == ["Ada’s", "“B”"]


def test_any_delimiter_and_line_end_is_read_and_one_that_is_declared_is_believed():
    for delimiter, newline in ((",", "\n"), (";", "\r\n"), ("\t", "\r"), ("|", "\n"), (",", "\r")):
        rows = ["city{0}size", "Rome{0}2.8", "Oslo{0}0.7"]
        table = read_table(newline.join(rows).format(delimiter).encode())
        wanted = (["city", "size"], [["Rome", "Oslo"], ["2.8", "0.7"]])
        assert (table.names, table.columns) == wanted, (delimiter, newline)
    assert read_table(b"sep=;\na;b\n1,5;2,5\n").columns == [["1,5"], ["2,5"]]
    quoted = read_table(b'text,n\n"one,\ntwo",1\n"say ""hi""",2\n')
    assert quoted.columns == [["one,\ntwo", 'say "hi"'], ["1", "2"]]


def test_every_column_gets_a_name_of_its_own():
    for content, names, rows in (
        (b"1,Ada,2020-01-01\n2,Bob,2020-01-02\n", ["Column 1", "Column 2", "Column 3"], 2),
        (b"country,2019,2020\nNorway,5,6\n", ["country", "2019", "2020"], 1),
        (b"x,,x,x (2), X\n1,2,3,4,5\n", ["x", "Column 2", "x (2)", "x (2) (2)", "X"], 1),
    ):
        table = read_table(content)
        assert (table.names, table.row_count) == (names, rows), content


def test_what_spreadsheets_leave_behind_and_a_few_uneven_rows_are_left_out():
    table = read_table(b"a,b,,\n1,2,,\n\n3,4,,\n,,,\n,,,\n")
    assert (table.names, table.columns) == (["a", "b"], [["1", "3"], ["2", "4"]])
    rows = "".join(f"{n},x\n" for n in range(200))
    table = read_table(f"n,t\n{rows}1,2,3\n".encode())
    assert (table.row_count, table.left_out) == (200, 1)


def test_what_is_no_table_is_refused_with_the_reason(tmp_path):
    book = tmp_path / "book.xlsx"
    with zipfile.ZipFile(book, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    for content, reason in (
        (b" \r\n\t ", "empty"),
        ("\ufeff".encode(), "empty"),
        (b",,\n,,\n", "only empty cells"),
        (b"a,b\n,\n", "no rows"),
        (b"a,b\nNA,-\n", "only empty cells"),
        (b"%PDF-1.7 \x00\x01", "a PDF"),
        (b"\x89PNG\r\n\x1a\n\x00", "a picture"),
        (book.read_bytes(), "Excel workbook"),
        (bytes(range(256)) * 20, "binary"),
        (b"a,b\n1,2\x00\n", "binary"),
        (b"\xff\xfea\x00,", "damaged"),
        (b"<html><body>1,2</body></html>", "HTML"),
        (json.dumps([{"a": 1}, {"a": 2}]).encode(), "JSON"),
        (b"name,age\n", "no rows"),
        (b"hello", "no rows|running text"),
        (b"Dear Ada, how are you\nI am fine, as you know\nYours, as ever", "running text"),
        (b"Once, twice, and again.\nThen nothing.\nThe end, finally.", "uneven|columns"),
        (b"a,b,c\n1,2\n3,4,5,6\n", "row 2 has 2 values and the first row has 3"),
        (b'a,b\n1,"2\n' + b"x" * 200_000, "quotation mark"),
    ):
        with pytest.raises(NotATable, match=reason):
            read_table(content)
    for text in ("value\n1\n2.5\n3\n", "name\nada\nbob\n", "1\n2\n3"):
        assert len(read_table(text.encode()).columns) == 1, "a single column is a table when it is no prose"


def test_columns_know_what_they_hold():
    text = "id,when,ok,price,zip,note,none\n" + "".join(
        f"{n},2024-01-{n:02},{'yes' if n % 2 else 'no'},{n * 1.5},0{1000 + n},n{n},NA\n" for n in range(1, 21)
    )
    columns = columns_of(text)
    assert {name: column.kind for name, column in columns.items()} == {
        "id": "number", "when": "date", "ok": "yes/no", "price": "number", "zip": "text", "note": "text",
        "none": "empty",
    }  # fmt: skip
    assert columns["id"].label
    assert not columns["price"].label
    assert (columns["none"].count, columns["none"].missing) == (0, 20)
    column = columns_of("ok,k\nTrue,1\nfalse,2\nTrue,3\n,4\n")["ok"]
    assert isinstance(column, YesNoColumn)
    assert (list(column.common), column.missing) == ([("True", 2), ("false", 1)], 1)


def test_numbers_are_read_in_any_notation():
    for cells, numbers in (
        (["1,5", "2,25", "-3"], [1.5, 2.25, -3]),
        (["1.234,5", "2.000,0", "7,1"], [1234.5, 2000, 7.1]),
        (["1,234.5", "2,000.0", "7"], [1234.5, 2000, 7]),
        (["1 234", "12 345", "9"], [1234, 12345, 9]),
        (["1\u202f234,5", "2"], [1234.5, 2]),
        (["$1,200.50", "-$3", "€ 4"], [1200.5, -3, 4]),
        (["12 %", "7%", "0.5 %"], [12, 7, 0.5]),
        (["1e3", "2.5E-2", ".5"], [1000, 0.025, 0.5]),
        (["−4", "+4"], [-4, 4]),
    ):
        column = columns_of("value\tkey\n" + "".join(f"{cell}\tk\n" for cell in cells))["value"]
        assert isinstance(column, NumberColumn), cells
        assert list(column.values) == pytest.approx(numbers), cells


def test_what_only_resembles_numbers_is_text_and_a_few_odd_values_hide_none():
    for cells in (["1e999", "-1e999", "1"], ["inf", "nan", "x"], ["0x10", "1_000", "--"]):
        assert isinstance(columns_of("v,k\n" + "".join(f"{cell},k\n" for cell in cells))["v"], TextColumn), cells
    column = columns_of("v,k\n" + "".join(f"{n},k\n" for n in range(99)) + "about ten,k\n")["v"]
    assert (column.kind, column.count, column.odd, column.maximum) == ("number", 100, 1, 98)


def test_dates_are_read_in_any_common_order():
    for cells, earliest, latest in (
        (["2024-01-31T10:00:00Z", "2024-02-01 11:30"], "2024-01-31", "2024-02-01"),
        (["31.01.2024", "01.02.2024"], "2024-01-31", "2024-02-01"),
        (["31/01/2024", "01/02/2024"], "2024-01-31", "2024-02-01"),
        (["01/31/2024", "02/01/2024"], "2024-01-31", "2024-02-01"),
        (["03/04/2024", "05/06/2024"], "2024-03-04", "2024-05-06"),
        (["3 Apr 2024", "12 May 2024"], "2024-04-03", "2024-05-12"),
        (["April 3, 2024", "May 12, 2024"], "2024-04-03", "2024-05-12"),
        (["2024-03", "2024-04"], "2024-03-01", "2024-04-01"),
    ):
        column = columns_of("when;k\n" + "".join(f'"{cell}";1.5\n' for cell in cells))["when"]
        assert isinstance(column, DateColumn), cells
        assert (column.earliest.isoformat(), column.latest.isoformat()) == (earliest, latest), cells
