"""The addresses of pages and of the client API."""

from collections import Counter

import pytest
from django.urls import get_resolver

from apps.api import urls as api
from apps.web import urls as web


@pytest.mark.parametrize("module", [web, api])
def test_name_leads_to_one_address(module):
    patterns = get_resolver(module.__name__).url_patterns
    named = Counter((one.name, len(one.pattern.converters)) for one in patterns if getattr(one, "name", None))
    assert len(named) > 50
    assert [name for name, count in named.items() if count > 1] == []
