"""The amount of load."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Counts of a round.

    Attributes:
        seconds: after which no round begins; the stacks' start is extra.
        rounds: of each benchmark on each target.
        requests: of a round, by concurrency.
        streams: short streams of a round.
        many: rows of the big tables.
        crowd, echoes: streams of one key, and measured sends of another.
        flooded: measured tasks beside a flood.
        heard_sessions, renames: of one client, and heard events.
        remote_calls: of a round, in sequence, by each way.
        remote_streams: open at once.
        deployed_calls: to an agent with a folder, of a quarter of a round.
        sessions, events: of a restored client, and of its active session.
        messages, forks: of a session, and of a round.
        cut_clients: with connections that are cut.
        steps, pictures: of a drawn plan, and how often.
        plans, plans_at_once: plans of ten steps, and their concurrency.
        fan_out: steps in each stage of a large plan.
    """

    seconds: float
    rounds: int
    requests: dict[int, int]
    streams: int
    many: int
    crowd: int
    echoes: int
    flooded: int
    heard_sessions: int
    renames: int
    remote_calls: int
    remote_streams: int
    deployed_calls: int
    sessions: int
    events: int
    messages: int
    forks: int
    cut_clients: int
    steps: int
    pictures: int
    plans: int
    plans_at_once: int
    fan_out: int


FULL = Scale(
    seconds=200,
    rounds=5,
    requests={1: 40, 8: 80, 32: 128},
    streams=30,
    many=100_000,
    crowd=2000,
    echoes=150,
    flooded=20,
    heard_sessions=1000,
    renames=300,
    remote_calls=40,
    remote_streams=200,
    deployed_calls=100,
    sessions=500,
    events=10_000,
    messages=10_000,
    forks=10,
    cut_clients=200,
    steps=200,
    pictures=9,
    plans=100,
    plans_at_once=20,
    fan_out=50,
)
QUICK = Scale(
    seconds=60,
    rounds=1,
    requests={1: 5, 8: 16},
    streams=3,
    many=120,
    crowd=60,
    echoes=20,
    flooded=5,
    heard_sessions=40,
    renames=20,
    remote_calls=3,
    remote_streams=5,
    deployed_calls=5,
    sessions=20,
    events=200,
    messages=200,
    forks=2,
    cut_clients=3,
    steps=20,
    pictures=2,
    plans=4,
    plans_at_once=2,
    fan_out=4,
)
