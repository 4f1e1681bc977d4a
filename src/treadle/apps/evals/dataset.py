"""Cases to run an agent on: from Python, from YAML files as pydantic-evals writes them, and from
the runs of a journal. Entry point: `Dataset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

from treadle.apps.evals.case import Case, Evaluator
from treadle.apps.evals.evaluators import plain_output, read_evaluator, written_evaluator
from treadle.errors import AgentError
from treadle.messages.message import Message
from treadle.runtime.runtime import Runtime


@dataclass(frozen=True)
class Dataset:
    """Cases, and evaluators that apply to all of them.

    Attributes:
        cases: The cases; their names must differ.
        evaluators: Evaluators of every case.
        name: Name in reports.
    """

    cases: Sequence[Case]
    evaluators: Sequence[Evaluator] = ()
    name: str = field(default="dataset", kw_only=True)

    def __post_init__(self) -> None:
        """Name the cases that have no name. Raises AgentError(invalid) for a repeated name."""
        cases = tuple(
            case if case.name else replace(case, name=f"case {number}")
            for number, case in enumerate(self.cases, 1)
        )
        names = [case.name for case in cases]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise AgentError("invalid", f"two cases are named {twice!r}: give them different names")
        object.__setattr__(self, "cases", cases)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a dataset from a YAML file in the format of pydantic-evals: `cases:` with `name`,
        `inputs`, `expected_output`, `metadata` and `evaluators`, and `evaluators:` for all.

        Blocks while it reads. Raises AgentError(invalid), with the case.
        """
        import yaml  # noqa: PLC0415  needed only for files

        try:
            found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as e:
            raise AgentError("invalid", f"cannot read the dataset {str(path)!r}: {e}") from e
        if not isinstance(found, dict) or not isinstance(
            cases := cast("dict[str, Any]", found).get("cases"), list
        ):
            raise AgentError("invalid", f"the dataset {str(path)!r} has no list of cases")
        document = cast("dict[str, Any]", found)
        return cls(
            [
                _read_case(one, f"{path}: case {i}")
                for i, one in enumerate(cast("list[Any]", cases), 1)
            ],
            [read_evaluator(one) for one in document.get("evaluators") or ()],
            name=str(document.get("name") or Path(path).stem),
        )

    def to_yaml(self, path: str | Path) -> None:
        """Write the dataset to a YAML file that pydantic-evals can read too, as far as it has the
        same evaluators.

        Blocks while it writes. Raises AgentError(invalid) for evaluators that are functions.
        """
        import yaml  # noqa: PLC0415  needed only for files

        document = {
            "name": self.name,
            "cases": [_written_case(case) for case in self.cases],
            "evaluators": [written_evaluator(one) for one in self.evaluators],
        }
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    async def from_runs(
        cls,
        runtime: Runtime,
        run_ids: Iterable[str],
        evaluators: Sequence[Evaluator] = (),
        *,
        name: str = "runs",
    ) -> Self:
        """Make a case of each completed run of the runtime's journal: its prompt, and its output as
        the expected one. Other runs are left out.

        Raises AgentError(invalid) for an unknown run.
        """
        cases = list[Case]()
        for run_id in run_ids:
            state = await runtime.journal.load(run_id)
            result = await runtime.replay(run_id)
            if state.started is not None and state.finished is not None and result.success:
                asked: Message = state.started.input
                output = plain_output(result)
                cases.append(Case(asked.text, output, name=run_id, run_id=run_id))
        return cls(cases, evaluators, name=name)


def _read_case(said: Any, place: str) -> Case:
    if not isinstance(said, dict) or "inputs" not in said:
        raise AgentError("invalid", f"{place} has no inputs")
    one = cast("dict[str, Any]", said)
    try:
        evaluators = [read_evaluator(each) for each in one.get("evaluators") or ()]
    except AgentError as e:
        raise AgentError(e.kind, f"{place}: {e.message}") from e
    return Case(
        one["inputs"],
        one.get("expected_output"),
        name=str(one.get("name") or ""),
        evaluators=evaluators,
        metadata=one.get("metadata"),
        run_id=one.get("run_id"),
    )


def _written_case(case: Case) -> dict[str, Any]:
    fields = {
        "name": case.name,
        "inputs": case.inputs,
        "expected_output": case.expected_output,
        "metadata": case.metadata,
        "evaluators": [written_evaluator(one) for one in case.evaluators],
        "run_id": case.run_id,
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}
