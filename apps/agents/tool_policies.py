"""Which policy holds for a tool of an agent.

Without a policy that fits, tools run, except those whose author declares that they need approval. An agent that gets
its first MCP server gets the policy `mcp:* ask` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from django.core.exceptions import ValidationError

from agentkit.tools import Policy, ToolKind
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.agents.models import Agent, ToolPolicy

STRICTNESS: list[Policy] = ["run", "ask", "ask_each", "ask_two", "never"]
ALL_MCP = f"{ToolKind.MCP}:*"
WILDCARDS = frozenset("*?")


def policies_of(agent: Agent) -> dict[str, str]:
    """The agent's policies by tool or pattern. One query."""
    return dict(ToolPolicy.objects.filter(agent=agent.pk).values_list("tool", "policy"))


def policy_for(policies: Mapping[str, str], kind: ToolKind, name: str, declared: bool) -> Policy:
    """The policy of the most exact fitting entry: a name before a pattern, then the longest; of two, the stricter.

    `declared`: the tool's author wants approval. Only an entry with the tool's name permits it to run without.
    """
    full = f"{kind}:{name}"
    fitting = [one for one in policies if fnmatchcase(full if ":" in one else name, one)]
    if not fitting:
        return "ask" if declared else "run"
    best = max(map(_exactness, fitting))
    strictest = max(STRICTNESS.index(policies[one]) for one in fitting if _exactness(one) == best)  # type: ignore[arg-type]
    is_named = best[0]
    return STRICTNESS[max(strictest, STRICTNESS.index("ask")) if declared and not is_named else strictest]


def _exactness(pattern: str) -> tuple[bool, int]:
    return WILDCARDS.isdisjoint(pattern), len(pattern)


def ask_before_mcp(agent: Agent, author: User | None) -> None:
    """For an agent that gets its first MCP server, unless it has such a policy."""
    set_policies(agent, {ALL_MCP: ToolPolicy.Policy.ASK.value} | policies_of(agent), author)


def set_policies(agent: Agent, wanted: Mapping[str, str], author: User | None) -> None:
    """Replace the agent's policies. Each change is in the audit. Call it in a transaction."""
    before = policies_of(agent)
    for tool in before.keys() - wanted.keys():
        ToolPolicy.objects.filter(agent=agent, tool=tool).delete()
        audit.record(AuditAction.TOOL_POLICY_REMOVED, actor=author, object=agent, details={"tool": tool})
    for tool, policy in wanted.items():
        if before.get(tool) != policy:
            ToolPolicy.objects.update_or_create(agent=agent, tool=tool, defaults={"policy": policy})
            details = {"tool": tool, "policy": policy}
            audit.record(AuditAction.TOOL_POLICY_SET, actor=author, object=agent, details=details)


def read_policies(lines: Iterable[str]) -> dict[str, str]:
    """Policies from lines such as `mcp:*=ask`. Raises ValidationError."""
    found: dict[str, str] = {}
    for line in lines:
        tool, _, policy = line.partition("=")
        try:
            ToolPolicy(tool=tool, policy=policy).full_clean(exclude=["agent"], validate_constraints=False)
        except ValidationError:
            known = ", ".join(ToolPolicy.Policy.values)
            raise ValidationError(f"{line[:100]}: write TOOL=POLICY, such as mcp:*=ask. Policies: {known}.") from None
        found[tool] = policy
    return found


def policy_lines(agent: Agent) -> list[str]:
    """An agent's policies as lines such as `mcp:*=ask`."""
    return [f"{tool}={policy}" for tool, policy in sorted(policies_of(agent).items())]
