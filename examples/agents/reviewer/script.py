"""What the Reviewer sees without a language model: what can be measured, and mistakes that have a form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from typing import Any

from examples.agents.reviewer.reviews import Decision, Review, Verdict
from examples.prose import counted, cut, reading_ease, sentences, words

LONG = 28  # words of a sentence
MOST_REMARKS = 8
QUOTED = 60  # characters

PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|being) \w+(?:ed|en)\b(?: by\b)?", re.IGNORECASE)
PAIRS = {"(": ")", "[": "]", "{": "}", "“": "”"}
MISSPELT = {
    "accomodate": "accommodate",
    "alot": "a lot",
    "definately": "definitely",
    "occured": "occurred",
    "recieve": "receive",
    "seperate": "separate",
    "teh": "the",
    "untill": "until",
    "wich": "which",
}
HARSH = frozenset(words("stupid idiotic useless ridiculous garbage hate terrible awful incompetent nonsense"))
HEDGES = frozenset(words("maybe perhaps possibly somewhat arguably hopefully basically actually"))


def clarity(text: str) -> Review:
    """By reading ease, long sentences and the passive."""
    said = sentences(text)
    long = [sentence for sentence in said if len(words(sentence)) > LONG]
    passive = PASSIVE.findall(text)
    remarks = [f"{counted(len(words(one)), 'word')} in one sentence, split it: “{cut(one, QUOTED)}”" for one in long]
    if len(passive) * 3 > len(said):
        remarks.insert(0, f"The passive {counted(len(passive), 'time')}, say who does it: “{cut(passive[0], QUOTED)}”")
    ease = reading_ease(text)
    if ease is not None and ease < 50:
        remarks.insert(0, f"Hard to read (Flesch {ease:.0f} of 100): use shorter words and sentences.")
    weight = len(long) / max(len(said), 1) * 6 + len(passive) / max(len(said), 1) * 2
    hard = 0.0 if ease is None else max(0.0, 60 - ease) / 12
    return _review(10 - weight - hard, remarks)


def correctness(text: str) -> Review:
    """By words that stand twice, spelling, brackets, and how sentences begin."""
    found = words(text)
    remarks = [f"“{one} {other}” stands twice." for one, other in pairwise(found) if _is_twice(one, other)]
    misspelt = dict.fromkeys(word for word in map(str.casefold, found) if word in MISSPELT)
    remarks += [f"“{wrong}” is spelt “{MISSPELT[wrong]}”." for wrong in misspelt]
    remarks += [
        f"“{opening}” and “{closing}” do not come in pairs ({text.count(opening)} and {text.count(closing)})."
        for opening, closing in PAIRS.items()
        if text.count(opening) != text.count(closing)
    ]
    remarks += [
        f"A sentence begins with a small letter: “{cut(one, QUOTED)}”" for one in sentences(text) if one[0].islower()
    ]
    return _review(10 - 1.5 * len(remarks), remarks)


def tone(text: str) -> Review:
    """By exclamation marks, capitals, harsh words and hedges."""
    found = words(text)
    loud = [one for one in found if len(one) > 3 and one.isupper()]
    harsh = [one for one in found if one.casefold() in HARSH]
    hedges = [one for one in found if one.casefold() in HEDGES]
    shouts = text.count("!")
    remarks = [f"“{one}” may hurt; say what is wrong instead." for one in dict.fromkeys(harsh)]
    remarks += [f"“{one}” in capitals sounds loud." for one in dict.fromkeys(loud)]
    if shouts > 1:
        remarks.append(f"{counted(shouts, 'exclamation mark')}: one is enough.")
    if len(hedges) > 2:
        remarks.append(f"{counted(len(hedges), 'hedge')} ({', '.join(dict.fromkeys(hedges))}): say it or leave it.")
    return _review(10 - 2 * len(harsh) - len(loud) - shouts / 2 - max(0, len(hedges) - 2), remarks)


def verdict(reviews: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """The weakest of the reviews decides."""
    weakest = min(reviews, key=lambda aspect: reviews[aspect]["score"])
    lowest, remarks = reviews[weakest]["score"], reviews[weakest]["remarks"]
    total = sum(len(review["remarks"]) for review in reviews.values())
    if lowest >= 8:
        why = f"The reviews have {counted(total, 'remark')}; none is grave." if total else "There is nothing to remark."
        return Verdict(decision=Decision.READY, why=why)
    decision = Decision.REVISE if lowest >= 4 else Decision.REWRITE
    first = f" First: {remarks[0]}" if remarks else ""
    return Verdict(decision=decision, why=f"The weakest side is {weakest}, with {lowest} of 10.{first}")


def _is_twice(one: str, other: str) -> bool:
    return one.casefold() == other.casefold() and one.casefold() not in ("had", "that")


def _review(score: float, remarks: Iterable[str]) -> Review:
    return Review(score=round(min(10.0, max(0.0, score))), remarks=list(islice(remarks, MOST_REMARKS)))
