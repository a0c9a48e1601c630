"""`python -m tests.simulation [SEED …] [--minutes M] [--steps N]`: simulated histories, each in a new database.

Prints the steps a minute, and the seed and the problems of each history that breaks a promise; then exits with 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator

HASHES = "PYTHONHASHSEED"  # the order of sets of texts is part of a history


def main() -> int:
    options = parser().parse_args()
    if os.environ.get(HASHES) != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], os.environ | {HASHES: "0"})
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DATA_DIR": folder, "DATABASE_URL": "sqlite://:memory:", "SECRET_KEY": "simulation"}
        import django

        django.setup()
        prepare()
        return simulate(options)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.simulation")
    made.add_argument("seeds", nargs="*", type=int)
    made.add_argument("--minutes", type=float, default=1.0, help="of new seeds, if none is named")
    made.add_argument("--steps", type=int, default=2_000, help="of each history, before it comes to rest")
    return made


def prepare() -> None:
    from django.core.management import call_command

    from apps.accounts.models import User
    from tests.simulation.world import register_agents

    call_command("migrate", verbosity=0)
    User.objects.create_user("ada@example.org", "password of ada")
    register_agents()


def simulate(options: argparse.Namespace) -> int:
    from tests.simulation import world
    from tests.simulation.judging import problems_of

    world.live(0, 100)  # what a process computes once
    world.forget()
    began, steps, histories, broken = time.monotonic(), 0, 0, 0
    for seed in options.seeds or new_seeds(options.minutes):
        lived = world.live(seed, options.steps)
        steps, histories = steps + lived.steps, histories + 1
        if problems := problems_of(lived):
            broken += 1
            print(f"Seed {seed} breaks a promise. Replay it: python -m tests.simulation {seed} --steps {options.steps}")
            print(*problems, sep="\n")
        world.forget()
    minutes = (time.monotonic() - began) / 60
    print(f"{histories} histories, {steps} steps, {steps / minutes:,.0f} a minute, {broken} broken")
    return 1 if broken else 0


def new_seeds(minutes: float) -> Iterator[int]:
    until, seed = time.monotonic() + minutes * 60, time.time_ns() % 10**9
    while time.monotonic() < until:
        yield seed
        seed += 1


if __name__ == "__main__":
    sys.exit(main())
