"""Claude's export: messages with blocks of text, thoughts and tools. Artifacts become files."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from apps.optional.transfers.formats.documents import Document, Documents, replaced
from apps.optional.transfers.formats.shape import Context, Said, Skip, Tree, written
from apps.record.events import JSON

NO_MESSAGE = "00000000-0000-4000-8000-000000000000"
TAG = re.compile(r"<(antArtifact|antThinking)\b([^<>]*)>")
ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


def is_one(document: JSON) -> bool:
    return "chat_messages" in document


def read(document: JSON, about: Context) -> Tree:
    listed: list[JSON] = document["chat_messages"]
    messages = {one.get("uuid", number): one for number, one in enumerate(listed)}
    before = dict(zip(messages, [None, *messages], strict=False))
    if any("parent_message_uuid" in one for one in listed):
        before = {key: _parent_of(one, messages) for key, one in messages.items()}
    documents = Documents(about)

    def said(key: Any) -> Said:
        documents.begin(key, before[key])
        return _said(messages[key], documents, about)

    shown = document.get("current_leaf_message_uuid")
    newest = shown if shown in messages else next(reversed(messages), None)
    return Tree(messages, newest, before.__getitem__, said, document.get("created_at"))


def _parent_of(message: JSON, messages: dict[Any, JSON]) -> Any:
    parent = message.get("parent_message_uuid")
    return parent if parent in messages and parent != NO_MESSAGE else None


def _said(message: JSON, artifacts: Documents, about: Context) -> Said:
    said = Said(message["sender"], [], message.get("created_at"))
    blocks = message.get("content") or [{"type": "text", "text": message.get("text") or ""}]
    for block in blocks:
        match block.get("type"):
            case "text" | "voice_note":
                text = block.get("text") or ""
                said.texts.append(_without_artifacts(text, artifacts, said) if said.role == "assistant" else text)
            case "thinking" | "redacted_thinking":
                about.skipped[Skip.REASONING] += 1
            case "tool_use" if block.get("name") == "artifacts":
                _artifact(block["input"], artifacts, said, about)
            case "tool_use" | "tool_result":
                about.skipped[Skip.TOOLS] += not _is_of_artifacts(block)
            case "token_budget" | "flag":
                pass
            case _:
                said.left_out += 1
    for one in message.get("attachments") or []:
        text = one.get("extracted_content")
        name = str(one.get("file_name") or "attachment.txt")
        said.attach(_extracted(name, text) if isinstance(text, str) and text else about.attachment(None))
    given = {one.get("file_name") for one in message.get("attachments") or []}
    for one in [*(message.get("files") or []), *(message.get("files_v2") or [])]:
        if (name := one.get("file_name")) not in given:
            given.add(name)
            said.attach(about.attachment(one.get("file_uuid") or name, name))
    return said


def _is_of_artifacts(block: JSON) -> bool:
    return block.get("name") == "artifacts" or (block.get("type") == "tool_result" and not block.get("content"))


def _extracted(name: str, text: str) -> Any:
    """Of a document, the export has only the text."""
    is_text = name.rpartition(".")[2].lower() not in ("pdf", "docx", "doc", "pptx", "xlsx", "odt", "rtf", "epub")
    return written(name if is_text else f"{name}.txt", "text/plain", text)


def _artifact(asked: JSON, artifacts: Documents, said: Said, about: Context) -> None:
    key = str(asked.get("id") or asked.get("title") or "")
    found = artifacts.open.get(key)
    if asked.get("command") == "update":
        changed = replaced(found, asked.get("old_str") or "", asked.get("new_str") or "") if found else None
        if changed is None:
            about.skipped[Skip.EDITS] += 1
            return
    else:
        text = asked.get("content")
        if not isinstance(text, str):
            about.skipped[Skip.EDITS] += 1
            return
        changed = replace(found, text=text) if found and not asked.get("type") else _document(asked, text)
    artifacts.save(key, changed, said)


def _document(asked: JSON, text: str) -> Document:
    kind = str(asked.get("language") or str(asked.get("type") or "text/markdown").rpartition("/")[2])
    kind = kind.removeprefix("vnd.ant.").partition("+")[0]
    name = str(asked.get("title") or asked.get("id") or asked.get("identifier") or "Artifact")
    return Document(name, kind, text)


def _without_artifacts(text: str, artifacts: Documents, said: Said) -> str:
    """An answer of the time when artifacts, and thoughts about them, stood in the text."""
    kept, place = [], 0
    while found := TAG.search(text, place):
        end = text.find(f"</{found[1]}>", found.end())
        if end < 0:
            break
        if found[1] == "antArtifact":
            asked: JSON = dict(ATTRIBUTE.findall(found[2]))
            key = asked.get("identifier") or asked.get("title") or ""
            artifacts.save(key, _document(asked, text[found.end() : end].strip("\n")), said)
        kept.append(text[place : found.start()])
        place = end + len(f"</{found[1]}>")
    return "".join([*kept, text[place:]])
