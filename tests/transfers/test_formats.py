"""What is read from each program's files."""

import json

import pytest

from apps.optional.transfers import package
from apps.optional.transfers.formats import chatgpt, read_conversations, shape
from apps.optional.transfers.formats.citations import resolved, with_searches
from apps.optional.transfers.formats.gemini import text_of
from apps.optional.transfers.package import opened
from tests.transfers import samples


def conversations(*documents, content=None):
    return read_conversations(opened(content or json.dumps(documents[0]).encode()))


def said(conversation):
    return [(one.is_user, one.text) for one in conversation.turns]


def files(turn):
    return [(one.name, package.opened(b"{}").content_of(one).decode()) for one in turn.attachments]


CLAUDE = {
    "uuid": "c",
    "name": "Poem",
    "created_at": "2025-03-01T10:00:00Z",
    "chat_messages": [
        {
            "uuid": "1",
            "sender": "human",
            "parent_message_uuid": "00000000-0000-4000-8000-000000000000",
            "created_at": "2025-03-01T10:00:00Z",
            "content": [{"type": "text", "text": "Write a poem"}],
            "attachments": [{"file_name": "ideas.txt", "extracted_content": "sea"}],
            "files": [{"file_name": "ideas.txt"}, {"file_name": "boat.png"}],
        },
        {
            "uuid": "2",
            "sender": "assistant",
            "parent_message_uuid": "1",
            "content": [
                {"type": "thinking", "thinking": "Rhymes"},
                {
                    "type": "tool_use",
                    "name": "artifacts",
                    "input": {
                        "command": "create",
                        "id": "p",
                        "type": "text/markdown",
                        "title": "Sea",
                        "content": "The sea",
                    },
                },
                {"type": "tool_use", "name": "web_search", "input": {}},
                {"type": "text", "text": "Here it is."},
            ],
        },
        {
            "uuid": "3",
            "sender": "assistant",
            "parent_message_uuid": "1",
            "text": "<antThinking>Hm</antThinking>Here:\n"
            '<antArtifact identifier="q" type="application/vnd.ant.code" language="python" title="sea">\nprint(1)\n'
            "</antArtifact>",
        },
        {
            "uuid": "4",
            "sender": "assistant",
            "parent_message_uuid": "2",
            "content": [
                {
                    "type": "tool_use",
                    "name": "artifacts",
                    "input": {"command": "update", "id": "p", "old_str": "The", "new_str": "A"},
                }
            ],
        },
    ],
}


def test_claude_artifacts_are_files_in_versions():
    [found] = conversations([CLAUDE])
    assert (found.title, found.source, found.began.year) == ("Poem", "Claude", 2025)
    asked, answered, changed = found.turns
    assert files(asked) == [("ideas.txt", "sea")]
    assert (answered.text, files(answered)) == ("Here it is.", [("Sea.md", "The sea")])
    assert files(changed) == [("Sea.md", "A sea")]
    [branch] = found.branches
    assert (branch.after, branch.turns[0].text, files(branch.turns[0])) == (1, "Here:", [("sea.py", "print(1)")])
    assert found.skipped == {"missing_files": 1, "reasoning": 1, "tool_messages": 1, "other_branches": 0}


def librechat(**more):
    first = {"messageId": "a", "parentMessageId": "0", "text": "Hi", "isCreatedByUser": True}
    answers = [
        {
            "messageId": name,
            "parentMessageId": "a",
            "text": "",
            "sender": "GPT",
            "isCreatedByUser": False,
            "content": [{"type": "think", "think": "…"}, {"type": "text", "text": {"value": name}}],
        }
        for name in ("Old", "New")
    ]
    return first, answers, {"conversationId": "1", "title": "Talk", **more}


@pytest.mark.parametrize("is_nested", [False, True])
def test_librechats_conversation_is_read_flat_and_nested(is_nested):
    first, answers, document = librechat()
    messages = [first | {"children": answers}] if is_nested else [first, *answers]
    [found] = conversations(document | {"messages": messages})
    assert (found.source, found.title) == ("LibreChat", "Talk")
    assert said(found) == [(True, "Hi"), (False, "New")]
    assert [one.turns[0].text for one in found.branches] == ["Old"]


def test_lobechats_topics_are_conversations():
    state = {
        "sessions": [{"id": "s", "meta": {"title": "Cooking"}}],
        "topics": [{"id": "t", "title": "Soup"}],
        "messages": [
            {"role": "user", "content": "Salt?", "sessionId": "s", "createdAt": 1700000000000},
            {"role": "user", "content": "Soup?", "sessionId": "s", "topicId": "t"},
            {"role": "assistant", "content": "Hot.", "sessionId": "s", "topicId": "t"},
        ],
    }
    outside, soup = conversations({"exportType": "all", "state": state})
    assert (outside.title, said(outside)) == ("Cooking", [(True, "Salt?")])
    assert (soup.title, said(soup)) == ("Soup", [(True, "Soup?"), (False, "Hot.")])


def test_gemini_prompts_are_conversations_in_order():
    activity = [
        {
            "header": "Gemini Apps",
            "title": f"Prompted {word}",
            "titleUrl": f"https://gemini.google.com/app/{address}",
            "time": f"2025-01-0{day}T00:00:00Z",
            "safeHtmlItem": [{"html": f"<p>{word}!</p>"}],
        }
        for word, address, day in (("two", "x", 3), ("other", "y", 2), ("one", "x", 1))
    ]
    first, other = conversations(activity)
    assert said(first) == [(True, "one"), (False, "one!"), (True, "two"), (False, "two!")]
    assert said(other) == [(True, "other"), (False, "other!")]
    assert (first.source, first.dates[0].day) == ("Gemini", 1)


def test_html_becomes_markdown():
    html = (
        '<h2>A</h2><p>See <a href="https://a.test">b</a> &amp; <b>c</b></p><ul><li>d</li><li>e</li></ul><pre>f  g</pre>'
    )
    assert text_of(html) == "## A\n\nSee [b](https://a.test) & **c**\n\n- d\n- e\n\n```\nf  g\n```"


MESSAGES = [{"role": "system", "content": "Be nice"}, {"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (json.dumps(MESSAGES).encode(), 1),
        (json.dumps({"messages": MESSAGES}).encode(), 1),
        (b"\n".join([json.dumps({"messages": MESSAGES}).encode()] * 2), 2),
    ],
)
def test_openais_messages_are_taken_in_three_forms(content, count):
    found = conversations(content=content)
    assert [said(one) for one in found] == [[(True, "Hi")]] * count


def test_characters_that_cannot_be_stored_are_replaced():
    chat = samples.chatgpt(answer="half \ud83d pair\0")
    [found] = conversations([chat])
    assert said(found)[-1] == (False, "half � pair�")


@pytest.mark.parametrize("name", ["conversations-003.json", "Takeout/My Activity/Gemini Apps/MyActivity.json"])
def test_documents_of_a_zip_are_found(name):
    [found] = conversations(content=samples.as_zip(samples.as_bytes(samples.chatgpt()), name))
    assert found.title == "Rivers"


CITE, FILE = "\ue200cite\ue202turn0search1\ue202turn0search2\ue201", "【4:0†source】"


class TestCitations:
    def test_marks_become_numbered_links_and_the_rest_goes(self):
        pages = [{"url": f"https://{name}.test/", "title": name.upper()} for name in "ab"]
        references = [
            {"matched_text": CITE, "items": pages},
            {"matched_text": "\ue200cite\ue202turn0search2\ue201", "items": pages[1:]},
        ]
        text = f"Warm{CITE}. Cold \ue200cite\ue202turn0search2\ue201 \ue200navlist\ue202x\ue201."
        links = '[1](https://a.test/ "A") [2](https://b.test/ "B")'
        assert resolved([text], {"content_references": references}) == [
            f'Warm {links}. Cold [2](https://b.test/ "B") .'
        ]

    def test_older_citations_stand_at_their_place(self):
        place = {"start_ix": 4, "end_ix": 4 + len(FILE), "metadata": {"name": "report.pdf"}}
        assert resolved([f"Warm{FILE}."], {"citations": [place]}) == ["Warm (report.pdf)."]

    def test_librechats_marks_name_results_of_its_searches(self):
        search = {"turn": 0, "organic": [{"link": "https://a.test/", "title": "A"}]}
        text = "Warm\ue202turn0search0. \ue200\ue202turn0search0\ue202turn1news7\ue201"
        assert with_searches(text, [search]) == 'Warm [1](https://a.test/ "A").  [1](https://a.test/ "A")'

    @pytest.mark.parametrize("url", ["javascript:alert(1)", "https://a.test/)x](y", "https://a.test/ b"])
    def test_an_address_cannot_leave_its_link(self, url):
        [text] = resolved([CITE], {"content_references": [{"matched_text": CITE, "items": [{"url": url}]}]})
        assert text in ("", "[1](https://a.test/%29x]%28y)")


def canvas(*calls):
    """A chat in which the model wrote into a canvas, call by call."""
    nodes = {
        "a": {
            "id": "a",
            "parent": None,
            "message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Write"]}},
        }
    }
    for number, (recipient, asked) in enumerate(calls):
        content = {"content_type": "code", "text": json.dumps(asked)}
        message = {"author": {"role": "assistant"}, "recipient": f"canmore.{recipient}", "content": content}
        nodes[f"{number}"] = {"id": f"{number}", "parent": next(reversed(nodes)), "message": message}
    return {"title": "Canvas", "mapping": nodes, "current_node": next(reversed(nodes))}


def update(pattern, replacement, **more):
    return ("update_textdoc", {"updates": [{"pattern": pattern, "replacement": replacement, **more}]})


class TestCanvas:
    def test_each_version_of_a_document_is_a_file(self):
        create = ("create_textdoc", {"name": "Letter", "type": "document", "content": "Dear A.\nBye, A."})
        [found] = conversations([canvas(create, update(r"A\.", "B!", multiple=True), update(".*", "None"))])
        versions = [file for turn in found.turns for file in files(turn)]
        assert versions == [("Letter.md", "Dear A.\nBye, A."), ("Letter.md", "Dear B!\nBye, B!"), ("Letter.md", "None")]

    def test_versions_beyond_the_room_are_not_kept(self, monkeypatch):
        monkeypatch.setattr(package, "MAX_DOCUMENTS", 15)
        create = ("create_textdoc", {"name": "n", "type": "document", "content": "0123456789"})
        [found] = conversations([canvas(create, update("0", "1"))])
        assert (len(found.turns), found.skipped["document_edits"]) == (2, 1)


def test_a_loop_and_many_leaves_end_soon():
    nodes = {str(n): {"id": str(n), "parent": str(n - 1) if n else None, "message": None} for n in range(5000)}
    nodes |= {f"leaf {n}": {"id": "", "parent": str(n), "message": None} for n in range(5000)}
    tree = chatgpt.read({"mapping": nodes, "current_node": "4999"}, shape.Context(opened(b"{}")))
    assert shape.read_tree("ChatGPT", "", tree, shape.Counter()).branches == ()
