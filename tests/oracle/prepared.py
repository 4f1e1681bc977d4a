"""Everything that takes a worker time before its first line: imported once, in the process that forks
the workers.
"""

from tests.oracle.lines import corpus, tables
from tests.oracle.trial import Trial as Trial

corpus()
tables()
