"""The Report agent asks what it must, delivers what was asked for, and changes it on request."""

import base64

import pytest

from agentkit import Completed, InputRequired, Message, load_handler, testing
from agentkit.parts import data_part, raw_part, text_part, url_part

REPORT = load_handler("apps.showcase.report.agent:Report")
CSV = b"city,size,since\nRome,2.8,2001-01-01\nOslo,0.7,2003-05-01\nBern,,2004-01-01\nRome,2.9,2005-01-01\n"
FORMATS = {
    "PDF": ("report.pdf", "application/pdf"),
    "HTML": ("report.html", "text/html"),
    "Markdown": ("report.md", "text/markdown"),
}


def report(run):
    return run.artifacts[0]


def content(artifact):
    (part,) = artifact.parts
    return base64.b64decode(part["raw"]) if "raw" in part else part["text"].encode()


async def asked_for_the_format(files=None):
    first = await testing.run(REPORT, "make a report", files=files or {"cities.csv": CSV})
    assert isinstance(first.outcome, InputRequired)
    assert first.outcome.slot == "format"
    return first


async def answered(first, reply, **more):
    return await testing.run(
        REPORT, reply, slot=first.outcome.slot, memory=first.memory, history=[first.task.message], **more
    )


async def test_a_file_without_a_format_leads_to_a_question():
    first = await asked_for_the_format()
    assert first.said == "Your table has 4 rows and 3 columns. Which format would you like: PDF, HTML or Markdown?"
    assert first.outcome.schema["enum"] == ["PDF", "HTML", "Markdown"]
    assert first.recorder.progress == []


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        ("PDF", "PDF"), ("pdf please!", "PDF"), ("as a web page", "HTML"), ("html", "HTML"), ("md", "Markdown"),
        ("I'd say Markdown.", "Markdown"), ("not PDF, HTML", "HTML"),
        ([data_part({"format": "PDF"})], "PDF"), ([data_part("Markdown")], "Markdown"), ([data_part(["html"])], None),
    ],
)  # fmt: skip
async def test_the_answer_is_understood_and_the_report_delivered(reply, name):
    first = await asked_for_the_format()
    if isinstance(reply, list):
        reply = {"messageId": "reply", "role": "ROLE_USER", "parts": reply}
    run = await answered(first, reply)
    if name is None:
        assert isinstance(run.outcome, InputRequired)
        return
    file_name, media_type = FORMATS[name]
    delivered, chart = run.artifacts
    assert (delivered.name, delivered.parts[0]["mediaType"]) == (file_name, media_type)
    assert (chart.name, chart.parts[0]["mediaType"]) == ("chart.png", "image/png")
    assert run.said.startswith("Your report is ready. The file has 4 rows and 3 columns; 1 value (8.3 %) is missing")
    assert run.recorder.progress == [
        "Reading 4 rows…", "Computing statistics…", "Drawing the chart…", f"Writing the {name}…",
    ]  # fmt: skip


@pytest.mark.parametrize("reply", ["yes", "PDF or HTML", "a spreadsheet", ""])
async def test_an_answer_that_names_no_format_is_asked_again(reply):
    run = await answered(await asked_for_the_format(), reply or {"messageId": "m", "role": "ROLE_USER", "parts": []})
    assert isinstance(run.outcome, InputRequired)
    assert (run.outcome.slot, run.outcome.schema["enum"]) == ("format", ["PDF", "HTML", "Markdown"])
    assert run.said.startswith("I did not find one of the formats in your answer.")


async def test_a_format_that_is_named_at_once_is_taken():
    run = await testing.run(REPORT, "a report as HTML, please", files={"cities.csv": CSV})
    assert report(run).name == "report.html"
    assert b"Rome" in content(report(run))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "Please send a CSV file"),
        ({"empty.csv": b""}, "“empty.csv”. It is empty."),
        ({"photo.csv": b"\x89PNG\r\n\x1a\n"}, "It is a picture"),
        ({"letter.txt": b"Dear Ada.\nHow are you today?\nYours."}, "running text"),
        ({"ragged.csv": b"a,b,c\n1,2\n3\n"}, "uneven"),
    ],
)
async def test_without_a_usable_file_the_agent_asks_for_one(files, reason):
    run = await testing.run(REPORT, "make a report as PDF", files=files)
    assert isinstance(run.outcome, InputRequired)
    assert run.outcome.slot == "file"
    assert reason in run.said
    assert "Please send a CSV file" in run.said
    again = await testing.run(REPORT, "here", slot="file", memory=run.memory, history=[run.task.message])
    assert (again.outcome.slot, again.said.count("Please send")) == ("file", 1)
    good = await testing.run(
        REPORT, "here", files={"cities.csv": CSV}, slot="file", memory=again.memory, history=[run.task.message]
    )
    assert report(good).name == "report.pdf"  # the format was said in the beginning


async def test_a_link_or_a_damaged_file_is_asked_for_again():
    for part in (url_part("https://example.org/x.csv", "x.csv"), {"raw": "%%%", "filename": "x.csv"}):
        run = await testing.run(REPORT, {"messageId": "m", "role": "ROLE_USER", "parts": [text_part("report"), part]})
        assert run.outcome.slot == "file"
        assert "“x.csv”" in run.said


async def test_the_table_is_found_among_other_files():
    run = await testing.run(REPORT, "PDF", files={"photo.png": b"\x89PNG", "cities.csv": CSV})
    assert isinstance(run.outcome, Completed)


async def test_a_file_that_was_sent_earlier_in_the_conversation_is_used():
    earlier = testing.user_message("look at this", {"cities.csv": CSV})
    run = await testing.run(REPORT, "make a report as markdown", history=[earlier])
    assert b"cities.csv" in content(report(run))


async def test_a_file_that_the_platform_stored_is_read_through_its_loader():
    part = {"stored": {"sha256": "0" * 64, "size": len(CSV), "kind": "raw"}, "filename": "big.csv"}
    wire = {"messageId": "m", "role": "ROLE_USER", "parts": [text_part("as html"), part]}
    run = await testing.run(REPORT, Message.from_wire(wire, lambda stored: CSV))
    assert report(run).name == "report.html"


async def test_the_file_of_the_question_stays_the_file_of_the_answer():
    first = await asked_for_the_format({"first.csv": CSV})
    assert first.memory == {"source": {"message": first.task.message.id, "name": "first.csv"}}
    other = testing.user_message("something else", {"other.csv": b"x,y\n1,2\n"})
    run = await testing.run(REPORT, "Markdown", slot="format", memory=first.memory, history=[first.task.message, other])
    assert b"Report on first.csv" in content(report(run))


async def finished(reply="PDF"):
    first = await asked_for_the_format()
    run = await answered(first, reply)
    return first, run, run.as_reference(first.task.message)


@pytest.mark.parametrize("name", FORMATS)
async def test_make_it_shorter_is_a_new_shorter_report_of_the_same_name(name):
    _, full, reference = await finished(name)
    run = await testing.run(REPORT, "Make it shorter", references=[reference])
    (short,) = run.artifacts
    assert short.name == report(full).name
    assert short.artifact_id != report(full).artifact_id
    assert len(content(short)) < len(content(report(full)))
    assert run.said.startswith("The short report is ready. The file has 4 rows")


async def test_a_short_report_can_be_changed_and_made_long_again():
    first, _, reference = await finished()
    short = await testing.run(REPORT, "shorter", references=[reference])
    as_html = await testing.run(
        REPORT, "the same as HTML", references=[short.as_reference()], history=[first.task.message]
    )
    assert [artifact.name for artifact in as_html.artifacts] == ["report.html"]
    full = await testing.run(
        REPORT, "the full version again", references=[as_html.as_reference()], history=[first.task.message]
    )
    assert [artifact.name for artifact in full.artifacts] == ["report.html", "chart.png"]


async def test_shorter_without_a_reference_goes_by_the_conversation():
    first = await asked_for_the_format()
    history = [first.task.message, testing.user_message("Markdown please")]
    run = await testing.run(REPORT, "make it shorter", history=history)
    assert [artifact.name for artifact in run.artifacts] == ["report.md"]


async def test_a_new_file_starts_over():
    first, _, _ = await finished()
    run = await testing.run(
        REPORT, "and this one, short", files={"new.csv": CSV}, history=[first.task.message, testing.user_message("PDF")]
    )
    assert run.outcome.slot == "format"
    assert run.memory["length"] == "short"
    done = await answered(run, "html")
    assert [artifact.name for artifact in done.artifacts] == ["report.html"]


async def test_a_reference_points_to_its_own_file():
    _, _, reference = await finished("Markdown")
    newer = testing.user_message("another", {"newer.csv": b"x,y\n1,2\n3,4\n"})
    run = await testing.run(REPORT, "shorter", references=[reference], history=[newer])
    assert b"Report on cities.csv" in content(report(run))


async def test_a_file_without_a_name_is_reported_on_too():
    wire = {"messageId": "m", "role": "ROLE_USER", "parts": [text_part("as markdown"), raw_part(CSV)]}
    run = await testing.run(REPORT, wire)
    assert b"Report on your file" in content(report(run))


def test_memory_holds_small_values_only_and_the_card_says_what_it_takes():
    assert "*/*" in REPORT.input_modes
    assert REPORT.retry_safe
    assert REPORT.skills[0].wire["outputModes"] == ["application/pdf", "text/html", "text/markdown", "image/png"]
