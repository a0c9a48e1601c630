"""The Report agent asks, delivers, and changes its report on request."""

import base64

from agentkit import Completed, InputRequired, Message, load_handler, testing
from agentkit.messages import data_part, raw_part, text_part, url_part

REPORT = load_handler("examples.report.agent:Report")
CSV = b"city,size,since\nRome,2.8,2001-01-01\nOslo,0.7,2003-05-01\nBern,,2004-01-01\nRome,2.9,2005-01-01\n"
FORMATS = {
    "PDF": ("report.pdf", "application/pdf"),
    "HTML": ("report.html", "text/html"),
    "Markdown": ("report.md", "text/markdown"),
}


def report(run):
    return run.artifacts[0]


def names_of(run):
    return [artifact.name for artifact in run.artifacts]


def content(artifact):
    (part,) = artifact.parts
    return base64.b64decode(part["raw"]) if "raw" in part else part["text"].encode()


def wire(*parts):
    return {"messageId": "m", "role": "ROLE_USER", "parts": list(parts)}


async def asked_for_the_format(files=None):
    first = await testing.run(REPORT, "make a report", files=files or {"cities.csv": CSV})
    assert isinstance(first.outcome, InputRequired)
    assert first.outcome.slot == "format"
    return first


async def answered(first, reply, **more):
    known = {"slot": first.outcome.slot, "memory": first.memory, "history": [first.task.message]}
    return await testing.run(REPORT, reply, **known, **more)


async def finished(reply):
    first = await asked_for_the_format()
    run = await answered(first, reply)
    return first, run, run.as_reference(first.task.message)


async def test_a_file_without_a_format_leads_to_a_question_and_its_answer_to_the_report():
    first = await asked_for_the_format()
    assert first.said == "Your table has 4 rows and 3 columns. Which format would you like: PDF, HTML or Markdown?"
    assert first.outcome.schema["enum"] == ["PDF", "HTML", "Markdown"]
    assert first.recorder.progress == []
    for name, (file_name, media_type) in FORMATS.items():
        run = await answered(first, wire(data_part({"format": name})))
        delivered, chart = run.artifacts
        assert (delivered.name, delivered.parts[0]["mediaType"]) == (file_name, media_type)
        assert (chart.name, chart.parts[0]["mediaType"]) == ("chart.png", "image/png")
        said = "Your report is ready. The file has 4 rows and 3 columns; 1 value (8.3 %) is missing"
        assert run.said.startswith(said)
        assert run.recorder.progress == [
            "Reading 4 rows…", "Computing statistics…", "Drawing the chart…", f"Writing the {name}…",
        ]  # fmt: skip


async def test_a_format_is_understood_in_words_and_asked_for_again_where_none_is_named():
    first = await asked_for_the_format()
    for reply, name in (
        ("as a web page", "html"),
        ("md", "md"),
        ("I'd say Markdown.", "md"),
        ("not PDF, HTML", "html"),
        (wire(data_part("Markdown")), "md"),
    ):
        assert report(await answered(first, reply)).name == f"report.{name}", reply
    for reply in ("yes", "PDF or HTML", "a spreadsheet", wire(), wire(data_part(["html"]))):
        run = await answered(first, reply)
        assert isinstance(run.outcome, InputRequired), reply
        assert (run.outcome.slot, run.outcome.schema["enum"]) == ("format", ["PDF", "HTML", "Markdown"])
        assert run.said.startswith("I did not find one of the formats in your answer.")


async def test_without_a_usable_file_the_agent_asks_for_one():
    for files, reason in (
        ({}, "Please send a CSV file"),
        ({"empty.csv": b""}, "“empty.csv”. It is empty."),
        ({"letter.txt": b"Dear Ada.\nHow are you today?\nYours."}, "running text"),
    ):
        run = await testing.run(REPORT, "make a report as Markdown", files=files)
        assert isinstance(run.outcome, InputRequired), reason
        assert run.outcome.slot == "file"
        assert reason in run.said
        assert "Please send a CSV file" in run.said
    known = {"slot": "file", "history": [run.task.message]}
    again = await testing.run(REPORT, "here", memory=run.memory, **known)
    assert (again.outcome.slot, again.said.count("Please send")) == ("file", 1)
    good = await testing.run(REPORT, "here", files={"cities.csv": CSV}, memory=again.memory, **known)
    assert report(good).name == "report.md"
    for part in (url_part("https://example.org/x.csv", "x.csv"), {"raw": "%%%", "filename": "x.csv"}):
        run = await testing.run(REPORT, wire(text_part("report"), part))
        assert run.outcome.slot == "file"
        assert "“x.csv”" in run.said


async def test_the_table_is_found_wherever_it_is():
    run = await testing.run(REPORT, "as markdown", files={"photo.png": b"\x89PNG", "cities.csv": CSV})
    assert isinstance(run.outcome, Completed)
    earlier = testing.user_message("look at this", {"cities.csv": CSV})
    run = await testing.run(REPORT, "make a report as markdown", history=[earlier])
    assert b"cities.csv" in content(report(run))
    part = {"stored": {"sha256": "0" * 64, "size": len(CSV), "kind": "raw"}, "filename": "big.csv"}
    run = await testing.run(REPORT, Message.from_wire(wire(text_part("as html"), part), lambda stored: CSV))
    assert report(run).name == "report.html"
    run = await testing.run(REPORT, wire(text_part("as markdown"), raw_part(CSV)))
    assert b"Report on your file" in content(report(run))


async def test_make_it_shorter_is_a_new_shorter_report_of_the_same_name_and_file():
    newer = testing.user_message("another", {"newer.csv": b"x,y\n1,2\n3,4\n"})
    for name in FORMATS:
        _, full, reference = await finished(name)
        run = await testing.run(REPORT, "Make it shorter", references=[reference], history=[newer])
        (short,) = run.artifacts
        assert short.name == report(full).name
        assert short.artifact_id != report(full).artifact_id
        assert len(content(short)) < len(content(report(full)))
        assert run.said.startswith("The short report is ready. The file has 4 rows")
    assert b"Report on cities.csv" in content(short)


async def test_a_short_report_can_be_changed_and_made_long_again():
    first, _, reference = await finished("Markdown")
    history = [first.task.message]
    short = await testing.run(REPORT, "shorter", references=[reference])
    as_html = await testing.run(REPORT, "the same as HTML", references=[short.as_reference()], history=history)
    assert names_of(as_html) == ["report.html"]
    full = await testing.run(REPORT, "the full version again", references=[as_html.as_reference()], history=history)
    assert names_of(full) == ["report.html", "chart.png"]
    said = [*history, testing.user_message("Markdown please")]
    assert names_of(await testing.run(REPORT, "make it shorter", history=said)) == ["report.md"]
