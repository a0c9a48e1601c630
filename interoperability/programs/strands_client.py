import httpx
from a2a.client import ClientConfig
from strands.agent.a2a_agent import A2AAgent
from trying import HEADERS, Answer, main


def agent(url: str) -> A2AAgent:
    return A2AAgent(url, client_config=ClientConfig(httpx_client=httpx.AsyncClient(headers=HEADERS, timeout=20)))


async def said(url: str, *texts: str) -> list[Answer]:
    results = [await agent(url).invoke_async(text) for text in texts]
    told = ["".join(block["text"] for block in result.message["content"]) for result in results]
    return [Answer(text, result.stop_reason) for text, result in zip(told, results, strict=True)]


async def stream(url: str, text: str) -> list[str]:
    found: list[str] = []
    async for event in agent(url).stream_async(text):
        _, update = event.get("event") or (None, None)
        if update and update.kind == "artifact-update":
            found.append(update.artifact.parts[0].root.text)
    return found


main(said, stream=stream)
