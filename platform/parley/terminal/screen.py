"""What people and scripts see: answers on standard output, what happens on standard error, and saved files."""

from __future__ import annotations

import base64
import contextlib
import json
import mimetypes
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from parley.terminal.client import JSON, Failure, Parley, path_of

SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colors, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)  # control, direction, halves of characters
LINE = 200  # characters of a note
NARROW = 80  # columns, below which lines of a table are not cut
NOT_FOUND = 404


def clean(text: str) -> str:
    """Without anything that a terminal obeys. A sequence that is cut in two loses what makes it one."""
    return UNSAFE.sub("", SEQUENCE.sub("", text))


def one_line(text: str, most: int = LINE) -> str:
    """At most so many characters."""
    short = " ".join(clean(text).split())
    return short if len(short) <= most else short[: most - 1] + "…"


class Screen:
    """Each text of a task is shown once, streamed or whole. `as_json`: events and results, a line each."""

    def __init__(
        self, *, as_json: bool = False, save: Path | None = None, said: IO[str] | None = None,
        happened: IO[str] | None = None,
    ) -> None:  # fmt: skip
        self.as_json, self.save = as_json, save
        self._said, self._happened = said or sys.stdout, happened or sys.stderr
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not self._happened.isatty()
        self._dim, self._normal = ("", "") if plain else ("\x1b[2m", "\x1b[0m")
        self._streamed: dict[str, str] = {}
        self._shown: set[str] = set()
        self._line_is_open = False

    @property
    def is_interactive(self) -> bool:
        return not self.as_json and self._said.isatty() and sys.stdin.isatty()

    def begin(self) -> None:
        """A new message: what it leads to is shown, also words that were shown before."""
        self._shown, self._streamed = set(), {}

    def record(self, value: JSON) -> None:
        """A line for scripts."""
        if self.as_json:
            print(json.dumps(value), file=self._said, flush=True)

    def say(self, text: str) -> None:
        self._close_line()
        text = clean(text).strip("\n")
        shown = self._shown | {streamed.strip() for streamed in self._streamed.values()}
        if not self.as_json and text.strip() and text.strip() not in shown:
            self._shown.add(text.strip())
            print(text, file=self._said, flush=True)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Columns as wide as their content. In a narrow terminal, what does not fit stands below its name."""
        shown = [[one_line(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        most = shutil.get_terminal_size().columns if self._said.isatty() else sys.maxsize
        is_narrow = most < NARROW and sum(widths) + 2 * len(widths) > most
        for row in shown:
            if is_narrow:
                about = textwrap.fill("  ".join(row[1:]), most, initial_indent="  ", subsequent_indent="  ")
                print(f"{row[0]}\n{about}".rstrip(), file=self._said)
                continue
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print(line[:most].rstrip(), file=self._said)

    def note(self, text: str, most: int = LINE) -> None:
        """One plain line. It breaks a streamed one only where both are seen together."""
        if self._said.isatty():
            self._close_line()
        print(f"{self._dim}{one_line(text, most)}{self._normal}", file=self._happened, flush=True)

    def show(self, event: JSON) -> None:
        if self.as_json:
            self.record(event)
            return
        payload = event["payload"]
        match event["type"]:
            case "agent_start":  # a turn may repeat earlier words, such as its question
                self._shown, self._streamed = set(), dict.fromkeys(self._streamed, "")
                if payload.get("attempt", 1) > 1 or payload.get("again"):
                    self.note("Starting again.")
            case "agent_token" | "agent_token_end":
                self._stream(payload["artifactId"], payload["text"])
            case "artifact_update" if _is_read(payload["artifact"]):
                text = "".join(part.get("text", "") for part in payload["artifact"]["parts"])
                self._stream_artifact(payload["artifact"]["artifactId"], text, is_piece=payload.get("append", False))
            case "agent_tool_call":
                self.note(f"… {payload['name']} {json.dumps(payload.get('arguments') or {}, ensure_ascii=False)}")
            case "agent_tool_result" if payload.get("isError"):
                self.note(f"… {payload['name']} failed")
            case "agent_message":
                self._show_words(payload["message"]["parts"])
            case "agent_status":
                self._show_status(payload)

    def _show_status(self, payload: JSON) -> None:
        parts = (payload.get("message") or {}).get("parts", [])
        words = " ".join(part["text"] for part in parts if "text" in part)
        if progress := payload.get("progress"):
            done, total = progress.get("done"), progress.get("total")
            share = f" ({done:g} of {total:g})" if done is not None and total else ""
            self.note(f"… {progress.get('text') or words}{share}")
        elif payload["state"] in ("completed", "input-required", "auth-required"):
            self._show_words(parts)
        elif words:
            self.note(f"… {words}" if payload["state"] == "working" else words)

    def _show_words(self, parts: Iterable[JSON]) -> None:
        for part in parts:
            if _is_read({"parts": [part]}):
                self.say(part["text"])
            elif "data" in part and not part.get("filename"):
                self.say(json.dumps(part["data"], ensure_ascii=False, indent=2))

    def _stream_artifact(self, artifact: str, text: str, *, is_piece: bool) -> None:
        """What is not a piece is the whole text: what it begins with may be shown already."""
        shown = "" if is_piece else self._streamed.get(artifact, "")
        if shown and not clean(text).startswith(shown):
            self._close_line()
            self._streamed[artifact] = shown = ""
        self._stream(artifact, clean(text)[len(shown) :])

    def _stream(self, artifact: str, text: str) -> None:
        if text := clean(text):
            self._streamed[artifact] = self._streamed.get(artifact, "") + text
            self._said.write(text)
            self._said.flush()
            self._line_is_open = not text.endswith("\n")

    def _close_line(self) -> None:
        if self._line_is_open:
            self._said.write("\n")
            self._said.flush()
            self._line_is_open = False

    def deliver(self, parley: Parley | None, artifacts: Iterable[JSON]) -> None:
        """Print text that was not streamed; save or offer files. Without `parley`, the parts have their content."""
        for artifact in artifacts:
            for number, part in enumerate(artifact["parts"]):
                named = {"name": artifact.get("name", ""), "parts": [part]}
                if _is_file(named):
                    path = path_of("artifacts", artifact["taskId"], artifact["artifactId"], "content")
                    self._take(parley, part, named["name"], f"{path}?part={number}")
                elif artifact["artifactId"] not in self._streamed:
                    self._show_words([part])
        self._close_line()

    def deliver_parts(self, parley: Parley | None, parts: Iterable[JSON]) -> None:
        """Of a message: its words, and its files."""
        for part in parts:
            if _is_file({"parts": [part]}):
                url = part.get("url", "")
                self._take(parley, part, "", url if parley and url.startswith(f"{parley.url}/") else "")
            else:
                self._show_words([part])
        self._close_line()

    def _take(self, parley: Parley | None, part: JSON, name: str, address: str) -> None:
        if "url" in part and not (parley and address):
            self.say(part["url"])  # somebody else's server: never with our key
            return
        wanted = file_name(part, name)
        folder = self.save
        if folder is None and self.is_interactive:
            with contextlib.suppress(EOFError):
                folder = Path() if input(f"Save the file {wanted}? [y/N] ").strip().lower() in ("y", "yes") else None
        if folder is None:
            self.note(f"The answer has the file {wanted}. --save DIR saves it.")
            return
        path = _free_path(folder, wanted)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            size = parley.download(address, path) if parley and address else path.write_bytes(_content_of(part))
        except Failure as failure:
            if "url" not in part or failure.status != NOT_FOUND:
                raise
            self.say(part["url"])  # an artifact that is a link to another site
            return
        except OSError as error:
            raise Failure(f"{path} cannot be written: {error.strerror}. Choose another folder with --save.") from None
        self.note(f"Saved {path} ({size:,} bytes).")
        self.record({"type": "saved", "path": str(path), "size": size})


def _is_read(artifact: JSON) -> bool:
    """Is this text to read in a terminal, rather than a file?"""
    named = Path(artifact.get("name") or "").suffix
    return not named and all("text" in part and not part.get("filename") for part in artifact["parts"])


def _is_file(artifact: JSON) -> bool:
    [part] = artifact["parts"]
    if "raw" in part or "url" in part or part.get("filename"):
        return True
    return bool(Path(artifact.get("name") or "").suffix)


def _content_of(part: JSON) -> bytes:
    if "raw" in part:
        return base64.b64decode(part["raw"])
    return str(part["text"] if "text" in part else json.dumps(part["data"], ensure_ascii=False)).encode()


def file_name(part: JSON, name: str) -> str:
    """A safe name for a part's file: the last component of its own, with a suffix."""
    wanted = clean(part.get("filename") or name or "artifact").replace("\\", "/").split("/")[-1].lstrip(".")
    safe = "".join(letter for letter in wanted if letter.isprintable() and letter not in '<>:"|?*').strip()[-120:]
    safe = safe or "artifact"
    suffix = ".txt" if "text" in part else ".json" if "data" in part else ".bin"
    return safe if Path(safe).suffix else safe + (mimetypes.guess_extension(part.get("mediaType", "")) or suffix)


def _free_path(folder: Path, name: str) -> Path:
    """`name` in the folder, or `name-2`, `name-3`… so that nothing is overwritten."""
    path, number = folder / name, 2
    while path.exists():
        path, number = folder / f"{Path(name).stem}-{number}{Path(name).suffix}", number + 1
    return path
