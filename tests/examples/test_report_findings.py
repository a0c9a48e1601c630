"""A report's numbers and sentences match the file."""

import contextlib
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.report.agent import full_page, short_page
from examples.report.analysis import analyse, describe_column, in_brief
from examples.report.numbers import Reading
from examples.report.tables import NotATable, read_table
from examples.texts import figure, share


@given(st.lists(st.floats(-1e9, 1e9).map(lambda value: round(value, 3)), min_size=2, max_size=60))
def test_the_figures_agree_with_the_standard_library(numbers):
    cells = [f"{number:.3f}" for number in numbers]
    column = describe_column("v", cells, Reading().number)
    lower, median, upper = statistics.quantiles(numbers, n=4, method="inclusive")
    wanted = [min(numbers), lower, median, statistics.fmean(numbers), upper, max(numbers), statistics.stdev(numbers)]
    assert column.summary == pytest.approx(wanted, rel=1e-6, abs=1e-4)


def test_the_findings_and_the_notes_tell_what_is_in_the_file():
    rows = "".join(
        f"{n * 1.5},{n * 2},{'North' if n % 3 else 'South'},2024-01-{n:02},{'' if n == 5 else n}\n"
        for n in range(1, 31)
    )
    analysis = analyse(read_table(f"units,revenue,region,day,left\n{rows}".encode()), "sales.csv")
    said = " ".join(analysis.findings)
    assert analysis.title == "Report on sales.csv"
    assert "30 rows and 5 columns; 1 value (0.7 %) is missing, in “left”." in said
    assert "rise together (correlation 1.00)" in said
    assert "“North” is the most common value of “region” (67 %)." in said
    assert "“day” runs from 2024-01-01 to 2024-01-30 (29 days)." in said
    rows = "".join(f"{n},1\n" for n in range(100))
    notes = " ".join(analyse(read_table(f"n,k\n{rows}ten,1\n1,2,3\n".encode()), "x.csv").notes)
    assert "1 row with too many or too few values left out." in notes
    assert "“n”: 1 value left out that numbers do not fit." in notes


def test_figures_are_short_and_exact_enough():
    for value, text in (
        (0, "0"), (1203.5, "1,203.5"), (0.12345, "0.1235"), (-7.1, "-7.1"), (1234567.8, "1,234,568"),
        (1e15, "1.000e+15"), (1e-9, "1.000e-09"), (float("inf"), "–"), (90.0, "90"), (999.96, "1,000"),
        (0.0001, "0.0001"),
    ):  # fmt: skip
        assert figure(value) == text
    shares = ["0 %", "0.1 %", "1.5 %", "50 %", "more than 99 %", "100 %"]
    assert [share(part, 1000) for part in (0, 1, 15, 500, 999, 1000)] == shares
    assert share(1, 10**6) == "less than 0.1 %"
    column = analyse(read_table(b"year,n\n1999,1\n2024,2\n2003,5\n"), "x.csv").columns[0]
    assert in_brief(column) == "1999 to 2024", "without a comma"


CELLS = st.one_of(
    st.sampled_from(["", "NA", "1", "-1,5", "1.234,5", "$3", "2024-02-30", "01.02.2024", "yes", '"', "007", "1e308"]),
    st.floats().map(str),
    st.text(max_size=8),
)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=12), st.sampled_from([",", ";", "\t"]))
def test_no_table_whatever_breaks_the_analysis(rows, delimiter):
    content = "\n".join(delimiter.join(row) for row in rows).encode(errors="ignore")
    with contextlib.suppress(NotATable):
        analysis = analyse(read_table(content), "x.csv")
        full_page(analysis, None)
        short_page(analysis)


@given(st.binary(max_size=200))
def test_no_bytes_whatever_break_the_reading(content):
    with contextlib.suppress(NotATable):
        analyse(read_table(content), "x.csv")
