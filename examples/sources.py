"""The text that somebody wants something done with: in the message, in its files, or in an artifact."""

from __future__ import annotations

import asyncio

from agentkit import AgentFailure, File, ReceivedArtifact, TaskContext, UnreadableContent
from examples.prose import counted

LARGEST = 1_000_000  # characters


async def of_files(task: TaskContext) -> str:
    """What the files of this turn say. Raises AgentFailure for a file that is no text, or too much of it."""
    texts = [await asyncio.to_thread(_text, file) for file in task.files]
    return _bounded("\n\n".join(texts))


async def of_turn(task: TaskContext) -> str:
    """The message and its files. Raises AgentFailure, as `of_files`."""
    return _bounded("\n\n".join(filter(None, [task.message.text.strip(), await of_files(task)])))


def delivered(task: TaskContext, name: str = "") -> ReceivedArtifact | None:
    """The artifact of a referenced task with that name, or by default the first with text."""
    artifacts = [artifact for reference in task.references for artifact in reference.artifacts]
    return next((one for one in artifacts if (one.name == name if name else of_artifact(one))), None)


def of_artifact(artifact: ReceivedArtifact) -> str:
    """The text in an artifact; empty where there is none."""
    spoken = [part["text"] for part in artifact.parts if "text" in part]
    stored = [file for file in artifact.files if file.media_type.startswith("text/") and "text" not in file.part]
    return _bounded("\n\n".join([*spoken, *map(_text, stored)]))


def _text(file: File) -> str:
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise AgentFailure(f"“{file.name}” is no text. Send a text file in UTF-8, such as .txt or .md.") from None
    except UnreadableContent as unreadable:
        raise AgentFailure(f"“{file.name}” cannot be read. {unreadable}") from None


def _bounded(text: str) -> str:
    if len(text) > LARGEST:
        raise AgentFailure(f"This text has {counted(len(text), 'character')}. Send at most {LARGEST:,} at once.")
    return text
