"""Looking into the files that somebody attached."""

from agentkit import File, TaskContext, UnreadableContent, tool

PIECE = 20_000  # characters that one call gives


@tool()
def read_file(task: TaskContext, name: str = "", start: int = 0) -> str:
    """Reads a text file of the conversation from character `start` on; without a name it lists the files there are."""
    files = task.all_files
    if not files:
        return "No file was attached to this conversation."
    if not name:
        return "\n".join(map(_described, files))
    file = next((one for one in files if one.name == name), None)
    if file is None:
        raise ValueError(f"No file is named {name!r}. There are: {', '.join(one.name for one in files)}.")
    text = _text(file)
    piece = text[max(start, 0) : max(start, 0) + PIECE]
    return f"Characters {max(start, 0)} to {max(start, 0) + len(piece)} of {len(text)}:\n{piece}"


def _described(file: File) -> str:
    size = "a link" if file.size is None else f"{file.size:,} bytes"
    return f"{file.name or 'without a name'} ({file.media_type}, {size})"


def _text(file: File) -> str:
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise ValueError(f"{_described(file)} is no text and cannot be read with this tool.") from None
    except UnreadableContent as error:
        raise ValueError(str(error)) from None
