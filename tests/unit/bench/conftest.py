"""`bench` is run from the repository and not installed, so the tests put the repository on the path."""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))
