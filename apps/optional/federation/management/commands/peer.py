"""`./manage.py peer invite | pair CODE | list | sync | revoke DID | share SLUG | unshare SLUG`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.agents.models import CLOSED, Agent
from apps.optional.federation import pairing, sync
from apps.remote.models import Peer, SharedAgent
from parley.faces.commands import QuickCommand

NEEDS = {"pair": "the code", "revoke": "the identity (DID)", "share": "the slug", "unshare": "the slug"}


class Command(QuickCommand):
    help = "Pairs this installation with others, whose agents then appear here and whose people may use shared agents."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=["invite", "pair", "list", "sync", "revoke", "share", "unshare"])
        parser.add_argument("what", nargs="?", default="", metavar="CODE | DID | SLUG")

    def handle(self, *args: Any, do: str, what: str, **options: Any) -> None:
        if do in NEEDS and not what:
            raise CommandError(f"Give {NEEDS[do]}.")
        told = getattr(self, f"_{do}")(what)
        if told:
            self.stdout.write(told)

    def _invite(self, _: str) -> str:
        return pairing.make_code(None)[1]

    def _pair(self, code: str) -> str:
        try:
            peer = pairing.take_code(code, None)
        except pairing.PairingRefused as error:
            raise CommandError(str(error)) from None
        sync.sync_peer(peer)
        return peer.did

    def _list(self, _: str) -> str:
        rows = Peer.objects.exclude(did="").order_by("did")
        return "\n".join(f"{one.did}\t{one.state}\t{one.error or '-'}" for one in rows)

    def _sync(self, _: str) -> str:
        return f"{sync.sync_peers()} of {Peer.objects.paired().count()} answered"

    def _revoke(self, did: str) -> str:
        peer = Peer.objects.paired().filter(did=did).first()
        if peer is None:
            raise CommandError("There is no paired installation with this identity.")
        pairing.revoke(peer, None)
        return ""

    def _share(self, slug: str) -> str:
        SharedAgent.objects.get_or_create(agent=self._agent(slug))
        return ""

    def _unshare(self, slug: str) -> str:
        SharedAgent.objects.filter(agent=self._agent(slug)).delete()
        return ""

    def _agent(self, slug: str) -> Agent:
        agent = Agent.objects.filter(slug=slug).exclude(access__in=CLOSED).first()
        if agent is None:
            raise CommandError("There is no agent of this slug that everybody, or everybody with an account, may use.")
        return agent
