"""Mutation tests of the code that carries the invariants.

`python -m tests.mutants [--count N] [--seed N] [--services] [--only FILE] [--into FILE]` tries N changes (Cosmic
Ray's), chosen by seed, in a copy. It runs the tests that reach the changed module: those of `make test`, with
`--services` then those of `make test-services`. It prints survivors and the share killed. `--only` repeats the
survivors that `--into` wrote to a file.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from tests.tiers import ROOT, TIERS

MODULES = {
    "apps/record/ledger.py": ("tests/record", "tests/engine", "tests/simulation"),
    "apps/record/projection.py": ("tests/record", "tests/engine", "tests/simulation"),
    "apps/engine/accept.py": ("tests/engine", "tests/record", "tests/a2a", "tests/simulation"),
    "apps/record/runs.py": ("tests/engine/test_leases.py", "tests/engine", "tests/record", "tests/simulation"),
    "apps/record/reading/feed.py": ("tests/record", "tests/a2a"),
    "apps/record/reading/sync.py": ("tests/record", "tests/conversations"),
    "apps/optional/signing/signatures.py": ("tests/signing", "tests/record"),
    "apps/record/content/strict_json.py": ("tests/conformance", "tests/a2a", "tests/conversations"),
    "apps/record/models.py": ("tests/record", "tests/engine", "tests/a2a", "tests/conversations"),
    "apps/record/execution.py": ("tests/engine", "tests/record", "tests/simulation"),
    "apps/agents/models.py": ("tests/agents", "tests/record", "tests/a2a"),
    "apps/accounts/principals.py": ("tests/accounts", "tests/agents", "tests/record", "tests/conversations"),
    "apps/engine/claim.py": ("tests/engine", "tests/simulation"),
    "apps/engine/finish.py": ("tests/engine", "tests/simulation"),
    "apps/engine/send.py": ("tests/engine", "tests/a2a"),
    "apps/a2a/webhooks.py": ("tests/a2a", "tests/archive/test_cold_storage.py"),
    "apps/plans/running/engine.py": ("tests/plans",),
    "apps/plans/running/transitions.py": ("tests/plans",),
    "apps/plans/graphs.py": ("tests/plans",),
    "platform/parley/outbound/targets.py": ("tests/outbound", "tests/remote"),
    "platform/parley/outbound/exchanges.py": ("tests/outbound", "tests/remote"),
}
"""What is changed, and the tests that reach it: the nearest first."""

OPERATORS = {
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add",
    *(f"ReplaceComparisonOperator_{pair}" for pair in (
        "Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt",
        "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt", "Is_IsNot", "IsNot_Is",
    )),
}  # fmt: skip
"""Without those that change types' annotations, or nothing."""

SECONDS = 1200
"""A change that makes the tests take longer than this is noticed, too."""

Mutant = tuple[str, str, int]
"""A file, the operator, and which of its places in the file."""


def mutants(count: int, seed: int) -> list[Mutant]:
    """Equally many from each file, if possible."""
    chooser = random.Random(seed)
    piles = [chooser.sample(found, len(found)) for found in ([*_places(path)] for path in MODULES)]
    rounds = [pile[turn] for turn in range(max(map(len, piles))) for pile in piles if turn < len(pile)]
    return rounds[:count]


def _places(path: str) -> Iterator[Mutant]:
    tree = get_ast_from_path(ROOT / path)
    for name in operator_names():
        if name.removeprefix("core/") in OPERATORS:
            operator = get_operator(name)()
            places = [place for node in ast_nodes(tree) for place in operator.mutation_positions(node)]
            yield from ((path, name, number) for number in range(len(places)))


def survives(mutant: Mutant, copy: Path, *, services: bool) -> bool:
    """Whether the tests pass with the change."""
    path, name, number = mutant
    original = (copy / path).read_text()
    changed = mutate_code(original, get_operator(name)(), number)
    assert changed is not None, mutant
    (copy / path).write_text(changed)
    try:
        chosen = ["test", "services"] if services else ["test"]
        return all(_pass(copy, tier, [file for file in MODULES[path] if (copy / file).exists()]) for tier in chosen)
    finally:
        (copy / path).write_text(original)


def _pass(copy: Path, tier: str, files: list[str]) -> bool:
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", TIERS[tier].marks, *files]
    options += ["-o", "addopts=-p tests.profile"]
    environment = {**TIERS[tier].environment, **os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'platform'}"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # changes are too quick for bytecode timestamps
    command = [sys.executable, "-m", "pytest", *options]
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, stdout=output, stderr=output, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--services", action="store_true")
    parser.add_argument("--only", type=Path)
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    chosen = mutants(given.count, given.seed)
    if given.only:
        again = {tuple(mutant) for mutant in json.loads(given.only.read_text())}
        chosen = [mutant for mutant in chosen if mutant in again]
    survived = []
    with tempfile.TemporaryDirectory(prefix="parley-mutants-") as folder:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(os.cpu_count() or 1):
            copy = Path(folder, f"mutants{os.getpid()}_{number}")
            left_out = shutil.ignore_patterns(".venv", ".git", "var", ".mypy_cache", "__pycache__", ".tools")
            shutil.copytree(ROOT, copy, ignore=left_out)
            free.put(copy)

        unchanged = free.get()
        for tests in sorted({MODULES[path] for path, *_ in chosen}):
            if not _pass(unchanged, "test", [file for file in tests if (unchanged / file).exists()]):
                sys.exit(f"{', '.join(tests)} fail without any change: they say nothing of changes.")
        free.put(unchanged)

        def tried(mutant: Mutant) -> tuple[Mutant, bool]:
            copy = free.get()
            try:
                return mutant, survives(mutant, copy, services=given.services)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for mutant, alive in pool.map(tried, chosen):
                print("survived" if alive else "killed  ", *mutant, flush=True)
                if alive:
                    survived.append(mutant)
    if given.into:
        given.into.write_text(json.dumps(survived))
    killed = len(chosen) - len(survived)
    print(f"{killed} of {len(chosen)} killed: {killed / max(1, len(chosen)):.1%}")


if __name__ == "__main__":
    main()
