"""Many items of a fan-out as one box, with how many of them are in which state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from apps.plans.pictures.looks import FOREMOST, foremost

UNFOLDED = 6  # items of a fan-out that are drawn one by one


@dataclass(frozen=True, slots=True)
class StepBox:
    """A step as it is drawn.

    Attributes:
        key: names it within the picture; of an item of a fan-out any other key, such as `search-0`.
        title: somebody's words, of any length; the key where that is empty.
        state: a `Step.State`; empty where nothing runs, as in the picture of a definition.
        agent: who does it, as people are told.
        duration: how long it took, or is taking so far.
        question: what somebody is asked for it now.
        href: where a click leads; empty: nowhere.
        depends_on: keys of others; that of a fan-out means all its items.
        counts: of a fan-out that is one box, how many items are in which state.
        round: of a repetition, from 1.
        note: why it failed or waits, as a sentence.
        of: the key of the fan-out that it is an item of.
        is_person: a person does it, or has to agree.
    """

    key: str
    title: str = ""
    state: str = ""
    agent: str = ""
    duration: timedelta | None = None
    question: str = ""
    href: str = ""
    depends_on: tuple[str, ...] = ()
    counts: Mapping[str, int] | None = None
    round: int = 1
    note: str = ""
    of: str = ""
    is_person: bool = False
    asking: int = field(default=0, kw_only=True)  # how many items of a folded fan-out ask something


def folded(boxes: Iterable[StepBox], most: int = UNFOLDED) -> list[StepBox]:
    """The same with one box for each fan-out of more than `most` items; what needs another needs each item of it."""
    boxes = list(boxes)
    items: dict[str, list[StepBox]] = defaultdict(list)
    for box in boxes:
        if box.of:
            items[box.of].append(box)
    meant = {key: tuple(one.key for one in found) for key, found in items.items() if len(found) <= most}
    shown, done = [], set()
    for box in boxes:
        if not box.of or box.of in meant:
            shown.append(box)
        elif box.of not in done:
            done.add(box.of)
            shown.append(_one(box.of, items[box.of]))
    whole = {box.key: box.of for box in boxes if box.of and box.of not in meant}
    return [replace(box, depends_on=_resolved(box.depends_on, meant, whole)) for box in shown]


def _resolved(keys: Iterable[str], meant: Mapping[str, tuple[str, ...]], whole: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for key in keys for one in meant.get(whole.get(key, key), (whole.get(key, key),))))


def _one(key: str, items: list[StepBox]) -> StepBox:
    """It leads to where the item does that should be looked at first."""
    rank = {state: number for number, state in enumerate(FOREMOST)}
    first = min(items, key=lambda one: rank.get(one.state, len(rank)))
    counts = Counter(one.state for one in items)
    asked = [one.question for one in items if one.question]
    return replace(
        first,
        key=key,
        title=first.title or key,
        state=foremost(set(counts)),
        question=asked[0] if asked else "",
        asking=len(asked),
        depends_on=tuple(dict.fromkeys(needed for one in items for needed in one.depends_on)),
        counts=dict(counts),
        duration=None,
        round=1,
        of="",
    )
