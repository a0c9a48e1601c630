"""The files of deploy/, and the wheel."""
