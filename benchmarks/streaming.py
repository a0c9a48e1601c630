"""Streams: time to first event, and speed."""

from __future__ import annotations

import time

from benchmarks.figures import Figures, latencies
from benchmarks.scale import Scale
from benchmarks.target import Target


async def first_event(target: Target, scale: Scale) -> Figures:
    """SendStreamingMessage to `echo`: until the first event (task) and the last (completed)."""
    first, last = [], []
    async with target.client() as client:
        for _ in range(scale.streams + 1):
            began = time.perf_counter()
            times = [time.perf_counter() - began async for _ in client.send_streaming("echo")]
            first.append(times[0])
            last.append(times[-1])
    return latencies(first[1:], "first event", 50, 95) | latencies(last[1:], "completed", 50, 95)


async def chunks(target: Target, scale: Scale) -> Figures:
    """A stream of chunks without pauses. Readers see persisted chunks only."""
    async with target.client() as client:
        _ = [piece async for piece in client.send_streaming("bench-chunks", "10")]
        began = time.perf_counter()
        pieces = [
            (time.perf_counter() - began, p) async for p in client.send_streaming("bench-chunks", str(scale.chunks))
        ]
    received = sum(piece.count(b'"artifactUpdate"') for _, piece in pieces)
    assert received == scale.chunks + 1, f"{received} chunks came of {scale.chunks} and the closing one"
    assert b"TASK_STATE_COMPLETED" in pieces[-1][1], pieces[-1][1]
    first_chunk = next(at for at, piece in pieces if b'"artifactUpdate"' in piece)
    whole = pieces[-1][0]
    return {
        "first event ms": pieces[0][0] * 1000,
        "first chunk ms": first_chunk * 1000,
        "whole ms": whole * 1000,
        "events/s": received / whole,
    }
