"""Nothing is collected while all is imported, and what is imported is left out of it afterwards."""

import gc


def test_garbage_is_collected_again_once_all_is_imported() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
