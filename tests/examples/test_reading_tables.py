"""Tables of any common dialect are read, each column as what it holds; anything else is refused in a sentence."""

import contextlib
import datetime
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.report.agent import full_page, short_page
from examples.report.analysis import analyse, describe_column
from examples.report.numbers import Reading
from examples.report.tables import NotATable, read_table

KILOS = b"item;weight;day\nA;1,250;01.02.2026\nB;2,500;02.02.2026\nC;3,750;03.02.2026\n"


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
    assert read_table(b"x,,x\n1,2,3\n").names == ["x", "Column 2", "x (3)"]
    rows = "".join(f"{n},x\n" for n in range(200))
    table = read_table(f"n,t\n{rows}1,2,3\n".encode())
    assert (table.row_count, table.left_out) == (200, 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" \r\n\t ", "empty"),
        (b"%PDF-1.7", "binary"),
        (b"Dear Ada.\nHow are you today?\nYours.", "running text"),
        (b"a,b,c\n1,2\n3,4,5,6\n", "uneven"),
        (b'a,b\n1,"2\n' + b"x" * 200_000, "quotation mark"),
    ],
)
def test_what_is_no_table_is_refused(content, reason):
    with pytest.raises(NotATable, match=reason):
        read_table(content)


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
    column = columns_of("v,k\n" + "".join(f"{n},k\n" for n in range(99)) + "about ten,k\n")["v"]
    assert (column.kind, len(column.present), column.odd, column.missing) == ("number", 99, 1, 0)


DAYS = [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "2,25", "-3"], [1.5, 2.25, -3]),
        (["1e3", "2.5E-2", ".5"], [1000, 0.025, 0.5]),
        (["1 234,5", "12\u202f345,5"], [1234.5, 12345.5]),
        (["1'234.50", "2’000.5"], [1234.5, 2000.5]),
        (["12,5 %", "7,25%"], [12.5, 7.25]),
        (["€ 1.234,50", "3,00 €"], [1234.5, 3]),
        (["(1,234.50)", "5.00-"], [-1234.5, -5]),
        (["12,34,567.50", "1.5"], [1234567.5, 1.5]),
        (["1.234.567", "1.250"], [1234567, 1250]),
        (["2024-01-31T10:00:00Z", "2024-02-01 11:30"], DAYS),
        (["31.01.2024", "01.02.2024"], DAYS),
        (["1e999", "1"], None),
        (["007", "012"], None),
        (["$3", "€3"], None),
    ],
)
def test_common_ways_to_write_numbers_and_dates(cells, values):
    column = columns_of("k\tv\n" + "".join(f"k\t{cell}\n" for cell in cells))["v"]
    assert (column.kind == "text") == (values is None)
    if values:
        assert list(column.values) == values


def test_other_columns_settle_an_open_number():
    for text, values in (
        ("v\tw\n1,250\t1.5\n2,500\t2.5\n", [1250, 2500]),
        ("v\tw\n1,250\t1,5\n2,500\t2,5\n", [1.25, 2.5]),
        ("v;w\n1,25;1.25\n2,5;2.5\n", [1.25, 2.5]),
        (KILOS.decode().replace("weight", "v"), [1.25, 2.5, 3.75]),
    ):
        assert list(columns_of(text)["v"].values) == values, text
    assumed = analyse(read_table(KILOS), "kilos.csv").assumptions
    assert assumed == ["Numbers are read with a comma as decimal sign in “weight”."]
    assert read_table(b"k;v\na;1,250\nb;980\n").open_numbers == {"v": "1,250"}


@given(st.lists(st.floats(-1e9, 1e9).map(lambda value: round(value, 3)), min_size=2, max_size=60))
def test_the_figures_agree_with_the_standard_library(numbers):
    column = describe_column("v", [f"{number:.3f}" for number in numbers], Reading().number)
    lower, median, upper = statistics.quantiles(numbers, n=4, method="inclusive")
    wanted = [min(numbers), lower, median, statistics.fmean(numbers), upper, max(numbers), statistics.stdev(numbers)]
    assert column.summary == pytest.approx(wanted, rel=1e-6, abs=1e-4)


CELLS = st.one_of(
    st.sampled_from(["", "NA", "1", "-1,5", "1.234,5", "$3", "2024-02-30", "01.02.2024", "yes", '"', "007", "1e308"]),
    st.floats().map(str),
    st.text(max_size=8),
)
ROWS = st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=12)
TABLES = st.tuples(ROWS, st.sampled_from([",", ";", "\t"])).map(
    lambda drawn: "\n".join(drawn[1].join(row) for row in drawn[0]).encode(errors="ignore")
)


@given(TABLES | st.binary(max_size=200))
def test_no_content_breaks_reading_or_analysis(content):
    with contextlib.suppress(NotATable):
        analysis = analyse(read_table(content), "x.csv")
        full_page(analysis, None)
        short_page(analysis)
