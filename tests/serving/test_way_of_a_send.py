"""A send stays as short as docs/explanation/cost-of-a-send.md says."""

import re
import subprocess
import sys

from tests import patterns, stack

COUNTED = {"files": 54, "functions": 252, "calls": 381}
"""By `benchmarks.trace_send`, which takes the shortest of five sends. Lower these numbers when a send gets shorter.

Rules that others ask, too, such as `ApiKey.is_expired`, are called and not copied, though each is a function more.
"""
MARGIN = 1.1


def test_a_send_enters_only_known_code():
    database = stack.migrated(services={}) / patterns.DATABASE
    command = [sys.executable, "-m", "benchmarks.trace_send", "--database", str(database)]
    said = subprocess.run(command, cwd=stack.ROOT, capture_output=True, text=True, check=True).stdout
    found = {name: int(number) for number, name in re.findall(r"(\d+) (files|functions|calls)\b", said)}
    assert found.keys() == COUNTED.keys(), said
    assert {name: found[name] for name in found if found[name] > COUNTED[name] * MARGIN} == {}, said
