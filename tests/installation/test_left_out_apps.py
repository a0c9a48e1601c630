"""Each optional app can be left out, and nothing that is left notices."""

import pytest
from django.conf import settings

from tests import stack

OPTIONAL = "apps.optional."
NAMES = [path.removeprefix(OPTIONAL) for path in settings.INSTALLED_APPS if path.startswith(OPTIONAL)]
SETS = len(NAMES).bit_length()
"""A process costs seconds. Each app is left out in one or more, and of each two apps one without the other in one."""


@pytest.mark.parametrize("number", range(SETS))
def test_rest_works_without_some_apps(number):
    left_out = [name for place, name in enumerate(NAMES, 1) if place >> number & 1]
    left_out += [name for name in NAMES if name.rpartition(".")[0] in left_out]
    named = [name for name in NAMES if name not in left_out]
    with stack.prepared({}, PARLEY_APPS=",".join(named)) as own:
        own.begin_empty()
        problems = own.python("-m", "tests.installation.visiting").stdout
    assert problems == "", f"without {', '.join(left_out)}"
