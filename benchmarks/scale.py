"""How much is asked of the machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Counts of one round. Everything is bounded, in number and in time.

    Attributes:
        seconds: after which no further round is begun; the stacks' start comes on top.
        rounds: how often each benchmark is run on each target.
        requests: of a round, by how many are under way at once.
        reads: GetTask and ListTasks of a round.
        streams: short streams of a round.
        chunks: artifact chunks of the long stream.
        few, many: tasks that a caller has when listing them.
        subscribers: idle streams.
        remote_calls: of a round, one after the other, by each way.
        remote_streams: that are open at once.
    """

    seconds: float
    rounds: int
    requests: dict[int, int]
    reads: int
    streams: int
    chunks: int
    few: int
    many: int
    subscribers: int
    remote_calls: int
    remote_streams: int


FULL = Scale(
    seconds=200,
    rounds=5,
    requests={1: 40, 8: 80, 32: 128},
    reads=60,
    streams=30,
    chunks=1000,
    few=1000,
    many=100_000,
    subscribers=1000,
    remote_calls=40,
    remote_streams=200,
)
QUICK = Scale(
    seconds=60,
    rounds=1,
    requests={1: 5, 8: 16},
    reads=5,
    streams=3,
    chunks=50,
    few=60,
    many=120,
    subscribers=20,
    remote_calls=3,
    remote_streams=5,
)
