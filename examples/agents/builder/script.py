"""What the Builder's worker does without a language model: plans by kind of project, and files made from the brief."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from examples.agents.builder.plans import MOST_FILES, Plan, PlannedFile
from examples.prose import cut, sentences, terms, words

NAMED = re.compile(r"(?<![\w./-])[A-Za-z_][\w-]{0,40}\.(?:html|css|py|md|txt|json)\b")
WEBSITE = re.compile(r"\b(?:web\s?sites?|web\s?pages?|home\s?pages?|sites?)\b", re.IGNORECASE)
PYTHON = re.compile(r"\b(?:python|package|library|module|script|program|tool)\b", re.IGNORECASE)
CONTACT = re.compile(r"\bcontact\b", re.IGNORECASE)
LICENSE = re.compile(r"\blicen[cs]e\b", re.IGNORECASE)
KINDS = frozenset(
    words(
        "build make create website websites page pages site python package library module script program tool small "
        "contact license licence file files project with notes"
    )
)
MOST_SENTENCES = 12


def planned(brief: str) -> Plan:
    """The files that the brief names; otherwise those that such a project has."""
    if named := list(dict.fromkeys(NAMED.findall(brief)))[:MOST_FILES]:
        return Plan(files=[_file(name, f"what the brief says of {name}") for name in named])
    subject = _subject(brief)
    if WEBSITE.search(brief):
        files = [
            _file("index.html", f"the first page about {subject}"),
            _file("about.html", f"more about {subject}"),
            _file("style.css", "how the pages look"),
        ]
        if CONTACT.search(brief):
            asks = "Which e-mail address shall the contact page show?"
            files.append(_file("contact.html", "how to reach you", asks))
    elif PYTHON.search(brief):
        module = _identifier(subject)
        files = [
            _file(f"{module}.py", f"the module for {subject}"),
            _file(f"test_{module}.py", "its tests"),
            _file("README.md", f"what {module} is for"),
        ]
    else:
        files = [
            _file("README.md", f"what this is: {subject}"),
            _file("notes.md", f"what is known of {subject}"),
            _file("checklist.md", "what is to be done"),
        ]
    if LICENSE.search(brief):
        files.append(_file("LICENSE.txt", "who may use it", "Whose name shall stand in the license?"))
    return Plan(files=files)


def written(name: str, purpose: str, question: str, brief: str, files: Sequence[str], answer: str) -> str:
    """The content of a file, by its ending."""
    file = _Facts(name, purpose, _subject(brief), sentences(brief)[:MOST_SENTENCES], files, answer)
    return WRITERS.get(name.rpartition(".")[2], _text)(file)


@dataclass(frozen=True)
class _Facts:
    name: str
    purpose: str
    subject: str
    said: Sequence[str]
    files: Sequence[str]
    answer: str

    @property
    def title(self) -> str:
        return self.subject[:1].upper() + self.subject[1:]


def _html(file: _Facts) -> str:
    links = [f'<a href="{escape(name)}">{escape(name[:-5])}</a>' for name in file.files if name.endswith(".html")]
    style = '\n<link rel="stylesheet" href="style.css">' if "style.css" in file.files else ""
    body = [f"<p>{escape(sentence)}</p>" for sentence in file.said]
    if file.answer:
        body = [f"<p>{escape(file.answer)}</p>"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{escape(file.title)}</title>{style}
</head>
<body>
<nav>{" ".join(links)}</nav>
<h1>{escape(file.title)}</h1>
<!-- {escape(file.purpose).replace("--", "- -")} -->
{"\n".join(body)}
</body>
</html>
"""


def _css(file: _Facts) -> str:
    hue = zlib.crc32(file.subject.encode()) % 360
    return f"""/* {file.purpose.replace("*/", "")}; the colour comes from the subject */
:root {{ --accent: hsl({hue} 60% 35%); }}
body {{ max-width: 40rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.6 system-ui, sans-serif; }}
h1, a {{ color: var(--accent); }}
nav a {{ margin-right: 1rem; }}
"""


def _python(file: _Facts) -> str:
    module = file.name.rpartition("/")[2].removesuffix(".py")
    about = json.dumps(" ".join(file.said), ensure_ascii=False)
    if module.startswith("test_"):
        tested = module.removeprefix("test_")
        return f'''"""Tests of {tested}."""

import {tested}


def test_it_says_what_it_is_about():
    assert {tested}.describe() == {about}
'''
    return f'''"""{cut(file.purpose, 90).replace(chr(92), "/").replace(chr(34), "'")}."""

ABOUT = {about}


def describe() -> str:
    """What this module is about."""
    return ABOUT
'''


def _markdown(file: _Facts) -> str:
    mark = "- [ ] " if file.name.startswith("checklist") else "- "
    todo = [f"{mark}{name}" for name in file.files] if mark != "- " else [f"{mark}{one}" for one in file.said]
    return "\n".join([f"# {file.title}", "", f"{file.purpose[:1].upper()}{file.purpose[1:]}.", "", *todo, ""])


def _json(file: _Facts) -> str:
    return json.dumps({"about": file.subject, "brief": list(file.said), "files": list(file.files)}, indent=2) + "\n"


def _text(file: _Facts) -> str:
    if file.answer:
        return f"{file.title}\n\nCopyright {file.answer}. All rights reserved.\n"
    return "\n".join([file.title, "", *file.said, ""])


WRITERS: dict[str, Callable[[_Facts], str]] = {
    "html": _html,
    "css": _css,
    "py": _python,
    "md": _markdown,
    "json": _json,
}


def _file(name: str, purpose: str, question: str = "") -> PlannedFile:
    return PlannedFile(name=name, purpose=purpose, question=question)


def _subject(brief: str) -> str:
    found = [term for term in terms(NAMED.sub(" ", brief), 12) if term not in KINDS][:2]
    return cut(" and ".join(found) or "this project", 60)


def _identifier(subject: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", subject.split(" and ")[0].lower()).strip("_") or "module"
