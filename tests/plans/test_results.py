"""Templates read the results of steps, which are checked against the plan."""

import base64

from apps.plans.definitions import Check
from apps.plans.run_state import ArtifactResult, StepResult, check_problem, csv_columns

CSV = "molecule,effect\nA,0.5\n"
TABLE = ArtifactResult.of("table", [{"raw": base64.b64encode(CSV.encode()).decode(), "mediaType": "text/csv"}])
HITS = ArtifactResult.of("hits", [{"text": "Two hits."}, {"data": {"hits": [{"name": "A"}, {"name": 2}]}}])
CHART = ArtifactResult.of("chart", [{"raw": "iVBO", "mediaType": "image/png; q=1", "filename": "chart.png"}])


def test_an_artifact_is_read_by_its_parts():
    assert (TABLE.media_type, TABLE.text, TABLE.data) == ("text/csv", CSV, None)
    assert (HITS.media_type, HITS.text, HITS.data["hits"][0]) == ("text/plain", "Two hits.", {"name": "A"})
    assert (CHART.media_type, CHART.text, CHART.data) == ("image/png", "", None)
    assert ArtifactResult.of("odd", [{"raw": "%%%", "mediaType": "text/plain"}]).name == "odd"


def test_a_file_without_a_media_type_is_what_its_name_says():
    raw = base64.b64encode(CSV.encode()).decode()
    named = ArtifactResult.of("table", [{"raw": raw, "filename": "table.csv"}])
    assert (named.media_type, named.text) == ("text/csv", CSV)
    assert check_problem(check(media_type="text/csv", columns=["effect"]), [named]) == ""
    nameless = ArtifactResult.of("table", [{"raw": raw}])
    assert (nameless.media_type, nameless.text) == ("application/octet-stream", "")


def test_a_step_gives_the_first_json_of_its_artifacts():
    step = StepResult.of("look", "done", "Done.", [TABLE, HITS])
    assert step.data == HITS.data
    assert str(step) == "Done."


def check(**fields) -> Check:
    return Check.model_validate(fields)


WANTED = [
    {},
    {"artifact": "table", "media_type": "text/csv", "columns": ["effect", "molecule"]},
    {"artifact": "chart", "media_type": "image/*"},
    {"artifact": "chart", "media_type": "Image/*"},
    {"artifact": "chart", "media_type": "*/*"},
    {"artifact": "hits", "media_type": "application/json"},
    {"artifact": "hits", "schema": {"type": "object", "required": ["hits"]}},
]


def test_what_is_wanted_is_no_problem():
    for wanted in WANTED:
        assert check_problem(check(**wanted), [TABLE, HITS, CHART]) == "", wanted


UNWANTED = [
    ({"artifact": "curve"}, "There is no artifact `curve`; there are `table`, `hits`, `chart`."),
    ({"media_type": "image/png"}, "The artifact `table` is `text/csv`; it has to be `image/png`."),
    ({"artifact": "chart", "media_type": "text/*"}, "The artifact `chart` is `image/png`; it has to be `text/*`."),
    ({"schema": {}}, "The artifact `table` holds no JSON."),
    (
        {
            "artifact": "hits",
            "schema": {"properties": {"hits": {"items": {"properties": {"name": {"type": "string"}}}}}},
        },
        "The artifact `hits`, at `$.hits[1].name`: 2 is not of type 'string'.",
    ),
    (
        {"artifact": "hits", "schema": {"required": ["score"]}},
        "The artifact `hits`, at `$.score`: 'score' is a required property.",
    ),
    ({"columns": ["dose"]}, "The artifact `table` has no column `dose`; it has `molecule`, `effect`."),
    ({"columns": ["dose", "effect", "p"]}, "has no columns `dose`, `p`; it has `molecule`, `effect`."),
    (
        {"artifact": "chart", "columns": ["dose"]},
        "The artifact `chart` is no CSV file; it has to have the columns `dose`.",
    ),
]


def test_what_is_not_what_is_wanted_is_told_in_a_sentence():
    for wanted, sentence in UNWANTED:
        assert check_problem(check(**wanted), [TABLE, HITS, CHART]).endswith(sentence), wanted
    assert check_problem(check(), []) == "There is no artifact."


COLUMNS = [
    ("a,b\n1,2", ["a", "b"]),
    ("\ufeffa;b\r\n1;2", ["a", "b"]),
    ("\n a \tb", ["a", "b"]),
    ('"a, b",c', ["a, b", "c"]),
    ("only", ["only"]),
    ("", []),
]


def test_columns_are_those_of_the_first_line():
    for text, columns in COLUMNS:
        assert csv_columns(text) == columns, text
