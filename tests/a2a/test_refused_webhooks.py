"""A webhook that the agent does not call is refused."""

import pytest

from apps.a2a.requests import check_webhooks
from apps.agents.models import Agent
from apps.record.errors import PushNotificationNotSupported


@pytest.mark.parametrize("streams", [True, False])
def test_refused_webhooks_name_what_the_agent_offers(streams: bool) -> None:
    agent = Agent(capabilities={"pushNotifications": False, "streaming": streams})
    with pytest.raises(PushNotificationNotSupported) as refused:
        check_webhooks(agent)
    assert ("streaming method" in str(refused.value), "GetTask" in str(refused.value)) == (streams, True)
