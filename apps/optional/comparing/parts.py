"""What comparing adds to other pages."""

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.agents.models import Agent
from apps.optional.comparing import counting


def compare() -> SafeString:
    return render_to_string("comparing/_compare.html")


def compare_with() -> SafeString:
    return render_to_string("comparing/_compare_with.html")


def preferred_by_people(agent: Agent) -> SafeString:
    return render_to_string("comparing/_preferred.html", {"agent": agent, "found": counting.preferences(agent)})
