"""Pictures of agents. What was uploaded is never served: Parley draws a small PNG from it."""

from __future__ import annotations

import hashlib
import io
import warnings
from typing import Any

from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from PIL import Image, ImageOps

from apps.agents.models import Agent, AgentPicture

MAX_BYTES = 5 * 1024**2  # of an upload
MAX_PIXELS = 40_000_000
SIDE = 192  # pixels of the square that is kept
TYPES = ("image/png", "image/jpeg", "image/webp")
FORMATS = ("PNG", "JPEG", "WEBP")
UNREADABLE = "This picture cannot be read. Choose a PNG, JPEG or WebP file."


def draw(uploaded: UploadedFile[Any]) -> bytes:
    """The middle of a picture as a small PNG, without what else the file has. Raises ValidationError."""
    if (uploaded.size or 0) > MAX_BYTES:
        raise ValidationError(f"The picture is larger than {MAX_BYTES // 1024**2} MB.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return _drawn(uploaded.read())
    except ValidationError:
        raise
    except Exception:  # decoders raise many kinds
        raise ValidationError(UNREADABLE) from None


def _drawn(content: bytes) -> bytes:
    with Image.open(io.BytesIO(content), formats=FORMATS) as found:
        if found.width * found.height > MAX_PIXELS:
            raise ValidationError("The picture has too many pixels.")
        found.draft("RGB", (SIDE, SIDE))
        square = ImageOps.fit(ImageOps.exif_transpose(found).convert("RGBA"), (SIDE, SIDE))
    plain = Image.new("RGBA", square.size)
    plain.paste(square)
    written = io.BytesIO()
    plain.save(written, "PNG", optimize=True)
    return written.getvalue()


def keep(agent: Agent, content: bytes | None) -> None:
    """Save what `draw` made, or with None remove the picture."""
    if content is None:
        AgentPicture.objects.filter(agent=agent).delete()
    else:
        AgentPicture.objects.update_or_create(agent=agent, defaults={"content": content})
    agent.picture = hashlib.sha256(content).hexdigest()[:16] if content else ""
    agent.save(update_fields=["picture"])
