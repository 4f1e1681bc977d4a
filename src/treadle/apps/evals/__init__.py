"""Evaluation of agents: cases, evaluators that score results, and reports to compare. Entry points:
`Dataset`, `evaluate`, `review`, `EvalReport`.

case.py        a case, and the interface of evaluators
dataset.py     cases, from Python, YAML files and the runs of a journal
evaluators.py  checks of a result
evaluation.py  runs of the cases, concurrent and within a budget
report.py      scores as text, JSON and HTML, and what changed between two reports
"""

from __future__ import annotations

from treadle.apps.evals.case import Case as Case
from treadle.apps.evals.case import Evaluator as Evaluator
from treadle.apps.evals.dataset import Dataset as Dataset
from treadle.apps.evals.evaluation import evaluate as evaluate
from treadle.apps.evals.evaluation import review as review
from treadle.apps.evals.evaluators import CalledTools as CalledTools
from treadle.apps.evals.evaluators import Check as Check
from treadle.apps.evals.evaluators import Contains as Contains
from treadle.apps.evals.evaluators import Exact as Exact
from treadle.apps.evals.evaluators import Fields as Fields
from treadle.apps.evals.evaluators import Judge as Judge
from treadle.apps.evals.evaluators import WithinLimits as WithinLimits
from treadle.apps.evals.report import CaseReport as CaseReport
from treadle.apps.evals.report import EvalReport as EvalReport
from treadle.apps.evals.report import Score as Score
