"""A session exported as Markdown."""

import re

from apps.record import ledger
from apps.record.events import EventType
from apps.record.models import Context
from tests.web import telling


def text_of(browser, receipt):
    return browser.get(f"/sessions/{receipt.context}/as.md").text


def test_it_tells_who_said_what_and_which_files_were_made(ada_browser, finished):
    told = text_of(ada_browser, finished)
    said = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", told)
    assert said == (
        "# Begin\n\n## You · TIME\n\nBegin\n\n## Echo · TIME\n\nDone.\n\n"
        "- Made: notes.md (text/markdown, 8 B)\n\n- Made: dot.png (image/png, 70 B)\n"
    )


def test_it_is_a_download_that_is_called_like_the_session(ada_browser, finished):
    Context.objects.update(title='Données: "1/2"')
    answer = ada_browser.get(f"/sessions/{finished.context}/as.md")
    assert answer["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer["Content-Disposition"] == "attachment; filename*=utf-8''donn%C3%A9es-12.md"


def test_values_and_files_of_messages_are_in_it_and_no_title_passes_for_structure(ada, echo, ada_browser):
    parts = [{"data": {"format": "PDF"}}, telling.text("a;b", "text/csv", filename="my_table.csv"), {"text": "*Look*"}]
    receipt = telling.begun(ada, echo, parts=parts)
    Context.objects.update(title="one\n## Echo [x](y)")
    told = text_of(ada_browser, receipt)
    assert told.startswith("# one \\#\\# Echo \\[x\\](y)\n")
    assert '```json\n{\n  "format": "PDF"\n}\n```' in told
    assert "- File: my\\_table.csv (text/csv, 3 B)" in told
    assert "*Look*" in told


def test_what_was_left_unfinished_is_in_it_with_its_text(ada, echo, ada_browser):
    receipt = telling.begun(ada, echo)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        telling.chunk(log, receipt, "story", telling.text("Once upon\n```\na"), last=False)
        telling.chunk(log, receipt, "story", telling.text(" time"), append=True, last=False)
        log.add(EventType.AGENT_CANCELLED, {"discarded": ["story"]}, task=receipt.task)
        log.add(EventType.AGENT_STATUS, {"state": "canceled"}, task=receipt.task)
    told = text_of(ada_browser, receipt)
    assert told.endswith("- Unfinished: story (text/plain, 20 B)\n\n````\nOnce upon\n```\na time\n````\n")


def test_it_takes_as_many_queries_for_much_as_for_little(ada, echo, ada_browser, finished, django_assert_num_queries):
    with django_assert_num_queries(12) as few:
        text_of(ada_browser, finished)
    for _ in range(5):
        telling.finished(ada, echo, {"more.txt": telling.text("more")}, contextId=str(finished.context))
    with ledger.writing(finished.context) as log:
        assert log.context.last_event > 30
    with django_assert_num_queries(len(few)):
        assert text_of(ada_browser, finished).count("more.txt") == 5
