"""Numbers mean what their file says: by column, with what was assumed said, and a question where it is open."""

import pytest

from agentkit import Completed, InputRequired, load_handler, testing
from examples.report.analysis import analyse
from examples.report.tables import read_table
from examples.research.tables import Unusable, find_upload

REPORT = load_handler("examples.report.agent:Report")
KILOS = b"item;weight;day\nA;1,250;01.02.2026\nB;2,500;02.02.2026\nC;3,750;03.02.2026\n"
OPEN = b"item\tweight\nA\t1,250\nB\t2,500\nC\t3,750\n"


def column_of(text: str, name: str = "v"):
    analysis = analyse(read_table(text.encode()), "x.csv")
    return next(one for one in analysis.columns if one.name == name)


def test_a_decimal_comma_beside_dates_with_points():
    analysis = analyse(read_table(KILOS), "kilos.csv")
    assert list(analysis.columns[1].values) == [1.25, 2.5, 3.75]
    assert analysis.assumptions == ["Numbers are read with a comma as decimal sign in “weight”."]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1.234,50", "1,25"], [1234.5, 1.25]),
        (["1,234.50", "1.25"], [1234.5, 1.25]),
        (["1 234,5", "12\u202f345,5"], [1234.5, 12345.5]),
        (["1'234.50", "2’000.5"], [1234.5, 2000.5]),
        (["12,5 %", "7,25%"], [12.5, 7.25]),
        (["€ 1.234,50", "3,00 €"], [1234.5, 3]),
        (["$1,234.50", "-$3.00"], [1234.5, -3]),
        (["(1,234.50)", "5.00-"], [-1234.5, -5]),
        (["12,34,567.50", "1.5"], [1234567.5, 1.5]),
        (["1.234.567", "1.250"], [1234567, 1250]),
    ],
)
def test_common_ways_to_write_numbers(cells, values):
    column = column_of("k;v;day\n" + "".join(f"k;{cell};01.02.2026\n" for cell in cells))
    assert (column.kind, list(column.values)) == ("number", values)


def test_each_column_has_its_own_decimal_sign():
    text = "v;w\n1,25;1.25\n2,5;2.5\n"
    assert [list(column_of(text, name).values) for name in "vw"] == [[1.25, 2.5], [1.25, 2.5]]


def test_other_columns_settle_an_open_one():
    assert list(column_of("v\tw\n1,250\t1.5\n2,500\t2.5\n").values) == [1250, 2500]
    assert list(column_of("v\tw\n1,250\t1,5\n2,500\t2,5\n").values) == [1.25, 2.5]


def test_units_that_cannot_be_added_are_text():
    assert column_of("k;v\na;$3\nb;€3\n").kind == "text"
    assert column_of("k;v\na;3 %\nb;4\n").kind == "text"


def test_small_integers_beside_an_open_number_ask():
    assert read_table(b"k;v\na;1,250\nb;980\n").open_numbers == {"v": "1,250"}
    assert read_table(b"k;v\na;1.250\nb;2.500\n").open_numbers == {"v": "1.250"}


@pytest.mark.parametrize(("answer", "mean"), [("Comma as decimal sign", "mean 2.5"), ("the point", "mean 2,500")])
async def test_an_open_decimal_sign_is_asked_for(answer, mean):
    first = await testing.run(REPORT, "a short report as Markdown", files={"w.tsv": OPEN})
    assert isinstance(first.outcome, InputRequired)
    assert first.outcome.slot == "decimal"
    known = {"slot": "decimal", "memory": first.memory, "history": [first.task.message]}
    done = await testing.run(REPORT, answer, **known)
    assert isinstance(done.outcome, Completed)
    assert mean in done.artifacts[0].parts[0]["text"]
    again = await testing.run(
        REPORT,
        "as HTML",
        references=[done.as_reference(done.task.message, first.task.message)],
        history=[first.task.message, done.task.message],
    )
    assert isinstance(again.outcome, Completed), "the answer holds for the same file"


async def test_research_reads_numbers_as_the_report_does():
    run = await testing.run(REPORT, "x", files={"w.csv": KILOS})
    assert find_upload(run.task, ["weight"]).numbers("weight") == [1.25, 2.5, 3.75]
    run = await testing.run(REPORT, "x", files={"w.tsv": OPEN})
    with pytest.raises(Unusable, match="1,250"):
        find_upload(run.task, ["weight"]).numbers("weight")
