"""Templates read inputs and results, name what is missing, and always end soon; results are checked by the plan."""

import base64
import json
import tracemalloc
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.plans.definitions import Check
from apps.plans.running.run_state import ArtifactResult, StepResult, check_problem, csv_columns
from parley.templating import TemplateProblem, TimeBudget, evaluate, references_of, render
from parley.templating.language import LARGEST, LONGEST_SOURCE

REVIEW = ArtifactResult.of("review", [{"data": {"count": 3, "items": ["a", "b"], "none": None, "_id": 7}}])
NAMES = {
    "inputs": {"text": "aspirin", "files": [], "dose": 5},
    "steps": {
        "review": StepResult.of("review", "done", "I read three papers.", [REVIEW]),
        "tries": [StepResult.of("tries", "done", f"try {number}", []) for number in range(3)],
    },
}


def problem(source: str, read=render) -> str:
    try:
        made = read(source, NAMES)
    except TemplateProblem as said:
        return str(said)
    pytest.fail(f"{source[:200]} gives {str(made)[:200]}")


READ = [
    ("Look at {{ inputs.text }} ({{ inputs.dose }} mg).", "Look at aspirin (5 mg)."),
    ("{{ steps.review }} {{ steps.review.data.count + 1 }}", "I read three papers. 4"),
    ("{{ steps.review.data.items|join(', ') }}", "a, b"),
    ("{{ steps.review.data.items }} {{ true }}{{ none }}", '["a", "b"] true'),
    ("{{ steps.review.data['_id'] }}", "7"),
    ("{{ steps.review.artifacts[0].name }}", "review"),
    ("{{ steps.tries|map(attribute='text')|join(' ~ ') }}", "try 0 ~ try 1 ~ try 2"),
    ("{% for try in steps.tries %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/3 2/3 3/3 "),
    ("{% if steps.review.data.none is none %}nothing{% endif %}", "nothing"),
    ("{{ steps.later|default('not yet') }}", "not yet"),
    ("{% set many = inputs.dose > 3 %}{{ 'many' if many else 'few' }}", "many"),
    ("{{ inputs.text.upper() ~ '!' }} {{ 'a,b'.split(',')|last }}", "ASPIRIN! b"),
    ("{{ {'b': [1, {'c': none}]}|tojson }}", '{"b": [1, {"c": null}]}'),
    ("{{ range(3)|sum }} {{ 3.14159|round(2) }} {{ 'aba'|replace('a', 'c') }}", "3 3.14 cbc"),
]


def test_a_template_reads_what_it_is_given():
    for source, text in READ:
        assert render(source, NAMES) == text, source


NOT_THERE = [
    ("{{ steps.x.text }}", "There is no step `x` before this one."),
    ("{{ inputs.y }}", "`inputs` has no `y`; it has `text`, `files`, `dose`."),
    ("{{ steps.review.data.size }}", "`steps.review.data` has no `size`; it has `count`, `items`, `none`, `_id`."),
    ("{{ steps.review.data.none.x }}", "`steps.review.data.none` is empty (null), so there is no `x` in it."),
    ("{{ steps.review.texts }}", "`steps.review` has no `texts`; it has `key`, `state`, `text`, `data`, `artifacts`."),
    ("{{ steps.tries.text }}", "`steps.tries` is a list of 3, without `text`."),
    ("{{ steps.tries[3].text }}", "`steps.tries` is a list of 3, so there is no `3` in it."),
    ("{{ inputs.dose.unit }}", "`inputs.dose` has no `unit`."),
    ("{{ item }}", "There is no `item` here; there are `inputs`, `steps`."),
    ("{{ []|first }}", "No first item, sequence was empty."),
    ("{{ 'dose: ' + inputs.dose }}", "It cannot be worked out: can only concatenate str"),
    ("{{ 1 / 0 }}", "It cannot be worked out: division by zero."),
    ("a\n{{ 1", "It cannot be read (line 2): "),
    ("{{ inputs.text|explode }}", "There is no filter `explode`; there are abs, "),
    ("{{ 1 is odder }}", "There is no test `odder`."),
]


def test_a_missing_name_is_told_with_others():
    for source, sentence in NOT_THERE:
        assert sentence in problem(source), source
    assert problem("steps.x", evaluate) == "There is no step `x` before this one."
    assert problem("[steps.review.data.size]", evaluate).startswith("`steps.review.data` has no `size`")
    assert problem("1 2", evaluate) == "It cannot be read: something is left after the end of the expression."
    assert problem("range", evaluate).startswith("It cannot be worked out")


ELSEWHERE = [
    "{{ ''.__class__ }}",
    "{{ steps.review.__class__ }}",
    "{{ [steps.review]|map(attribute='__class__')|list }}",
    "{{ steps.review.of('x', 'done', '', []) }}",
    "{{ inputs.pop('dose') }}",
    "{{ steps.tries.append(1) }}",
    "{{ ''|attr('__class__') }}",
    "{{ self._TemplateReference__context }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ lipsum() }}",
    "{{ range.__self__ }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{% include 'x' %}",
    "{% import 'x' as x %}",
    "{% macro x() %}{{ x() }}{% endmacro %}{{ x() }}",
    "{% set steps = 1 %}",
    "{% for item in [1] %}{% endfor %}",
]


def test_a_template_reaches_nothing_else():
    for source in ELSEWHERE:
        assert problem(source)
        assert NAMES["inputs"]["dose"] == 5, source


DOUBLED = 60
BOMBS = [
    "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "{% for i in range(9999) %}" + "x" * 100 + "{% endfor %}",
    "{{ 'x' * 10**9 }}",
    "{{ 1|round(-1000000000) }}",
    "{{ {'a': 1}|tojson(1000000000) }}",
    "{% set a = 'x' %}" + "{% set a = a ~ a %}" * DOUBLED + "{{ a }}",
    "{% set a = 'x' %}" + "{% set a = [a, a]|join %}" * DOUBLED + "{{ a }}",
    "{% set a = [1, 2] %}" + "{% set a = a + a %}" * DOUBLED + "{{ a }}",
    "{% set a = [1, 2] %}" + "{% set a = [a, a] %}" * DOUBLED + "{{ a }}",
    "{% set a = (1, 2) %}{% set b = (1, 2) %}" + "{% set a = a, a %}{% set b = b, b %}" * DOUBLED + "{{ a == b }}",
    "{% set a = 1 %}" + "{% set a = range(9999)|map(attribute='q', default=a)|list %}" * 9 + "{{ a == 1 }}",
    "{{ " + "-" * 5000 + "1 }}",
    "{{ " + "[" * 3000 + "]" * 3000 + " }}",
    "{% if 1 %}" * 300 + "{% endif %}" * 300,
    "{% for a in [1] %}" * 50 + "{% endfor %}" * 50,
    "{{ 1e999 }}",
    "{% set k = range(9999)|join('-') %}{{ [" + "{k: 1}, " * 400 + "]|tojson|length }}",
    "{% set k = range(9999)|join('-') %}{{ [" + "{(k,): 1}, " * 400 + "]|length }}",
    "{% set k = range(9999)|join('-') %}" + "".join(f"{{% set a{n} = k ~ k %}}" for n in range(1200)),
    "{% set k = range(9999)|join('-') %}{% set k = k ~ k %}"
    + "".join(f"{{% set a{n} = k.upper() %}}" for n in range(1100)),
]


def test_an_endless_or_growing_template_is_stopped():
    for source in BOMBS:
        assert problem(source)


def test_texts_have_a_largest_size():
    assert len(render("x" * LONGEST_SOURCE, {})) == LONGEST_SOURCE
    assert "longer than 50,000 characters" in problem("x" * (LONGEST_SOURCE + 1))
    assert render("{{ a }}", {"a": "x" * LARGEST}) == "x" * LARGEST
    with pytest.raises(TemplateProblem, match="more than 200,000 bytes"):
        render("{{ a }}é", {"a": "x" * (LARGEST - 1)})
    # slices are counted with what is made
    copies = "".join(f"{{% set a{n} = a[{n + 1}:] %}}" for n in range(120))
    with pytest.raises(TemplateProblem, match="puts together more than 10,000,000 characters"):
        render(copies, {"a": "x" * 1_000_000})
    assert render("{{ a[1:] }} {{ [1, 2, 3][:2] }} {{ range(9)[7:]|list }}", {"a": "xyz"}) == "yz [1, 2] [7, 8]"
    assert evaluate("a[0][1:]", {"a": ["xyz"]}) == "yz"


GROWING = "range(9999)|map(attribute='q', default=range(9999)|list)"


def test_a_growing_value_is_stopped():
    assert problem(GROWING, partial(evaluate, shared=TimeBudget(running=0.05))) == "It takes longer than 0.1 s."
    tracemalloc.start()
    try:
        for source in (f"{GROWING}|list|tojson", "[" * 20 + "range(9999)|list" + "]" * 20 + "|tojson(8)"):
            said = problem(source, evaluate)  # a slow machine reaches the time limit first
            assert "puts together more than 1,000,000 characters" in said or "takes longer than 2 s" in said
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_a_templates_references_are_known():
    spoken = references_of("{{ steps.a.text }} {{ steps['b'] }} {% for x in inputs.c %}{{ x }}{{ item }}{% endfor %}")
    assert (spoken.steps, spoken.inputs, spoken.is_open_ended) == ({"a", "b"}, {"c"}, False)
    assert spoken.names == {"steps", "inputs", "item"}
    assert references_of("steps.a.data.steps.b", is_expression=True).steps == {"a"}
    assert references_of("steps[item]", is_expression=True).is_open_ended
    with pytest.raises(TemplateProblem):
        references_of("{{ 1")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_goes_through_a_template_unchanged(data):
    names = {"inputs": {"given": data}}
    assert evaluate("inputs.given", names) == data
    assert json.loads(render("{{ inputs.given|tojson }}", names)) == data


WORDS = "steps inputs . review __class__ mro() [ ] ( ) ' | map range 10**9 ~ * {% %} for in endfor set = {{ }} join ,"
PIECES = st.sampled_from([*WORDS.split(), "data", "x", "attr", "tojson", "items"])


@given(st.lists(PIECES, max_size=25))
def test_any_source_gives_text_or_a_sentence(source):
    said = [outcome(read, " ".join(source)) for read in (render, evaluate)]
    assert all(one is None or one.endswith(".") for one in said)


def outcome(read, source: str) -> str | None:
    try:
        read(source, NAMES)
    except TemplateProblem as problem:
        return str(problem)
    return None


# The results of steps

CSV = "molecule,effect\nA,0.5\n"
TABLE = ArtifactResult.of("table", [{"raw": base64.b64encode(CSV.encode()).decode(), "mediaType": "text/csv"}])
HITS = ArtifactResult.of("hits", [{"text": "Two hits."}, {"data": {"hits": [{"name": "A"}, {"name": 2}]}}])
CHART = ArtifactResult.of("chart", [{"raw": "iVBO", "mediaType": "image/png; q=1", "filename": "chart.png"}])


def test_an_artifact_is_read_by_its_parts():
    assert (TABLE.media_type, TABLE.text, TABLE.data) == ("text/csv", CSV, None)
    assert (HITS.media_type, HITS.text, HITS.data["hits"][0]) == ("text/plain", "Two hits.", {"name": "A"})
    assert (CHART.media_type, CHART.text, CHART.data) == ("image/png", "", None)
    assert ArtifactResult.of("odd", [{"raw": "%%%", "mediaType": "text/plain"}]).name == "odd"
    step = StepResult.of("look", "done", "Done.", [TABLE, HITS])
    assert (step.data, str(step)) == (HITS.data, "Done."), "the first JSON of its artifacts"


def check(**fields) -> Check:
    return Check.model_validate(fields)


WANTED = [
    {},
    {"artifact": "table", "media_type": "text/csv", "columns": ["effect", "molecule"]},
    {"artifact": "chart", "media_type": "image/*"},
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


def test_an_unwanted_result_is_told_in_a_sentence():
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
