"""Features that an installation can leave out: `PARLEY_APPS` names those that it has."""
