"""Open WebUI's exported chats: a tree of messages, whose reasoning and calls of tools stand in the answers as HTML."""

from __future__ import annotations

import re
from typing import Any

from apps.optional.transfers.formats.citations import Sources
from apps.optional.transfers.formats.shape import Context, Said, Skip, Tree, tree_of_list
from apps.record.events import JSON

DETAILS = re.compile(r'<details type="(reasoning|tool_calls|code_interpreter)"')
END_OF_DETAILS = "</details>"
CITED = re.compile(r"\[(\d{1,3})\](?![(\[])")


def is_one(document: JSON) -> bool:
    return isinstance(document.get("chat"), dict)


def read(document: JSON, about: Context) -> Tree:
    chat, began = document["chat"], document.get("created_at")
    history = chat.get("history") or {}
    newest = history.get("currentId")
    if not newest:
        return tree_of_list(chat["messages"], lambda one: _said(one, about), began)
    messages = history["messages"]
    return Tree(
        messages, newest, lambda key: messages[key].get("parentId"), lambda key: _said(messages[key], about), began
    )


def _said(message: JSON, about: Context) -> Said:
    content = message["content"]
    said = Said(message["role"], [], message.get("timestamp"), message.get("model"))
    for part in content if isinstance(content, list) else [{"text": content}]:
        url = (part.get("image_url") or {}).get("url")
        if isinstance(part.get("text"), str):
            said.texts.append(part["text"] if said.role == "user" else _answer(part["text"], message, about))
        elif url:
            said.attach(about.attachment(url))
        else:
            said.left_out += 1
    for file in message.get("files") or []:
        inner = file.get("file") or {}
        name = file.get("name") or inner.get("filename")
        said.attach(about.attachment(file.get("url"), name, (inner.get("meta") or {}).get("content_type")))
    return said


def _answer(text: str, message: JSON, about: Context) -> str:
    """An answer without the reasoning and the calls of tools, with links to its sources."""
    kept, place = [], 0
    while found := DETAILS.search(text, place):
        end = text.find(END_OF_DETAILS, found.end())
        if end < 0:
            break
        about.skipped[Skip.REASONING if found[1] == "reasoning" else Skip.TOOLS] += 1
        kept.append(text[place : found.start()])
        place = end + len(END_OF_DETAILS)
    return _with_links("".join([*kept, text[place:]]), message.get("sources"))


def _with_links(text: str, sources: Any) -> str:
    """`[1]` with the address of the first source. Each document of a source has a number."""
    links, numbered = [], Sources()
    for one in sources if isinstance(sources, list) else ():
        about = one.get("source") or {}
        for known in one.get("metadata") or [{}]:
            url = str(known.get("source") or about.get("url") or "")
            links.append(numbered.link(url, str(known.get("title") or known.get("name") or about.get("name") or "")))
    return CITED.sub(lambda mark: (links[int(mark[1]) - 1 : int(mark[1])] or [""])[0] or mark[0], text)
