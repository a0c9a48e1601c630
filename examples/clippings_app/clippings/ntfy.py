"""A channel for notifications: a topic of ntfy (https://docs.ntfy.sh/publish/), such as https://ntfy.sh/my-topic."""

from apps.notifications.channel_types import ChannelType
from apps.notifications.wording import Notice


def body_of(notice: Notice) -> bytes:
    return "\n".join(filter(None, (notice.headline, notice.text[:500], notice.url))).encode()


NTFY = ChannelType("ntfy", "A topic of ntfy", body_of, {"Content-Type": "text/plain", "Title": "Parley"})
