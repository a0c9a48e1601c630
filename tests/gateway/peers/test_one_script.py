"""One script of a client passes at an agent that is hosted here, and at every remote one."""

import pytest

from tests.gateway.peers import client_script
from tests.gateway.peers.conftest import AGENTS, SLUGS

pytestmark = pytest.mark.timeout(600)  # the first one waits for two whole Parleys and five servers


@pytest.mark.parametrize("operation", list(client_script.OPERATIONS))
@pytest.mark.parametrize("agent", AGENTS)
async def test_the_script_passes(gateway, matrix, agent, operation):
    with matrix.cell(agent, operation):
        async with client_script.script(gateway.url, SLUGS[agent], gateway.demo_key) as at:
            await client_script.OPERATIONS[operation](at)
