"""Files and pages become passages: once, again after a change, and whatever happens in between."""

import datetime

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings

from apps.accounts.audit_models import AuditEntry
from apps.optional.knowledge import indexing, reading, sources
from apps.optional.knowledge.collections import NotEditable
from apps.optional.knowledge.models import Collection, Passage, Source
from apps.record.content import blobs
from apps.record.errors import InvalidFields, InvalidParams
from parley import db, outbound
from parley.db.sql import database_time
from tests.members import member
from tests.remote.card_server import serving

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("each database replaces passages in its own way"),
]
RULES = "# Leave\nThirty days a year.\n# Travel\nBy train.\n"


@pytest.fixture(autouse=True)
def loose_worker(monkeypatch):
    """Work is done by the tests themselves."""
    monkeypatch.setattr(sources, "do_soon", lambda *_: None)


def add(ada, handbook, text=RULES, name="rules.md"):
    return sources.add_file(ada.principal, handbook, {"text": text, "filename": name})


def work(source, *, is_late=False):
    """What a worker does for it, now or at its next time."""
    if is_late:
        now = database_time()
        Source.objects.update(next_try_at=now, lease_until=None, checked_at=now - datetime.timedelta(hours=30))
    async_to_sync(indexing.index)(source.pk)
    source.refresh_from_db()
    return source


def texts(source):
    return list(source.passages.order_by("index").values_list("text", flat=True))


def html(text, etag='"1"', status=200, media_type="text/html; charset=utf-8"):
    return status, {"Content-Type": media_type, "ETag": etag}, text.encode()


@pytest.fixture
def site():
    outbound.configure(["127.0.0.1"])
    with serving() as made:
        made.pages = {"/rules": html("<title>House rules</title><h1>Leave</h1><p>Thirty days.")}
        yield made
    outbound.configure(settings.OUTBOUND_ALLOW)


@pytest.fixture
def page(ada, handbook, site):
    return sources.add_page(ada.principal, handbook, f"{site.url}/rules", watch_hours=24)


def test_file_becomes_passages(ada, handbook):
    source = work(add(ada, handbook))
    assert (source.state, source.passages_count, source.is_whole, source.tries) == ("ready", 2, True, 0)
    assert [(one.heading, one.text) for one in source.passages.order_by("index")] == [
        ("Leave", "# Leave\nThirty days a year."), ("Travel", "# Travel\nBy train."),
    ]  # fmt: skip
    assert blobs.used_bytes(handbook.workspace_id) == len(RULES)


def test_passages_whose_text_stays_keep_their_names(ada, handbook):
    source = work(add(ada, handbook))
    leave, travel = source.passages.order_by("index").values_list("ref", flat=True)
    again = add(ada, handbook, "# Travel\nBy train.\n# House\nQuiet.\n# Leave\nThirty days a year.\n")
    assert again.pk == source.pk
    assert texts(again)[0] == "# Leave\nThirty days a year."  # the old ones until the new ones are there
    work(again)
    refs = list(again.passages.order_by("index").values_list("ref", flat=True))
    assert (refs[0], refs[2]) == (travel, leave)
    assert refs[1] not in (travel, leave)


def test_unchanged_file_is_not_read_again(ada, handbook, monkeypatch):
    source = work(add(ada, handbook))
    add(ada, handbook)
    monkeypatch.setattr(reading, "read", None)
    assert work(source).state == "ready"


def test_damaged_file_says_why_until_asked_again(ada, handbook):
    source = work(add(ada, handbook, "%PDF-1.7 nothing", "a.pdf"))
    assert (source.state, "damaged" in source.error) == ("failed", True)
    assert not Source.objects.unfinished().exists()
    assert sources.reindex(source, ada.principal).state == "waiting"


def test_lost_claim_writes_nothing(ada, handbook, monkeypatch):
    source, read = add(ada, handbook), reading.read

    async def slow(*stated):
        await db.run(Source.objects.update, fence=99)  # another process has claimed it
        return await read(*stated)

    monkeypatch.setattr(reading, "read", slow)
    work(source)
    assert (source.state, Passage.objects.count()) == ("waiting", 0)


def test_death_in_the_middle_doubles_nothing(ada, handbook, monkeypatch):
    source = add(ada, handbook)

    class Died(BaseException):
        pass

    def die(*_, **__):
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(indexing, "_settle", die)
        with pytest.raises(Died):
            work(source)
    assert Passage.objects.count() == 0
    assert work(source).state == "waiting"  # the lease holds
    assert work(source, is_late=True).state == "ready"
    assert len(texts(source)) == 2


def test_many_passages_are_replaced_in_several_writes(ada, handbook, monkeypatch):
    monkeypatch.setattr(indexing, "AT_ONCE", 2)
    numbered = lambda *numbers: "".join(f"# Rule {number}\nQuiet.\n" for number in numbers)  # noqa: E731
    source = work(add(ada, handbook, numbered(*range(7))))
    refs = dict(source.passages.values_list("text", "ref"))
    work(add(ada, handbook, numbered(6, 7, 3, 0, 8, 5)))
    assert texts(source) == [f"# Rule {number}\nQuiet." for number in (6, 7, 3, 0, 8, 5)]
    assert {ref for text, ref in source.passages.values_list("text", "ref") if refs.get(text) == ref} == {
        refs[f"# Rule {number}\nQuiet."] for number in (6, 3, 0, 5)
    }


def test_unexpected_trouble_is_tried_again(ada, handbook, monkeypatch, caplog):
    source = add(ada, handbook)
    with monkeypatch.context() as patched:
        patched.setattr(reading, "read", None)
        work(source)
    assert (source.state, source.lease_until, bool(source.error)) == ("waiting", None, True)
    assert "could not be read" in caplog.text
    assert work(source, is_late=True).state == "ready"


def test_source_that_ends_processes_fails(ada, handbook):
    source = add(ada, handbook)
    Source.objects.update(tries=indexing.MOST_TRIES + 1)
    assert work(source, is_late=True).state == "failed"


def test_page_is_read_and_named_by_its_title(page, site, handbook):
    work(page)
    assert (page.name, page.state, page.media_type) == ("House rules", "ready", "text/html; charset=utf-8")
    assert [(one.heading, one.text) for one in page.passages.all()] == [("Leave", "Leave\n\nThirty days.")]
    assert blobs.used_bytes(handbook.workspace_id) == len(site.pages["/rules"][2])


def test_watched_page_is_asked_whether_it_changed(page, site):
    work(page)
    hours = (page.next_try_at - database_time()) / datetime.timedelta(hours=1)
    assert 21 < hours < 27
    [ref] = page.passages.values_list("ref", flat=True)
    work(page, is_late=True)
    assert list(page.passages.values_list("ref", flat=True)) == [ref]
    site.pages["/rules"] = html("<h1>Leave</h1><p>Forty days.", '"2"')
    work(page, is_late=True)
    assert [headers.get("if-none-match") for _, headers in site.requests] == [None, '"1"', '"1"']
    assert (texts(page), page.name) == (["Leave\n\nForty days."], "House rules")


def test_failing_page_keeps_its_passages(page, site):
    work(page)
    was, site.pages["/rules"] = site.pages["/rules"], html("", '"2"', status=503)
    for tries in range(1, indexing.MOST_TRIES):
        work(page, is_late=True)
        assert (page.state, page.tries, "503" in page.error) == ("ready", tries, True)
        assert page.next_try_at > database_time()
    assert work(page, is_late=True).state == "failed"
    assert texts(page) == ["Leave\n\nThirty days."]
    site.pages["/rules"] = was
    assert work(page, is_late=True).state == "ready"  # the next look


def test_page_that_is_gone_fails_at_once(page, site):
    site.pages.clear()
    assert (work(page).state, "404" in page.error) == ("failed", True)


def test_page_without_text_fails(page, site):
    site.pages["/rules"] = html("", media_type="image/png")
    assert work(page).state == "failed"


def test_redirects_are_followed(ada, handbook, site):
    site.pages["/old"] = 301, {"Location": "/rules"}, b""
    moved = sources.add_page(ada.principal, handbook, f"{site.url}/old")
    assert work(moved).state == "ready"


@pytest.mark.parametrize("answer", [(302, {"Location": "http://["}, b""), (304, {}, b"")])
def test_senseless_answers_are_noted(page, site, answer):
    site.pages["/rules"] = answer
    assert "page" in work(page).error


@pytest.mark.parametrize(
    ("url", "hours"),
    [("ftp://a.example/", None), ("nonsense", None), ("http://10.0.0.1/", None), ("https://a.example/", 0)],
)
def test_wrong_pages_are_refused(ada, handbook, url, hours):
    with pytest.raises(InvalidFields):
        sources.add_page(ada.principal, handbook, url, watch_hours=hours)
    assert not Source.objects.exists()


def test_same_page_is_added_once(ada, handbook, page):
    assert sources.add_page(ada.principal, handbook, page.url).pk == page.pk


def test_empty_file_is_refused(ada, handbook):
    with pytest.raises(InvalidParams):
        add(ada, handbook, "")


def test_collection_has_a_bounded_number_of_sources(ada, handbook, monkeypatch):
    monkeypatch.setattr(sources, "MOST_SOURCES", 1)
    add(ada, handbook)
    add(ada, handbook)  # replaces it
    with pytest.raises(sources.TooManySources):
        add(ada, handbook, name="other.md")


def test_removing_leaves_nothing(ada, handbook, settings):
    settings.UNUSED_FILE_SECONDS = -1
    source = work(add(ada, handbook))
    digest = source.part["stored"]["sha256"]
    sources.remove(source, ada.principal)
    assert not Passage.objects.exists()
    assert not blobs.default_storage.exists(blobs.path_of(digest))
    assert AuditEntry.objects.filter(action="collection.changed").count() == 2


def test_only_editors_change_sources(ada, bob, handbook):
    source = add(ada, handbook)
    Collection.objects.update(is_shared=True)
    shared = Collection.objects.get()
    viewer = member(bob, ada, role="viewer")
    for act in (lambda: sources.remove(source, viewer), lambda: sources.reindex(source, viewer)):
        with pytest.raises(NotEditable):
            act()
    with pytest.raises(NotEditable):
        sources.add_file(viewer, shared, {"text": "x", "filename": "x.txt"})
