"""Small exports of each program, as its own files are."""

import io
import json
import zipfile


def chatgpt(title="Rivers", answer="Danube"):
    """A tree: the first answer was regenerated, and a tool was called in between."""

    def node(key, parent, role, content, **more):
        message = {"author": {"role": role}, "content": content, "create_time": 1700000000.5, "metadata": {}, **more}
        return {"id": key, "parent": parent, "children": [], "message": message}

    text = lambda *parts: {"content_type": "text", "parts": list(parts)}  # noqa: E731
    asset = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://a"}
    nodes = [
        {"id": "root", "parent": None, "children": ["system"], "message": None},
        node("system", "root", "system", text("")),
        node("asked", "system", "user", {"content_type": "multimodal_text", "parts": [asset, "Which river?"]}),
        node("old", "asked", "assistant", text("Rhine")),
        node("search", "asked", "assistant", {"content_type": "code", "text": "search()"}, recipient="web"),
        node("found", "search", "tool", text("many")),
        node("new", "found", "assistant", text(answer), metadata={"model_slug": "gpt-5"}),
    ]
    mapping = {one["id"]: one for one in nodes}
    return {"title": title, "create_time": 1700000000.0, "current_node": "new", "mapping": mapping}


def open_webui():
    messages = {
        "a": {"id": "a", "parentId": None, "role": "user", "content": "Hi", "timestamp": 1700000000},
        "b": {"id": "b", "parentId": "a", "role": "assistant", "content": "No", "timestamp": 1700000001},
        "c": {"id": "c", "parentId": "a", "role": "assistant", "content": "Yo", "timestamp": 1700000002, "model": "m"},
    }
    return {"id": "x", "title": "Greeting", "chat": {"history": {"messages": messages, "currentId": "c"}}}


def as_bytes(*conversations):
    return json.dumps(conversations).encode()


def as_zip(content, name="export/conversations.json"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("chat.html", "<p>")
        archive.writestr(name, content)
    return file.getvalue()
