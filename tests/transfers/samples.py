"""Small exports of each program, as its own files are."""

import base64
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


PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
PICTURES = {
    "export/file-Aa1-boat.png": PNG,
    "export/file_0b2.dat": PNG + b"made",
    "export/user-x/file-Cc3-notes.pdf": b"%PDF-1.4 notes",
}


def chatgpt_with_files():
    """A picture, a document that was uploaded and one that is not in the ZIP, reasoning, a tool, and a made picture."""
    chat = chatgpt("Boats")
    nodes = chat["mapping"]
    asked, search = nodes["asked"]["message"], nodes["search"]["message"]
    asked["content"]["parts"][0]["asset_pointer"] = "file-service://file-Aa1"
    asked["metadata"]["attachments"] = [
        {"id": "file-Aa1", "name": "My boat.png", "size": 33, "width": 1, "height": 1},
        {"id": "file-Cc3", "name": "notes.pdf", "mimeType": "application/pdf"},
        {"id": "file-Dd4", "name": "gone.docx"},
    ]
    asset = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_0b2?shared=1", "width": 1}
    made = {"content_type": "multimodal_text", "parts": [asset, "for the model"]}
    nodes["found"]["message"] |= {"content": made}
    search["content"] = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "c"}]}
    search["recipient"] = "all"
    hidden = {"author": {"role": "user"}, "content": {"content_type": "user_editable_context"}}
    hidden["metadata"] = {"is_visually_hidden_from_conversation": True}
    call = {"author": {"role": "assistant"}, "recipient": "dalle.text2im", "metadata": {}}
    call["content"] = {"content_type": "code", "text": "{}"}
    nodes["hidden"] = {"id": "hidden", "parent": "new", "children": [], "message": hidden}
    nodes["call"] = {"id": "call", "parent": "hidden", "children": [], "message": call}
    return chat | {"current_node": "call"}


def open_webui_with_files():
    chat = open_webui()
    asked, _, answered = chat["chat"]["history"]["messages"].values()
    picture = {"type": "image", "url": "data:image/png;base64," + base64.b64encode(PNG).decode()}
    paper = {"type": "file", "id": "f", "url": "/api/v1/files/f", "name": "a.pdf", "file": {"filename": "a.pdf"}}
    asked["files"] = [picture, paper]
    thought = '<details type="reasoning" done="true" duration="3">\n<summary>Thought</summary>\n&gt; Hm\n</details>'
    looked = '<details type="tool_calls" done="true" name="look">\n<summary>Tool Executed</summary>\n</details>'
    answered["content"] = f"{thought}\n{looked}\nYo <details>"
    return chat


def as_bytes(*conversations):
    return json.dumps(conversations).encode()


def as_zip(content, name="export/conversations.json", **files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.html", "<p>")
        archive.writestr(name, content)
        for beside, inner in files.items():
            archive.writestr(beside, inner)
    return file.getvalue()
