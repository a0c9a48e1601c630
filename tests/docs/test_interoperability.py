"""The page of interoperability and the declared packages agree."""

import pytest

from interoperability.packages import PACKAGES, PROGRAMS
from interoperability.page import PAGE, Row
from interoperability.tries import judged

ROLES = {"client": "it calls Parley", "server": "Parley calls it"}


def test_every_package_has_a_program_and_a_row():
    page = PAGE.read_text()
    for package in PACKAGES:
        roles = [role for role in ROLES if package.path(role).exists()]
        assert roles, package.name
        for role in roles:
            assert f"| `{package.shown}` | {package.version} | {package.speaks} | {ROLES[role]} |" in page


def test_every_program_belongs_to_a_package():
    declared = {package.path(role) for package in PACKAGES for role in ROLES}
    assert set(PROGRAMS.glob("*_*.*")) <= declared


@pytest.mark.parametrize(
    ("line", "is_news"),
    [
        ({"tried": "message", "got": "Hello, Parley"}, False),
        ({"tried": "message", "got": "Hello, Parley Hello, Parley"}, True),
        ({"tried": "question", "got": ["input-required", "completed", "another task"]}, True),
        ({"tried": "second turn", "got": []}, True),
        ({"tried": "cancel", "error": "TimeoutError"}, True),
    ],
)
def test_a_wrong_answer_is_news(line, is_news):
    assert bool(Row(PACKAGES[0], True, judged([line])).unexpected) is is_news
