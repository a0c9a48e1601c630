from crewai.a2a.auth import BearerTokenAuth
from crewai.a2a.utils.delegation import aexecute_a2a_delegation
from trying import KEY, Answer, going_on, main


async def said(url: str, *texts: str) -> list[Answer]:
    card, auth, answers = f"{url}/.well-known/agent-card.json", BearerTokenAuth(token=KEY), []
    for text in texts:
        told = await aexecute_a2a_delegation(card, auth, 20, text, **going_on(answers))
        last = told["history"][-1]
        answer = told.get("result") or told.get("error", "")
        answers.append(Answer(answer, told["status"].value, last.task_id, last.context_id))
    return answers


main(said)
