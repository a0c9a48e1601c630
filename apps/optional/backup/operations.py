"""Backups of a whole installation, restoring them, and moving to another database (docs/running/backup.md).

`tables` knows the rows in a form that both databases read, `database` the moment that is read and the filling of an
empty database, `files` the stored files, `container` and `sealing` the file itself. `writing`, `restoring`, `moving`
and `comparing` are the operations.
"""

from apps.optional.backup.comparing import Comparison, compare_sessions
from apps.optional.backup.container import BadBackup, Manifest
from apps.optional.backup.database import NotEmpty, Progress
from apps.optional.backup.files import BackupRunning
from apps.optional.backup.moving import StillServing, check_unused, copy_database, target_database, verify_there
from apps.optional.backup.restoring import read_keys, restore_backup, verify_backup
from apps.optional.backup.sealing import CannotOpen, Secret
from apps.optional.backup.writing import Choices, check_possible, write_backup

REFUSALS = (BadBackup, BackupRunning, CannotOpen, NotEmpty, StillServing)
"""What operators are told in a sentence."""

__all__ = [
    "REFUSALS",
    "BackupRunning",
    "BadBackup",
    "CannotOpen",
    "Choices",
    "Comparison",
    "Manifest",
    "NotEmpty",
    "Progress",
    "Secret",
    "StillServing",
    "check_possible",
    "check_unused",
    "compare_sessions",
    "copy_database",
    "read_keys",
    "restore_backup",
    "target_database",
    "verify_backup",
    "verify_there",
    "write_backup",
]
