"""Messages are published by producers that stay connected."""

import pytest

from parley.work import connected_producer


def test_producer_is_used_again_unless_it_failed():
    with pytest.raises(OSError, match="gone"), connected_producer() as failed:
        raise OSError("gone")
    with connected_producer() as one, connected_producer() as other:
        assert len({failed, one, other}) == 3
    with connected_producer() as again:
        assert again is one
