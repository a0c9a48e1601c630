"""Backups of a whole installation, restoring them, and moving to another database (docs/running/backup.md).

`tables` knows the rows in a form that both databases read, `database` the moment that is read and the filling of an
empty database, `files` the stored files, `container` and `sealing` the file itself, `places` and `s3` where it is, and
`keeping` how long. `writing`, `restoring`, `moving` and `comparing` are the operations.
"""

from apps.optional.backup.comparing import compare_sessions
from apps.optional.backup.container import BadBackup, Manifest
from apps.optional.backup.database import NotEmpty, Progress
from apps.optional.backup.files import BackupRunning
from apps.optional.backup.keeping import PERIODS
from apps.optional.backup.moving import StillServing, check_unused, copy_database, target_database, verify_there
from apps.optional.backup.places import Stored, stored_at
from apps.optional.backup.restoring import read_keys, restore_backup, verify_backup
from apps.optional.backup.sealing import CannotOpen, Secret
from apps.optional.backup.writing import Choices, Made, make_backup

REFUSALS = (BadBackup, BackupRunning, CannotOpen, NotEmpty, StillServing)
"""What operators are told in a sentence."""

__all__ = [
    "PERIODS",
    "REFUSALS",
    "BackupRunning",
    "BadBackup",
    "CannotOpen",
    "Choices",
    "Made",
    "Manifest",
    "NotEmpty",
    "Progress",
    "Secret",
    "StillServing",
    "Stored",
    "check_unused",
    "compare_sessions",
    "copy_database",
    "make_backup",
    "read_keys",
    "restore_backup",
    "stored_at",
    "target_database",
    "verify_backup",
    "verify_there",
]
