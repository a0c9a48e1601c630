from parley.registry import ParleyApp


class BackupConfig(ParleyApp):
    """Commands that back up, restore and move an installation."""
