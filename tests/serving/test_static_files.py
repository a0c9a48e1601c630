"""What pages name is among the files that are collected."""

import re

from django.contrib import admin
from django.contrib.staticfiles.finders import get_finders
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from config.static_files import StaticFiles


def test_every_file_that_a_form_of_admin_names_is_collected(db: None, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root@example.org", "x"))
    collected = {path for finder in get_finders() for path, _ in finder.list(StaticFiles.ignore_patterns)}
    named = set()
    for model in admin.site._registry:
        page = client.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add"), follow=True)
        named |= set(re.findall(r'(?:src|href)="/static/([^"?#]+)"', page.text))
    named |= set(re.findall(r'"/static/([^"?#]+)"', client.get("/admin/agents/agent/add/?kind=model").text))
    assert len(named) > 10
    assert named <= collected
