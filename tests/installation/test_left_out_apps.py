"""Each optional app can be left out, and nothing that is left notices."""

from itertools import combinations, count
from math import comb

import pytest
from django.conf import settings

from tests import stack

OPTIONAL = "apps.optional."
NAMES = [path.removeprefix(OPTIONAL) for path in settings.INSTALLED_APPS if path.startswith(OPTIONAL)]
SETS = next(number for number in count(1) if comb(number, number // 2) >= len(NAMES))
"""A process costs seconds. Each app is left out in half of them, and for each two apps one without the other."""
PLACES = dict(zip(NAMES, combinations(range(SETS), SETS // 2), strict=False))


@pytest.mark.parametrize("number", range(SETS))
def test_rest_works_without_some_apps(number):
    left_out = [name for name in NAMES if number in PLACES[name]]
    left_out += [name for name in NAMES if name.rpartition(".")[0] in left_out]
    named = [name for name in NAMES if name not in left_out]
    with stack.prepared({}, PARLEY_APPS=",".join(named)) as own:
        own.begin_empty()
        problems = own.python("-m", "tests.installation.visiting").stdout
    assert problems == "", f"without {', '.join(left_out)}"
