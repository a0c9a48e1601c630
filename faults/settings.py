"""Settings of a Parley that is to be broken: short sweeps, and the defect that `FAULTS_PLANTED` names.

No other settings module reads that name, and the product has no code for it.
"""

import os

from tests.faults.quick import *  # noqa: F403
from tests.faults.quick import INSTALLED_APPS

WEBHOOK_WAIT_SECONDS = (1.0, 5.0)
PLANTED = os.environ.get("FAULTS_PLANTED", "")
if PLANTED:
    INSTALLED_APPS = [*INSTALLED_APPS, "faults.planted.Planted"]
