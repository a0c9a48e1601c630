"""Any common dialect of CSV is read; what is no table is refused in a sentence."""

import json
import zipfile

import pytest

from apps.showcase.report.columns import DateColumn, NumberColumn, TextColumn, YesNoColumn, described
from apps.showcase.report.decoding import NotATable
from apps.showcase.report.table import read_table

PEOPLE = "name,age\nAda,36\nBjörn,41\n"


def columns_of(text):
    return {column.name: column for column in described(read_table(text.encode()))}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_any_encoding_is_read(encoding):
    table = read_table(PEOPLE.encode(encoding))
    assert table.names == ["name", "age"]
    assert table.columns == [["Ada", "Björn"], ["36", "41"]]


def test_windows_quotes_are_read():
    assert read_table("name,n\nAda’s,1\n“B”,2".encode("cp1252")).columns[0] == ["Ada’s", "“B”"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_any_delimiter_and_line_end_is_read(delimiter, newline):
    rows = ["city{0}size", "Rome{0}2.8", "Oslo{0}0.7"]
    table = read_table(newline.join(rows).format(delimiter).encode())
    assert (table.names, table.columns) == (["city", "size"], [["Rome", "Oslo"], ["2.8", "0.7"]])


def test_a_declared_delimiter_is_believed():
    assert read_table(b"sep=;\na;b\n1,5;2,5\n").columns == [["1,5"], ["2,5"]]


def test_quoted_newlines_and_delimiters_stay_in_their_cells():
    table = read_table(b'text,n\n"one,\ntwo",1\n"say ""hi""",2\n')
    assert table.columns == [["one,\ntwo", 'say "hi"'], ["1", "2"]]


def test_a_file_without_a_header_gets_one():
    table = read_table(b"1,Ada,2020-01-01\n2,Bob,2020-01-02\n")
    assert (table.names, table.row_count) == (["Column 1", "Column 2", "Column 3"], 2)


def test_a_header_may_name_years():
    table = read_table(b"country,2019,2020\nNorway,5,6\n")
    assert (table.names, table.row_count) == (["country", "2019", "2020"], 1)


def test_every_column_gets_a_name_of_its_own():
    table = read_table(b"x,,x,x (2), X\n1,2,3,4,5\n")
    assert table.names == ["x", "Column 2", "x (2)", "x (2) (2)", "X"]


def test_what_spreadsheets_leave_behind_is_taken_away():
    table = read_table(b"a,b,,\n1,2,,\n\n3,4,,\n,,,\n,,,\n")
    assert (table.names, table.columns) == (["a", "b"], [["1", "3"], ["2", "4"]])


def test_a_few_uneven_rows_are_left_out_and_counted():
    rows = "".join(f"{n},x\n" for n in range(200))
    table = read_table(f"n,t\n{rows}1,2,3\n".encode())
    assert (table.row_count, table.left_out) == (200, 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \r\n\t ", "empty"),
        ("\ufeff".encode(), "empty"),
        (b",,\n,,\n", "only empty cells"),
        (b"a,b\n,\n", "no rows"),
        (b"a,b\nNA,-\n", "only empty cells"),
        (b"%PDF-1.7 \x00\x01", "a PDF"),
        (b"\x89PNG\r\n\x1a\n\x00", "a picture"),
        (b"PK\x03\x04" + b"\x00" * 50, "Excel"),
        (bytes(range(256)) * 20, "binary"),
        (b"a,b\n1,2\x00\n", "binary"),
        (b"\xff\xfea\x00,", "damaged"),
        (b"<html><body>1,2</body></html>", "HTML"),
        (json.dumps([{"a": 1}, {"a": 2}]).encode(), "JSON"),
        (b"name,age\n", "no rows"),
        (b"hello", "no rows|running text"),
        (b"It was a dark night.\nThe wind blew.\nNobody came.", "running text"),
        (b"Dear Ada, how are you\nI am fine, as you know\nYours, as ever", "running text"),
        (b"Once, twice, and again.\nThen nothing.\nThe end, finally.", "uneven|columns"),
        (b"a,b,c\n1,2\n3,4,5,6\n", "row 2 has 2 values and the first row has 3"),
        (b'a,b\n1,"2\n' + b"x" * 200_000, "quotation mark"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(content, reason):
    with pytest.raises(NotATable, match=reason):
        read_table(content)


def test_a_workbook_is_recognised(tmp_path):
    path = tmp_path / "book.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(NotATable, match="Excel workbook"):
        read_table(path.read_bytes())


@pytest.mark.parametrize("text", ["value\n1\n2.5\n3\n", "name\nada\nbob\n", "1\n2\n3"])
def test_a_single_column_is_a_table_when_it_is_no_prose(text):
    assert len(read_table(text.encode()).columns) == 1


def test_columns_know_what_they_hold():
    text = "id,when,ok,price,zip,note,none\n" + "".join(
        f"{n},2024-01-{n:02},{'yes' if n % 2 else 'no'},{n * 1.5},0{1000 + n},n{n},NA\n" for n in range(1, 21)
    )
    columns = columns_of(text)
    kinds = {name: column.kind for name, column in columns.items()}
    assert kinds == {
        "id": "number",
        "when": "date",
        "ok": "yes/no",
        "price": "number",
        "zip": "text",
        "note": "text",
        "none": "empty",
    }
    assert columns["id"].label
    assert not columns["price"].label
    assert (columns["none"].count, columns["none"].missing) == (0, 20)


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,5", "2,25", "-3"], [1.5, 2.25, -3]),
        (["1.234,5", "2.000,0", "7,1"], [1234.5, 2000, 7.1]),
        (["1,234.5", "2,000.0", "7"], [1234.5, 2000, 7]),
        (["1 234", "12 345", "9"], [1234, 12345, 9]),
        (["1\u202f234,5", "2"], [1234.5, 2]),
        (["$1,200.50", "-$3", "€ 4"], [1200.5, -3, 4]),
        (["12 %", "7%", "0.5 %"], [12, 7, 0.5]),
        (["1e3", "2.5E-2", ".5"], [1000, 0.025, 0.5]),
        (["−4", "+4"], [-4, 4]),
    ],
)
def test_numbers_are_read_in_any_notation(cells, numbers):
    column = columns_of("value\tkey\n" + "".join(f"{cell}\tk\n" for cell in cells))["value"]
    assert isinstance(column, NumberColumn)
    assert list(column.values) == pytest.approx(numbers)


def test_the_other_columns_tell_what_a_comma_means():
    column = columns_of("a;b\n1,234;0,5\n2,345;1,5\n")["a"]
    assert column.maximum == pytest.approx(2.345)
    column = columns_of('a,b\n"1,234",0.5\n"2,345",1.5\n')["a"]
    assert column.maximum == 2345


@pytest.mark.parametrize("cells", [["1e999", "-1e999", "1"], ["inf", "nan", "x"], ["0x10", "1_000", "--"]])
def test_what_only_resembles_numbers_is_text(cells):
    assert isinstance(columns_of("v,k\n" + "".join(f"{cell},k\n" for cell in cells))["v"], TextColumn)


def test_a_few_odd_values_do_not_hide_the_numbers():
    column = columns_of("v,k\n" + "".join(f"{n},k\n" for n in range(99)) + "about ten,k\n")["v"]
    assert (column.kind, column.count, column.odd, column.maximum) == ("number", 100, 1, 98)


@pytest.mark.parametrize(
    ("cells", "earliest", "latest"),
    [
        (["2024-01-31", "2023-12-01"], "2023-12-01", "2024-01-31"),
        (["2024-01-31T10:00:00Z", "2024-02-01 11:30"], "2024-01-31", "2024-02-01"),
        (["31.01.2024", "01.02.2024"], "2024-01-31", "2024-02-01"),
        (["31/01/2024", "01/02/2024"], "2024-01-31", "2024-02-01"),
        (["01/31/2024", "02/01/2024"], "2024-01-31", "2024-02-01"),
        (["03/04/2024", "05/06/2024"], "2024-03-04", "2024-05-06"),
        (["3 Apr 2024", "12 May 2024"], "2024-04-03", "2024-05-12"),
        (["April 3, 2024", "May 12, 2024"], "2024-04-03", "2024-05-12"),
        (["2024-03", "2024-04"], "2024-03-01", "2024-04-01"),
    ],
)
def test_dates_are_read_in_any_common_order(cells, earliest, latest):
    column = columns_of("when;k\n" + "".join(f'"{cell}";1.5\n' for cell in cells))["when"]
    assert isinstance(column, DateColumn)
    assert (column.earliest.isoformat(), column.latest.isoformat()) == (earliest, latest)


def test_yes_and_no_are_counted():
    column = columns_of("ok,k\nTrue,1\nfalse,2\nTrue,3\n,4\n")["ok"]
    assert isinstance(column, YesNoColumn)
    assert (list(column.common), column.missing) == ([("True", 2), ("false", 1)], 1)
