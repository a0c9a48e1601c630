"""Prompts as files: JSON, Markdown with front matter, a ZIP file of such; and the list that Open WebUI exports."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.text import slugify

from agentkit.content.zips import BadZip, Zip
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import count_act
from apps.optional.prompts import library
from apps.optional.prompts.models import MAX_SLUG, Prompt
from apps.plans.definitions import InvalidYaml, read_yaml, write_yaml
from apps.record.content import strict_json
from apps.record.errors import InvalidFields, InvalidParams, Refusal
from apps.record.events import JSON

MOST_BYTES = 10 * 1024**2  # of a file, and of all in a ZIP file, unpacked
MOST_ENTRIES = 1000  # of a ZIP file, and prompts of a document or of all in a ZIP file
ZIP = b"PK\x03\x04"  # what it begins with
MOST_NAMED = 50  # refused prompts
FRONT_MATTER = re.compile(r"\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n(?:\r?\n)?|\Z)(.*)\Z", re.DOTALL)
FIELDS = ("name", "command", "description", "tags")
MARKDOWN = (".md", ".markdown", ".txt")
UNREAD = "This is no file of prompts: give JSON, Markdown, or a ZIP file of Markdown files."


def document_of(prompts: Iterable[Prompt]) -> JSON:
    """The JSON of prompts: what `read` takes."""
    return {"prompts": [_fields_of(one) | {"text": one.text} for one in prompts]}


def markdown_of(prompt: Prompt) -> str:
    about = {name: value for name, value in _fields_of(prompt).items() if value}
    return f"---\n{write_yaml(about)}---\n\n{prompt.text}"


def zip_of(prompts: Iterable[Prompt]) -> bytes:
    """Markdown files, named after the commands."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in prompts:
            archive.writestr(f"{one.slug}.md", markdown_of(one).encode(errors="replace"))
    return file.getvalue()


def _fields_of(prompt: Prompt) -> JSON:
    return {
        "name": prompt.name,
        "command": prompt.slug,
        "description": prompt.description,
        "tags": prompt.tag_list,
    }


def personal_data(person: User) -> Iterator[tuple[str, str, Any]]:
    """What an archive of the person's data has of this app."""
    prompts = Prompt.objects.filter(owner=person).order_by("created_at", "pk")
    yield "prompts.json", "your prompts, which you can import again", document_of(prompts)


def read(filename: str, content: bytes) -> list[Prompt]:
    """The prompts of a file, which are not checked or saved. Raises InvalidParams."""
    if len(content) > MOST_BYTES:
        raise InvalidParams(f"The file has more than {MOST_BYTES // 1024**2} MB. Split it.", "file")
    try:
        return _read_zip(content) if content.startswith(ZIP) else _read(PurePosixPath(filename), content)
    except (BadZip, InvalidYaml) as problem:
        raise InvalidParams(str(problem), "file") from None
    except UnicodeDecodeError:
        raise InvalidParams("The file is not UTF-8 text.", "file") from None


def _read_zip(content: bytes) -> list[Prompt]:
    archive = Zip(content, MOST_ENTRIES)
    found, left = list[Prompt](), MOST_BYTES
    for name in archive.entries:
        path = PurePosixPath(name)
        if path.suffix.lower() not in (*MARKDOWN, ".json") or path.parts[0] == "__MACOSX":
            continue
        unpacked = archive.read(name, left)
        left -= len(unpacked)
        found += _read(path, unpacked)
        if len(found) > MOST_ENTRIES:
            raise InvalidParams(f"The ZIP file has more than {MOST_ENTRIES:,} prompts. Split it.", "file")
    return found


def _read(path: PurePosixPath, content: bytes) -> list[Prompt]:
    if content.startswith(ZIP):
        raise InvalidParams(f"`{path.name[:100]}` in the ZIP file is a ZIP file. Unpack it first.", "file")
    if path.suffix.lower() in MARKDOWN:
        return [_from_markdown(path.stem, content.decode())]
    try:
        document = strict_json.received(strict_json.parse(content))
    except ValueError as problem:
        raise InvalidParams(f"{UNREAD} {problem}", "file") from None
    found = document.get("prompts") if isinstance(document, dict) else document
    if not isinstance(found, list) or len(found) > MOST_ENTRIES or not all(isinstance(one, dict) for one in found):
        raise InvalidParams(UNREAD, "file")
    return [_from_open_webui(one) if "content" in one else _from_fields(one, one.get("text")) for one in found]


def _from_markdown(stem: str, text: str) -> Prompt:
    found = FRONT_MATTER.match(text)
    about = read_yaml(found[1]) if found else {}
    if not isinstance(about, dict):
        raise InvalidParams(f"{stem}: what stands between --- must be fields, such as name: Summary.", "file")
    return _from_fields({"name": stem, **about}, found[2] if found else text)


def _from_fields(about: JSON, text: Any) -> Prompt:
    """What is not known is left out."""
    known = {name: about.get(name) or "" for name in FIELDS}
    tags = known["tags"] if isinstance(known["tags"], list) else str(known["tags"]).replace(",", " ").split()
    return Prompt(
        name=str(known["name"]).strip() or str(known["command"]),
        slug=slugify(str(known["command"])).replace("_", "-").strip("-")[:MAX_SLUG].rstrip("-"),
        description=str(known["description"]).strip(),
        tags=" ".join(re.sub(r"[^\w-]+", "-", str(one)).strip("-") for one in tags).strip(),
        text=text if isinstance(text, str) else "",
    )


# Open WebUI writes {{name | select:options=["a","b"]:default="a"}}

TYPED = re.compile(r"\{\{([^{}|]++)\|([^{}]*+)\}\}")
KIND = re.compile(r"\w+")
DEFAULT = re.compile(r'default="([^"]*)"')


def _from_open_webui(about: JSON) -> Prompt:
    text = about["content"] if isinstance(about["content"], str) else ""
    named = {"name": about.get("title") or about.get("name") or about.get("command")}
    return _from_fields({**about, **named}, TYPED.sub(_typed, text))


def _typed(found: re.Match[str]) -> str:
    """A variable of Open WebUI in the syntax of `variables`. Those are optional unless they say `required`."""
    name, rest = (one.strip() for one in found.groups())
    if (typed := KIND.match(rest)) is None:
        return found[0]
    kind, given = typed[0], DEFAULT.search(rest)
    choices = _choices(rest) if kind == "select" else []
    takes = ": long text" if kind == "textarea" else f": {' | '.join(choices)}" if len(choices) > 1 else ""
    default = given[1] if given else None if choices or ":required" in rest else ""
    return f"{{{{{name}{takes}{'' if default is None else f' = {default}'}}}}}"


def _choices(rest: str) -> list[str]:
    listed = rest.partition("options=[")[2].partition("]")[0]
    try:
        return [str(one) for one in json.loads(f"[{listed}]")]
    except (ValueError, RecursionError):
        return []


@dataclass(slots=True)
class Imported:
    """What became of a file: `refused` are names, each with a sentence."""

    made: list[Prompt] = field(default_factory=list)
    unchanged: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


def take(principal: Principal, found: Iterable[Prompt]) -> Imported:
    """Save what the caller does not have yet. It counts as one act. Raises QuotaExceeded."""
    count_act(principal)
    result = Imported()
    own = Prompt.objects.filter(**principal.own())
    texts = dict(own.values_list("slug", "text"))
    for prompt in found:
        if prompt.slug and texts.get(prompt.slug) == prompt.text:
            result.unchanged += 1
            continue
        try:
            prompt.clean_fields(exclude=["owner", "workspace"])
            result.made.append(library.save(principal, prompt))
        except ValidationError as problem:
            result.refused.append((prompt.name[:100], str(InvalidFields.of(problem))))
        except Refusal as refusal:
            result.refused.append((prompt.name[:100], str(refusal)))
    return result
