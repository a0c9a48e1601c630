"""What a workspace's rails say about parts, as the engine asks (`engine.turns.guards`)."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.db import models

from agentkit import Usage
from agentkit.runner import contained
from apps.engine.turns.guards import Choice, Verdict, Way
from apps.optional.guardrails import finding, judging, texts
from apps.optional.guardrails.finding import Pieces, Rule, TooSlow
from apps.optional.guardrails.judging import CannotJudge
from apps.optional.guardrails.models import Guardrail, RailDecision
from apps.record.content.decisions import in_words
from apps.record.events import JSON
from parley.telemetry import logs, metrics

log = logging.getLogger("parley.guardrails")

Action, Check, Done = Guardrail.Action, Guardrail.Check, RailDecision.Done
LATE, ERROR = "late", "error"


@dataclass(frozen=True, slots=True)
class Found:
    """What one rail found in parts.

    Attributes:
        counts: by category.
        parts: without it; None if this rail can take nothing out.
        failed: it could not check: LATE, ERROR, or "".
        used: of a language model.
        reason: the model's, for who tries the rail.
    """

    counts: Counter[str] = field(default_factory=Counter)
    parts: list[JSON] | None = None
    failed: str = ""
    used: Usage | None = None
    reason: str = ""


@dataclass(frozen=True)
class Rail:
    """A guardrail, ready to check."""

    row: Guardrail

    @cached_property
    def rules(self) -> Sequence[Rule]:
        """What it finds in texts; none if it asks a model or measures."""
        if self.row.check_kind == Check.PATTERNS:
            return finding.own_rules(self.row.words, self.row.patterns, self.row.label)
        if self.row.check_kind == Check.PERSONAL:
            return finding.personal_rules(tuple(self.row.categories), self.row.region)
        return ()

    @property
    def finds(self) -> bool:
        return self.row.check_kind in (Check.PATTERNS, Check.PERSONAL)

    @property
    def may_stream(self) -> bool:
        """May text pass in pieces before all of it was checked?"""
        if not self.finds or self.row.action != Action.REDACT:
            return False
        return self.row.check_kind == Check.PERSONAL or finding.may_stream(self.row.words, self.row.patterns)

    @property
    def acts(self) -> bool:
        return not self.row.only_watch

    def checks(self, way: Way) -> bool:
        return self.row.direction in (way.value, Guardrail.Direction.BOTH)

    async def examine(self, parts: Sequence[JSON]) -> Found:
        """Check parts in bounded time. Raises nothing."""
        try:
            with contained():
                if self.row.check_kind == Check.MODEL:
                    return await self._judge(parts)
                return await asyncio.to_thread(
                    self._measure if self.row.check_kind == Check.SIZE else self._find, parts
                )
        except (TooSlow, TimeoutError):
            return Found(failed=LATE)
        except Exception as error:
            level = logging.INFO if isinstance(error, CannotJudge) else logging.WARNING
            log.log(level, "guardrail %s could not check: %s", self.row.pk, logs.describe(error, texts="none"))
            return Found(failed=ERROR)

    async def _judge(self, parts: Sequence[JSON]) -> Found:
        text = await asyncio.to_thread(texts.whole, parts)
        if not text:
            return Found()
        said = await judging.judge(self.row.question, text, self.row.model, self.row.seconds)
        return Found(Counter({"question": 1}) if said.is_yes else Counter(), used=said.used, reason=said.reason)

    def _measure(self, parts: Sequence[JSON]) -> Found:
        most = {"characters": self.row.most_characters, "files": self.row.most_files, "bytes": self.row.most_bytes}
        sizes = texts.sizes(parts)
        over = {name: sizes[name] for name, limit in most.items() if limit is not None and sizes[name] > limit}
        return Found(Counter(over))

    def _find(self, parts: Sequence[JSON]) -> Found:
        """Raises TooSlow, also for more text than can be searched."""
        counts, known, size = Counter[str](), dict[str, str](), 0
        deadline = time.monotonic() + finding.SECONDS

        def change(text: str) -> str:
            nonlocal size
            if text not in known:
                size += len(text)
                if size > finding.MAX_TEXT:
                    raise TooSlow
                spans = finding.find(text, self.rules, max(0.0, deadline - time.monotonic()))
                counts.update(finding.counts_of(spans))
                known[text] = finding.hidden(text, spans)
            return known[text]

        changed = texts.changed(parts, change)
        return Found(counts, changed)

    def decision(self, way: Way, counts: Counter[str], ms: float, failed: str = "") -> JSON:
        """The payload of its event."""
        row = self.row
        made: JSON = {"rail": str(row.pk), "name": row.name, "direction": way.value, "action": row.action}
        made |= {"counts": dict(sorted(counts.items())), "ms": round(ms)}
        made |= ({} if self.acts else {"watched": True}) | ({"failed": failed} if failed else {})
        made |= {"passed": True} if failed and row.if_fails == Guardrail.Failing.PASS else {}
        return made

    def sentence(self, way: Way, counts: Counter[str], failed: str = "") -> str:
        """Why something is stopped, and what to do."""
        name = f"The guardrail “{self.row.name}”"
        if failed:
            return f"{name} could not check this, so it was stopped. Try again, or ask a manager of the workspace."
        why = self._why(counts)
        if way is Way.IN:
            return f"{name} stopped this message: {why}. Change it, and send it again."
        return f"{name} withheld the answer: {why}. Ask for something else, or ask a manager of the workspace."

    def question(self, way: Way, counts: Counter[str]) -> str:
        what = "the message to the agent is sent" if way is Way.IN else "the agent's answer is shown"
        return f"The guardrail “{self.row.name}” asks before {what}: {self._why(counts)}."

    def _why(self, counts: Counter[str]) -> str:
        if self.row.check_kind == Check.MODEL:
            return f"the answer to “{self.row.question}” is yes"
        most = {"characters": self.row.most_characters, "files": self.row.most_files, "bytes": self.row.most_bytes}
        said = [in_words(name, count) for name, count in counts.items()]
        limits = [f"{most[name]:,} at most" for name in counts if most.get(name) is not None]
        return f"it has {', '.join(said)}{f' ({", ".join(limits)})' if limits else ''}"


def done(decision: JSON) -> RailDecision.Done:
    """What was done, of the payload of a decision."""
    if decision.get("watched"):
        return Done.WATCHED
    return Done.FAILED if decision.get("failed") else Done(decision["action"])


class RailStream:
    """A text in pieces, through the rails that hide or watch what they find (`engine.turns.guards.Stream`)."""

    def __init__(self, rails: Sequence[Rail], counted: set[str]) -> None:
        self.blocked = ""
        self._rails = [(rail, Pieces(rail.rules)) for rail in rails if rail.acts]
        self._watching = [rail for rail in rails if not rail.acts]
        self._counted = counted
        self._texts: list[str] = []
        self._microseconds: Counter[str] = Counter()
        self._failed: dict[str, str] = {}

    def feed(self, text: str) -> str:
        self._texts.append(text)
        return self._through(text, is_end=False)

    def end(self) -> str:
        rest = self._through("", is_end=True)
        self._counted.add("".join(self._texts))
        for rail, _ in self._rails:
            metrics.GUARDRAIL_SECONDS[rail.row.name].observe(self._microseconds[str(rail.row.pk)] / 1_000_000)
        return rest

    def _through(self, text: str, *, is_end: bool) -> str:
        for rail, pieces in self._rails:
            key = str(rail.row.pk)
            if self.blocked:
                return ""
            if key in self._failed:
                continue
            began = time.perf_counter()
            try:
                text = pieces.feed(text) + (pieces.end() if is_end else "")
            except TooSlow:
                self._failed[key] = LATE
                if rail.row.if_fails == Guardrail.Failing.BLOCK:
                    self.blocked = rail.sentence(Way.OUT, Counter(), LATE)
                    return ""
                text = pieces.given_up()
            self._microseconds[key] += round((time.perf_counter() - began) * 1_000_000)
        return text

    @property
    def decisions(self) -> list[JSON]:
        """Of what passed so far."""
        found = []
        for rail, pieces in self._rails:
            failed, ms = self._failed.get(str(rail.row.pk), ""), self._microseconds[str(rail.row.pk)] / 1000
            if pieces.counts or failed:
                found.append(rail.decision(Way.OUT, pieces.counts, ms, failed))
        whole = "".join(self._texts)
        for rail in self._watching:
            began = time.perf_counter()
            try:
                counts, failed = finding.counts_of(finding.find(whole, rail.rules, finding.PIECE_SECONDS)), ""
            except TooSlow:
                counts, failed = Counter[str](), LATE
            if counts or failed:
                found.append(rail.decision(Way.OUT, counts, (time.perf_counter() - began) * 1000, failed))
        return found


class RailGuard:
    """The rails for one turn (`engine.turns.guards.Guard`)."""

    def __init__(self, rails: Sequence[Rail]) -> None:
        self._rails = {way: [one for one in rails if one.checks(way)] for way in Way}
        self._counted: set[str] = set()  # texts of the answer whose findings were counted as they came
        self.ways = frozenset(way for way, found in self._rails.items() if found)
        out = [one for one in self._rails[Way.OUT] if one.acts]
        self.holds = not all(one.may_stream for one in out)
        self.judges = any(one.row.check_kind == Check.MODEL for one in out)
        self.uses_models = any(one.row.check_kind == Check.MODEL for found in self._rails.values() for one in found)
        self.asks = any(one.row.action == Action.ASK for one in out)

    async def check(self, way: Way, parts: Sequence[JSON]) -> Verdict:
        passing, decisions = list(parts), list[JSON]()
        asking: list[Rail] = []
        asks: list[str] = []
        used: list[Usage] = []
        for rail in self._rails[way]:
            began = time.perf_counter()
            found = await rail.examine(passing)
            seconds = time.perf_counter() - began
            metrics.GUARDRAIL_SECONDS[rail.row.name].observe(seconds)
            used += [found.used] if found.used else []
            if not found.counts and not found.failed:
                continue
            if not self._was_counted(way, rail, passing, found):
                decisions.append(rail.decision(way, found.counts, seconds * 1000, found.failed))
            if not rail.acts or (found.failed and rail.row.if_fails == Guardrail.Failing.PASS):
                continue
            if found.failed or rail.row.action == Action.BLOCK:
                blocked = rail.sentence(way, found.counts, found.failed)
                return Verdict(passing, decisions, blocked=blocked, used=used)
            if rail.row.action == Action.REDACT and found.parts is not None:
                passing = found.parts
            else:
                asking.append(rail)
                asks.append(rail.question(way, found.counts))
        by_managers = way is Way.OUT and any(one.row.decided_by == Guardrail.Decider.MANAGERS for one in asking)
        safe = await _without(asking, passing) if asking else None
        return Verdict(passing, decisions, asks="\n".join(asks), safe=safe, by_managers=by_managers, used=used)

    def _was_counted(self, way: Way, rail: Rail, parts: Sequence[JSON], found: Found) -> bool:
        """Is all that was found in a text that came in pieces before, as a whole?"""
        if way is Way.IN or not self._counted or not rail.finds or found.failed:
            return False
        return all(texts.whole([part]) in self._counted for part in parts if _differs(part, found, parts))

    async def earlier(self, messages: Sequence[Sequence[JSON]], decided: Choice | None) -> list[list[JSON] | None]:
        """Sizes were measured, and models were asked, when the messages came."""
        return [await self._earlier(list(parts), decided) for parts in messages]

    async def _earlier(self, passing: list[JSON], decided: Choice | None) -> list[JSON] | None:
        for rail in self._rails[Way.IN]:
            is_allowed = rail.row.action == Action.ASK and decided is Choice.SEND
            if not (rail.acts and rail.finds) or is_allowed:
                continue
            seen = await rail.examine(passing)
            if seen.failed and rail.row.if_fails == Guardrail.Failing.PASS:
                continue
            is_hidden = rail.row.action == Action.REDACT or (rail.row.action == Action.ASK and decided is not None)
            if seen.failed or (seen.counts and not (is_hidden and seen.parts is not None)):
                return None
            passing = seen.parts if seen.parts is not None else passing
        return passing

    def stream(self) -> RailStream:
        return RailStream([one for one in self._rails[Way.OUT] if one.finds], self._counted)

    def row(self, decision: JSON, context: uuid.UUID, task: uuid.UUID | None) -> models.Model:
        counts: dict[str, int] = decision["counts"]
        metrics.GUARDRAIL_DECISIONS[decision["name"], done(decision).value, decision["direction"]].inc()
        return RailDecision(
            rail_id=uuid.UUID(decision["rail"]),
            context=context,
            task=task,
            direction=decision["direction"],
            done=done(decision),
            count=sum(counts.values()) if {"characters", "bytes"}.isdisjoint(counts) else 1,
            ms=decision["ms"],
        )


def _differs(part: JSON, found: Found, parts: Sequence[JSON]) -> bool:
    at = next(number for number, one in enumerate(parts) if one is part)
    return found.parts is None or found.parts[at] != part


async def _without(rails: Sequence[Rail], parts: list[JSON]) -> list[JSON] | None:
    """The parts without what asking rails found; None if it cannot be taken out."""
    for rail in rails:
        found = await rail.examine(parts) if rail.finds else Found()
        if found.parts is None:
            return None
        parts = found.parts
    return parts
