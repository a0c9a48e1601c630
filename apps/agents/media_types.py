"""What files media types stand for: for a browser's file dialog, and in words for people."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass

ANYTHING = "*/*"
KINDS = (  # how people call media types, in this order
    ("text", re.compile(r"text/(\*|plain)")),
    ("tables (CSV)", re.compile(r"text/(csv|tab-separated-values)")),
    ("JSON", re.compile(r"application/json")),
    ("pictures", re.compile(r"image/.*")),
    ("PDFs", re.compile(r"application/pdf")),
    ("Office documents", re.compile(r"application/vnd\.(openxmlformats-officedocument|oasis\.opendocument)\..*")),
    ("sound", re.compile(r"audio/.*")),
    ("videos", re.compile(r"video/.*")),
)
IN_TEXT = re.compile(r"text/.*|application/(json|xml|yaml|x-ndjson)")
TEXT_ENDINGS = (
    ".txt,.md,.csv,.tsv,.json,.jsonl,.yaml,.yml,.toml,.xml,.html,.css,.log,.ini,.cfg,.conf,.env,.sql,.tex,.rst,.srt,"
    ".py,.ipynb,.js,.mjs,.ts,.tsx,.jsx,.vue,.go,.rs,.rb,.php,.java,.kt,.swift,.c,.h,.cpp,.hpp,.cs,.m,.r,.jl,.lua,.pl,"
    ".sh,.bat,.ps1,.proto,.graphql,.tf,.diff,.patch"
)
"""Of text files whose type browsers often do not know."""


@dataclass(frozen=True, slots=True)
class Intake:
    """`modes`: media types, such as `text/csv`, `text/*` and `*/*`."""

    modes: list[str]

    @property
    def accept(self) -> str:
        """For a file input: `accept`; "" for any file."""
        if ANYTHING in self.modes:
            return ""
        endings = [TEXT_ENDINGS] if "text/*" in self.modes else map(mimetypes.guess_extension, self.modes)
        return ",".join([*self.modes, *filter(None, endings)])

    @property
    def words(self) -> str:
        """Such as “text and pictures”; "" for any file."""
        if ANYTHING in self.modes:
            return ""
        any_text = "text/*" in self.modes
        modes = [one for one in self.modes if not any_text or one == "text/*" or not IN_TEXT.fullmatch(one)]
        named = [name for name, types in KINDS if any(map(types.fullmatch, modes))]
        others = (one for one in modes if not any(types.fullmatch(one) for _, types in KINDS))
        named += [f"{mimetypes.guess_extension(one) or one} files" for one in others]
        return _listed(named) or "text"


def _listed(names: list[str]) -> str:
    *before, last = names or [""]
    return f"{', '.join(before)} and {last}" if before else last
