"""The keys by which agents and the platform sign: made when first needed, rotated, revoked.

Here and in everything built on it, an agent of None stands for the platform itself.
"""

from __future__ import annotations

import json
import time
from functools import partial

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.agents import jose
from apps.agents.jose import Signer
from apps.agents.models import Agent, SigningKey

KEEP_SECONDS = 10.0  # how long a process goes on with a key before it looks whether that is still the current one

_signers: dict[int | None, tuple[float, Signer]] = {}


def signer_of(agent: Agent | None) -> Signer:
    """The current key, ready to sign; one is made where there is none. Mostly without a query.

    Raises keyring.CannotDecrypt.
    """
    owner = agent.pk if agent else None
    until, signer = _signers.get(owner, (0.0, None))
    if signer is None or until < time.monotonic():
        key = SigningKey.objects.of(agent).current().first() or _make(agent, SigningKey.Algorithm.EDDSA)
        signer = Signer.of(json.loads(key.private), key.algorithm, key.created_at)
        transaction.on_commit(partial(_keep, owner, signer))  # a key whose making is rolled back is kept nowhere
    return signer


def make_first(agent: Agent | None) -> SigningKey:
    """The key of one who never had any."""
    return _make(agent, SigningKey.Algorithm.EDDSA)


def rotate(agent: Agent | None, algorithm: str = SigningKey.Algorithm.EDDSA) -> SigningKey:
    """Retire the current key, if any, and make a new one. What the old one signed can still be verified."""
    with transaction.atomic():
        for key in SigningKey.objects.of(agent).current().defer("private").select_for_update():
            _end(key)  # also one that can no longer be decrypted
        key = _make(agent, algorithm)
    _forget_after_commit()
    return key


def revoke(key: SigningKey) -> None:
    """Take all trust from a key, also for what it signed before. If it was the current one, a new one follows."""
    key.revoked_at = key.revoked_at or timezone.now()
    _end(key)
    _forget_after_commit()


def forget() -> None:
    """Look up the current keys again when they are next needed."""
    _signers.clear()


def _keep(owner: int | None, signer: Signer) -> None:
    _signers[owner] = time.monotonic() + KEEP_SECONDS, signer


def _end(key: SigningKey) -> None:
    """The key signs no more, so its private part is erased."""
    key.retired_at = key.retired_at or timezone.now()
    key.private = ""
    key.save(update_fields=["private", "retired_at", "revoked_at"])


def _make(agent: Agent | None, algorithm: str) -> SigningKey:
    private = jose.generate(algorithm)
    try:
        with transaction.atomic():
            return SigningKey.objects.create(
                kid=jose.thumbprint(private),
                algorithm=algorithm,
                agent=agent,
                public=jose.public_part(private),
                private=json.dumps(private),
            )
    except IntegrityError:  # another process made one at this very moment
        return SigningKey.objects.of(agent).current().get()


def _forget_after_commit() -> None:
    forget()
    transaction.on_commit(forget)
