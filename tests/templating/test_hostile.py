"""Whatever a template says, it takes little of the process that has it worked out."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from parley import templating
from parley.templating import Source, TemplateProblem, TemplateProblems
from parley.templating.budgets import MEMORY_BYTES
from parley.templating.processes import Processes

LONG = "{% set s = 'ab' %}" + "{% set s = s ~ s %}" * 17
LARGE = "{% set a = [3, 2, 1] %}" + "{% set a = a + a %}" * 18
HOSTILE = [
    LONG + "{% for i in range(9999) %}{{ s.upper()|length }}{% endfor %}",
    LONG + "{% for i in range(9999) %}{% if s == s.lower() %}{% endif %}{% endfor %}",
    "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{{ 'a' * 10**9 }}",
    "{{ 9**9**99 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ 'x'|center(1000000000) }}",
    "{{ ('a' ~ 'a'.rsplit('a' * 1000))|replace('', 'x') }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    LARGE + "{% for i in range(9999) %}{{ (a|sort)[0] }}{{ (a|reverse|list|sort)[0] }}{% endfor %}",
    LARGE + "{% for i in range(99) %}{{ a|tojson }}{{ a|unique|list }}{% endfor %}",
    "{% set a = 1 %}" + "{% set a = [a, a] %}" * 60 + "{{ a == a }}",
    "{{ range(9999)|map(attribute='q', default=range(9999)|list)|map('sum')|sum }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ 1" + " + 1" * 12_000 + " }}",
]
FAIR_SECONDS = 0.3  # CPU time of the caller for each


@pytest.fixture
def processes(monkeypatch):
    """One process of the test's own."""
    made = Processes(1)
    monkeypatch.setattr(templating, "PROCESSES", made)
    yield made
    made.end()


@pytest.mark.parametrize("source", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_template_costs_its_caller_little(source):
    spent = time.process_time()
    with pytest.raises(TemplateProblem) as refused:
        templating.render(source, {})
    assert str(refused.value).endswith(".")
    assert time.process_time() - spent < FAIR_SECONDS


def test_an_operation_that_cannot_be_interrupted_ends(processes):
    assert templating.render("{{ a }}", {"a": 1}) == "1"
    (first,) = processes.pids()
    names = {"a": "a" * 20_000_000, "b": "ab" + "a" * 95}  # a billion comparisons in one call of C
    with pytest.raises(TemplateProblem, match="takes too long"):
        templating.render("{{ a.rsplit(b)|length }}", names)
    assert templating.render("{{ a }}", {"a": 2}) == "2"
    assert first not in processes.pids()


def test_a_process_that_ended_starts_again(processes):
    templating.render("x", {})
    (first,) = processes.pids()
    os.kill(first, 9)
    while first in processes.pids():
        os.sched_yield()
    assert templating.render("{{ a }}", {"a": 2}) == "2"
    assert first not in processes.pids()


def test_templates_of_a_call_share_one_budget():
    slow = Source("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}")
    with pytest.raises(TemplateProblems, match="takes longer than") as refused:
        templating.work_out([Source("{{ a }}"), slow, slow], {"a": 1})
    assert [at for at, _ in refused.value.problems] == [1]


def test_memory_is_bounded(processes):
    templating.render("x", {})
    (pid,) = processes.pids()
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert f"Max address space         {MEMORY_BYTES} " in limits


def test_a_process_holds_no_secret_and_no_file(processes):
    templating.render("x", {})
    (pid,) = processes.pids()
    assert Path(f"/proc/{pid}/environ").read_bytes() == b""
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
    assert "Max open files            0 " in Path(f"/proc/{pid}/limits").read_text()


async def test_who_waits_holds_no_thread(processes):
    templating.render("x", {})
    threads, ticks = threading.active_count(), 0
    slow = [Source("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}")]
    waiting = [asyncio.create_task(templating.work_out_async(slow, {})) for _ in range(4)]
    while not all(task.done() for task in waiting):
        ticks += 1
        assert threading.active_count() <= threads
        await asyncio.sleep(0.001)
    assert all(isinstance(task.exception(), TemplateProblem) for task in waiting)
    assert ticks > 4


async def test_who_gives_up_makes_room_for_others(processes):
    slow = [Source("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}")]
    running, waiting = (asyncio.create_task(templating.work_out_async(slow, {})) for _ in range(2))
    await asyncio.sleep(0)
    for task in (waiting, running):
        task.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    assert await templating.work_out_async([Source("a", True)], {"a": 1}) == [1]
