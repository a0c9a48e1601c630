"""The showcase's plans, taken step by step by hand: each agent is sent what the plan's file says, in its order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from agentkit import Completed, InputRequired, load_handler, testing
from apps.orchestration import templates
from apps.orchestration.results import ArtifactResult, StepResult, names_for
from apps.showcase import loading

DATA = Path(loading.__file__).parent / "research" / "data"
HANDLERS = {shown.slug: load_handler(shown.handler) for shown in loading.AGENTS}

Parts = list[dict[str, Any]]


def message(text: str, parts: Parts = (), **more: Any) -> dict[str, Any]:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}, *parts], **more}


def csv_part(name: str, content: str) -> dict[str, Any]:
    return {"text": content, "filename": name, "mediaType": "text/csv"}


def data(run: testing.Run) -> dict[str, Any]:
    """The first JSON that a run delivered."""
    return next(value for artifact in run.delivered for value in artifact.data)


def sample(name: str) -> str:
    return (DATA / name).read_text()


async def research(
    uploads: Mapping[str, str] | None = None, answers: Mapping[str, str] | None = None
) -> dict[str, testing.Run]:
    """The research plan: uploads by the keys of its human steps, answers by the slots of its questions.

    It ends where an agent fails, or asks for what there is no answer to.
    """
    files = {f"{name}_data": sample(f"{name}.csv") for name in ("screening", "expression", "validation")}
    files |= uploads or {}
    told = {"modality": "small molecules", "cell_line": "MRC-5"} | dict(answers or {})
    runs: dict[str, testing.Run] = {}
    results: dict[str, StepResult] = {}
    for key, step in loading.plan("research").steps.items():
        names = names_for({"topic": "lung fibrosis"}, results)
        if step.person:
            assert templates.render(step.person.ask, names)
            uploaded = ArtifactResult.of(f"{key}.csv", [csv_part(f"{key.removesuffix('_data')}.csv", files[key])])
            results[key] = StepResult.of(key, "completed", "", [uploaded])
            continue
        attached = [part for expression in step.attach for part in _parts(templates.value(expression, names))]
        metadata = {"skillId": step.skill} if step.skill else {}
        sent = message(templates.render(step.message, names), attached, metadata=metadata)
        run = await testing.run(HANDLERS[step.agent], sent)
        if isinstance(run.outcome, InputRequired) and run.outcome.slot in told:
            run = await run.answer(told[run.outcome.slot])
        runs[key] = run
        if not isinstance(run.outcome, Completed):
            break
        delivered = [ArtifactResult.of(one.name, [dict(part) for part in one.parts]) for one in run.artifacts]
        results[key] = StepResult.of(key, "completed", run.said, delivered)
    return runs


def _parts(given: Any) -> Parts:
    """Of one artifact, or of several."""
    return [dict(part) for one in (given if isinstance(given, list) else [given]) for part in one.parts]
