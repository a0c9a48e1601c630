"""Plans over an agent without work, to measure the engine."""

from __future__ import annotations

from typing import Any

AGENT = "echo"
STEPS = 10
STAGES = 4


def small(agent: str = AGENT) -> dict[str, Any]:
    """Ten steps: one, four in parallel, a join, two in parallel, and two in a row."""
    said = {
        "begin": "{{ inputs.text }}",
        **{f"part_{one}": f"{{{{ steps.begin.text }}}} {one}" for one in "abcd"},
        "join": "{{ steps.part_a.text }}, {{ steps.part_b.text }}, {{ steps.part_c.text }}, {{ steps.part_d.text }}",
        "left": "{{ steps.join.text }} left",
        "right": "{{ steps.join.text }} right",
        "both": "{{ steps.left.text }} {{ steps.right.text }}",
        "end": "{{ steps.both.text|length }}",
    }
    assert len(said) == STEPS
    return _plan("Small", {key: {"agent": agent, "message": text} for key, text in said.items()})


def wide(agent: str = AGENT) -> dict[str, Any]:
    """Four stages, each of as many steps as the text says; each step uses one of the stage before."""
    elements = ["range(inputs.text|int)|list", *(f"steps.stage_{number}" for number in range(1, STAGES))]
    steps = {
        f"stage_{number}": {"agent": agent, "for_each": each, "message": "{{ index }}" if number == 1 else "{{ item }}"}
        for number, each in enumerate(elements, 1)
    }
    return _plan("Wide", steps) | {"limit": 500, "outputs": [f"stage_{STAGES}"]}


def _plan(name: str, steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": "Measures the engine.", "steps": steps}


SMALL, LARGE = "bench-small", "bench-large"
PLANS = {SMALL: small(), LARGE: wide()}
"""By slug."""
