"""What voice adds to people's pages."""

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.optional.voice import endpoints


def dictate() -> SafeString:
    return render_to_string("voice/_dictate.html", {"listens": endpoints.listener()})


def read_aloud() -> SafeString:
    return render_to_string("voice/_read.html", {"speaks": endpoints.speaker()})
