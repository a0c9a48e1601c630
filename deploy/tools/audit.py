"""`make audit`: known vulnerabilities of the packages in requirements.lock.

pip-audit ends with 0 when its advisory database cannot be reached, or knows a package not at all; this does not.
Exits with 0: all packages are checked and clean; 1: some are vulnerable; 2: some could not be checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

LOCK = "requirements.lock"
MANY = 20


def audit(program: str) -> list[dict[str, Any]]:
    """What pip-audit found of each package. Raises SystemExit with its own words if it says nothing about them."""
    command = [program, "--requirement", LOCK, "--require-hashes", "--disable-pip", "--format", "json"]
    done = subprocess.run([*command, "--progress-spinner", "off"], capture_output=True, text=True)  # noqa: S603
    try:
        return list(json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError):
        print(done.stderr.strip(), file=sys.stderr)
        print("The packages could not be checked: pip-audit found no advisory database.", file=sys.stderr)
        raise SystemExit(2) from None


def report(packages: list[dict[str, Any]]) -> int:
    """Say what was found; the exit status."""
    unchecked = [package["name"] for package in packages if "skip_reason" in package]
    vulnerable = [package for package in packages if package.get("vulns")]
    for package in vulnerable:
        for vulnerability in package["vulns"]:
            fixed = ", ".join(vulnerability["fix_versions"]) or "no version yet"
            print(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}")
    print(
        f"{len(packages) - len(unchecked)} of {len(packages)} packages were checked, {len(vulnerable)} are vulnerable."
    )
    if unchecked:
        names = ", ".join(unchecked) if len(unchecked) <= MANY else "they are too many to name"
        print(f"NOT CHECKED: the advisory database did not answer for {len(unchecked)} packages ({names}).")
    return 1 if vulnerable else 2 if unchecked or not packages else 0


if __name__ == "__main__":
    sys.exit(report(audit(sys.argv[1])))
