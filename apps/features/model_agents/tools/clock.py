"""What time it is."""

import datetime
from zoneinfo import ZoneInfo

from agentkit import tool


@tool()
def current_time(time_zone: str = "UTC") -> str:
    """Tells the current date and time, with the day of the week, in a time zone such as Europe/Paris."""
    try:
        zone = ZoneInfo(time_zone)
    except (OSError, ValueError, LookupError):
        raise ValueError(f"No time zone is named {time_zone!r} here. Write one such as Europe/Paris, or UTC.") from None
    now = datetime.datetime.now(zone)
    return f"{now:%A}, {now.isoformat(sep=' ', timespec='seconds')} ({time_zone})"
