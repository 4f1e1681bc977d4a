"""Contract of journals, over the fixtures `kind`, a `JournalKind`, and `journal`, an open journal of
it in `tmp_path`. Import its tests: `from treadle.testing.contracts.journals import *`.
"""

from __future__ import annotations

from treadle.apps.testing.contracts.journal_drivers import *  # noqa: F403  tests, for pytest
from treadle.apps.testing.contracts.journal_imports import *  # noqa: F403
from treadle.apps.testing.contracts.journal_removal import *  # noqa: F403
from treadle.apps.testing.contracts.journal_sessions import *  # noqa: F403
from treadle.apps.testing.contracts.journal_totals import *  # noqa: F403
from treadle.apps.testing.contracts.kinds import JournalKind as JournalKind
