"""`python -m interoperability [--environments FOLDER] [--write] [NAME …]`.

It exits with 1 if something differs from what `packages.py` declares.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from interoperability import page, running
from interoperability.packages import PACKAGES, Package
from interoperability.tries import Outcome, judged, outcomes
from tests import stack

CARDS = {"agno": "/a2a/agents/turns/.well-known/agent-card.json"}
CARD = "/.well-known/agent-card.json"


def main() -> None:
    names = [package.program for package in PACKAGES]
    options = argparse.ArgumentParser(prog="python -m interoperability", description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; without any, all")
    options.add_argument("--environments", type=Path, default=stack.ROOT / "var" / "interoperability", metavar="FOLDER")
    options.add_argument("--write", action="store_true", help="update docs/reference/interoperability.md")
    chosen = options.parse_args()
    if unknown := set(chosen.names) - set(names):
        options.error(f"there is no {', '.join(sorted(unknown))}")
    wanted = [package for package in PACKAGES if not chosen.names or package.program in chosen.names]
    if chosen.write and len(wanted) < len(PACKAGES):
        options.error("--write needs all packages")
    with stack.running(services={}, OUTBOUND_ALLOW="127.0.0.0/8", CARDS_FOR_OLD_CLIENTS="true") as parley:
        rows = [row for package in wanted for row in tried(package, chosen.environments, parley)]
    if chosen.write:
        page.write(rows)
    sys.exit(any(row.unexpected for row in rows))


def tried(package: Package, environments: Path, parley: stack.Stack) -> Iterator[page.Row]:
    try:
        place: Path | None = running.install(package, environments.resolve())
    except subprocess.CalledProcessError:
        place = None
    for role, trying in (("client", calls), ("server", is_called)):
        if package.path(role).exists():
            found = trying(package, place, parley) if place else [Outcome("install", "its installer failed")]
            row = page.Row(package, role == "client", found)
            print(row, *row.unexpected, sep="\n  ", flush=True)
            yield row


def calls(package: Package, place: Path, parley: stack.Stack) -> list[Outcome]:
    return judged(running.client_says(package, place, PARLEY_URL=f"{parley.url}/a2a", KEY=parley.demo_key))


def is_called(package: Package, place: Path, parley: stack.Stack) -> list[Outcome]:
    slug, card = package.program.replace("_", "-"), CARDS.get(package.program, CARD)
    try:
        with running.server(package, place, card) as url:
            done = parley.manage("register_agent", slug, "--card", f"{url}{card}", "--access=public", check=False)
            if done.returncode:
                return [Outcome("register", done.stderr.strip())]
            return asyncio.run(outcomes(parley, slug))
    except RuntimeError as error:
        return [Outcome("start", str(error))]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that processes and folders are removed
    main()
