"""Keep what the notebooks run under test out of the user's own history."""

import os

os.environ["OAI_NB_HISTORY"] = "off"
