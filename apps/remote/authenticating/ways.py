"""The ways in that a card names: alternatives, each of schemes that are needed together (A2A 1.0 §4.4.1, §4.4.5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, product

from a2a.types import AgentCard, AgentSkill, SecurityRequirement

from apps.remote.authenticating.origins import origin_of_card
from apps.remote.authenticating.schemes import Kind, Scheme, schemes_of, unknown

MOST_WAYS = 50  # that are looked at: a card is no puzzle


@dataclass(frozen=True, slots=True)
class Way:
    """Schemes that together let one in; `skill` where it is a skill that asks for them."""

    schemes: tuple[Scheme, ...]
    skill: str = ""

    @property
    def problem(self) -> str:
        """Why Parley cannot go this way; "" where it can."""
        problems = [scheme.problem for scheme in self.schemes if scheme.problem]
        slots = [scheme.slot for scheme in self.schemes if not scheme.problem]
        if not problems and len(set(slots)) < len(slots):
            return "The card asks for two credentials in the same place of a request."
        return " ".join(dict.fromkeys(problems))

    def __add__(self, other: Way) -> Way:
        """Both together; of a scheme that both have, the scopes of both."""
        named = {scheme.name: scheme for scheme in self.schemes}
        for scheme in other.schemes:
            known = named.get(scheme.name)
            scopes = dict.fromkeys((*(known.scopes if known else ()), *scheme.scopes))
            named[scheme.name] = dataclasses.replace(scheme, scopes=tuple(scopes))
        return Way(tuple(named.values()), self.skill or other.skill)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a card asks of its callers.

    Attributes:
        origin: where the agent is called, and a credential is sent.
        ways: one of them lets a caller in; none where the agent asks for nothing.
        of_skills: by a skill's id, one of which it wants besides.
        is_optional: is a caller let in without any?
        schemes: all that the card declares or names.
    """

    origin: str
    ways: tuple[Way, ...]
    of_skills: dict[str, tuple[Way, ...]]
    is_optional: bool
    schemes: dict[str, Scheme]

    def for_skill(self, skill: str) -> tuple[tuple[Way, ...], bool]:
        """The ways for work with a skill ("": any), and whether it can be done without."""
        own = self.of_skills.get(skill, ())
        if not own:
            return self._ways_or_any(), self.is_optional
        together = [one + other for one, other in product(self.ways, own)] if self.ways else list(own)
        alone = own if self.is_optional else ()
        return tuple(_unique((*together, *alone)))[:MOST_WAYS], False

    def _ways_or_any(self) -> tuple[Way, ...]:
        """Where nothing is required, what is declared may still be used."""
        if self.ways:
            return self.ways
        of_skills = [way for ways in self.of_skills.values() for way in ways]
        return tuple(_unique((*of_skills, *(Way((scheme,)) for scheme in self.schemes.values()))))[:MOST_WAYS]


def wanted(card: AgentCard) -> Wanted:
    """What the card asks for, in its order of preference."""
    declared = schemes_of(card)
    alternatives = [_way(one, declared) for one in card.security_requirements[:MOST_WAYS]]
    ways = tuple(way for way in alternatives if way.schemes)
    of_skills = {skill.id: found for skill in card.skills if (found := _ways_of(skill, declared))}
    named = {scheme.name: scheme for way in chain(ways, *of_skills.values()) for scheme in way.schemes}
    return Wanted(
        origin=origin_of_card(card),
        ways=ways,
        of_skills=of_skills,
        is_optional=len(ways) < len(alternatives) or not alternatives,
        schemes=named | declared,
    )


def _ways_of(skill: AgentSkill, declared: dict[str, Scheme]) -> tuple[Way, ...]:
    """What a skill wants besides; nothing where one of its alternatives is nothing."""
    ways = tuple(_way(one, declared, skill.name) for one in skill.security_requirements[:MOST_WAYS])
    return ways if all(way.schemes for way in ways) else ()


def _way(requirement: SecurityRequirement, declared: dict[str, Scheme], skill: str = "") -> Way:
    schemes = []
    for name, scopes in sorted(requirement.schemes.items()):
        scheme = declared.get(name) or unknown(name)
        if scheme.kind is Kind.CLIENT_CREDENTIALS:
            scheme = dataclasses.replace(scheme, scopes=tuple(scopes.list))
        schemes.append(scheme)
    return Way(tuple(schemes), skill)


def _unique(ways: Iterable[Way]) -> list[Way]:
    return list(dict.fromkeys(ways))
