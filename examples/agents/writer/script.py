"""What the Writer does without a language model: it picks from notes, and gives a frame where there are none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from pydantic import BaseModel, Field

from examples.prose import cut, sentences, telling, terms

MOST_SECTIONS = 4
PER_SECTION = 3  # sentences

LEAD = re.compile(
    r"^(?:please\s+)?(?:write|draft|compose)(?:\s+me)?(?:\s+(?:an?|the|some))?"
    r"(?:\s+(?:\w+\s+)?(?:text|note|article|essay|story|summary|letter|report))?(?:\s+(?:about|on|of|from))?\s+",
    re.IGNORECASE,
)
ASIDE = re.compile(r"\s*\([^()]*\)|\s*,\s*(?:which|who|whose)\b[^,.;]*,?")
PLAIN = {
    "in order to": "to",
    "due to the fact that": "because",
    "at this point in time": "now",
    "a large number of": "many",
    "utilize": "use",
    "utilise": "use",
    "approximately": "about",
    "numerous": "many",
    "demonstrate": "show",
    "subsequently": "then",
    "commence": "begin",
    "terminate": "end",
}
FILLER = re.compile(r"\b(?:very|really|quite|actually|basically|simply|just)\s+", re.IGNORECASE)
FRAME = {
    "In short": "[Say in two sentences what a reader must know of {}. Give one number that can be checked.]",
    "Why it matters": "[Name somebody to whom {} makes a difference. Tell what happens to them.]",
    "Where to begin": "[Give the first step that a reader of this can take today. Then say where to read on about {}.]",
}
"""What is written where there is only a topic: what a person would have to say."""


class Outline(BaseModel):
    """A title, and what each section is about."""

    title: str = Field(min_length=1, max_length=200)
    points: list[str] = Field(min_length=1, max_length=8)


def outlined(brief: str, notes: str) -> Outline:
    """From notes: their sentences in groups, each named by its terms. Otherwise a frame to fill."""
    topic = _topic(brief, notes)
    found = [_named(group) for group in _groups(_said(brief, notes))]
    return Outline(title=topic[:1].upper() + topic[1:], points=found or list(FRAME))


def drafted(brief: str, notes: str, outline: dict[str, object]) -> str:
    """The title, and under each point the most telling sentences of its group, or what is to be written there."""
    plan = Outline.model_validate(outline)
    groups, topic = _groups(_said(brief, notes)), _topic(brief, notes)
    about = terms(f"{brief} {notes}", 20)
    lines = [f"# {plan.title}"]
    for at, point in enumerate(plan.points):
        picked = telling(groups[at], about, PER_SECTION) if at < len(groups) else [FRAME.get(point, "").format(topic)]
        body = " ".join(picked)
        lines += [f"## {point}", body]
    return "\n\n".join(lines)


def polished(draft: str) -> str:
    """Plainer words, no fillers, and nothing said twice."""
    said: set[str] = set()

    def once(sentence: str) -> bool:
        known = sentence.casefold() in said
        said.add(sentence.casefold())
        return not known

    return _rewritten(draft, lambda body: " ".join(filter(once, map(_plain, sentences(body)))))


def changed(text: str, wish: str) -> str:
    """The text as the wish says, if it is one of `CHANGES`; otherwise as it is."""
    change = next((change for pattern, change in WISHES if pattern.search(wish)), None)
    return change(text) if change else text


def knows(wish: str) -> bool:
    """Can this be done without a language model?"""
    return any(pattern.search(wish) for pattern, _ in WISHES)


def is_bare(wish: str) -> bool:
    """Does it name nothing but a change, such as “make it shorter”?"""
    return knows(wish) and not terms(" ".join(pattern.sub("", wish) for pattern, _ in WISHES if pattern.search(wish)))


def _shorter(text: str) -> str:
    """Half of the sentences; where each paragraph has but one, half of the sections."""
    about = terms(text, 20)
    halved = _rewritten(text, lambda body: " ".join(telling(said := sentences(body), about, (len(said) + 1) // 2)))
    if len(halved) < len(text):
        return halved
    sections = re.split(r"\n\n(?=## )", text)
    without_asides = _rewritten(text, lambda body: ASIDE.sub("", body))
    return "\n\n".join(sections[: 1 + len(sections) // 2]) if len(sections) > 2 else without_asides


def _simpler(text: str) -> str:
    """Without asides, in plain words, a new sentence at each semicolon."""

    def simple(body: str) -> str:
        pieces = [piece for sentence in sentences(ASIDE.sub("", body)) for piece in sentence.split("; ")]
        return " ".join(_ended(_plain(piece)) for piece in pieces)

    return _rewritten(text, simple)


def _listed(text: str) -> str:
    return _rewritten(
        text, lambda body: body if body.startswith("- ") else "\n".join(f"- {one}" for one in sentences(body))
    )


Change = Callable[[str], str]

WISHES: list[tuple[re.Pattern[str], Change]] = [
    (re.compile(r"\b(short|shorten|shorter|brief|briefer|concise|half|cut)\b", re.IGNORECASE), _shorter),
    (re.compile(r"\b(simple|simpler|simplify|plain|plainer|easier)\b", re.IGNORECASE), _simpler),
    (re.compile(r"\b(list|bullets?|points)\b", re.IGNORECASE), _listed),
]
KNOWN = "shorter, simpler, or a list"
CHANGES = {"type": "string", "title": "Change", "enum": ["shorter", "simpler", "list"]}


def _topic(brief: str, notes: str) -> str:
    named = LEAD.sub("", sentences(brief)[0] if brief.strip() else "").strip(" .!?:")
    return cut(named or " and ".join(terms(notes, 2)) or "these notes", 80)


def _said(brief: str, notes: str) -> list[str]:
    """What there is to pick from: the notes, or a brief that says something itself."""
    said = sentences(notes) or sentences(brief)
    return said if notes.strip() or len(said) > 2 else []


def _groups(said: list[str]) -> list[list[str]]:
    """The sentences in order, in so many groups that each has about three, but no more than four groups."""
    count = min(MOST_SECTIONS, (len(said) + PER_SECTION - 1) // PER_SECTION)
    return [said[at * len(said) // count : (at + 1) * len(said) // count] for at in range(count)]


def _named(group: list[str]) -> str:
    found = terms(" ".join(group), 2)
    return " and ".join(found).capitalize() if found else cut(group[0], 40)


def _plain(sentence: str) -> str:
    for stiff, plain in PLAIN.items():
        sentence = re.sub(rf"\b{stiff}\b", plain, sentence, flags=re.IGNORECASE)
    lean = FILLER.sub("", sentence)
    return lean[:1].upper() + lean[1:]


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…", ":", "؟", "。")) else f"{sentence}."


def _rewritten(text: str, change: Change) -> str:
    """The text with each paragraph changed, and headings as they are; a paragraph of which nothing is left goes."""

    def blocks() -> Iterator[str]:
        for block in re.split(r"\n\s*\n", text.strip()):
            yield block if block.startswith("#") else change(block)

    return "\n\n".join(filter(None, blocks())) + "\n"
