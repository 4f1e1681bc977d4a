"""Activity and cost of the child runs of a conversation's runs. Entry points: `ChildRuns`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from treadle._internal.units import usd
from treadle.messages import events
from treadle.tui.blocks import Block, NoticeBlock
from treadle.tui.calling import calling
from treadle.tui.live import Activity, Live


class ChildRuns:
    """Tracker of child runs. Their text is for the calling agent only and is not shown."""

    def __init__(
        self, live: Live, calls: dict[str, tuple[str, object]], clock: Callable[[], float]
    ) -> None:
        """Create a tracker. `calls`: name and arguments of calls without a result; the keys of
        child runs are `RUN:CALL`.
        """
        self._live, self._calls, self._clock = live, calls, clock
        self._agents: dict[str, str] = {}
        """Agents of child runs by run id."""
        self._owners: dict[str, str] = {}
        """Call of ours for which a child run works, by run id, if it is known."""
        self._counts: dict[str, int] = {}
        """Number of calls made by child runs, by our call id."""

    def clear(self) -> None:
        for known in (self._agents, self._owners, self._counts):
            known.clear()

    def take_count(self, call_id: str) -> int:
        """Return and forget the number of calls that child runs made for our call."""
        return self._counts.pop(call_id, 0)

    def start(self, event: events.ChildStart) -> None:
        """Assign a child of our run to the newest call that has none."""
        self._agents[event.child_run_id] = event.agent
        owners = [
            call_id
            for call_id, activity in self._live.activities.items()
            if not activity.agent and call_id not in self._owners.values()
        ]
        if owners:
            self._owners[event.child_run_id] = owners[-1]

    def apply(self, event: events.Event) -> Iterator[Block]:
        """Update the live state with an event of a child run."""
        key = f"{event.run_id}:{getattr(event, 'call_id', '')}"
        match event:
            case events.ChildStart():
                self._agents[event.child_run_id] = event.agent
                if (owner := self._owners.get(event.run_id)) is not None:
                    self._owners[event.child_run_id] = owner
            case events.UsageReported():
                self._live.add_cost(event.cost_usd)
                self._live.child_usd = usd(
                    self._live.child_usd,
                    event.cost_usd if isinstance(event.cost_usd, float | int) else None,
                )
            case events.Warned():
                self._forget(key)
                agent = self._agents.get(event.run_id, "")
                yield NoticeBlock(f"{agent}: {event.text}" if agent else event.text, "warning")
            case events.RunEnd():
                for left in [
                    key
                    for key in (*self._calls, *self._live.activities)
                    if key.startswith(f"{event.run_id}:")
                ]:
                    self._forget(left)
            case _:
                self._call(event, key)

    def _call(self, event: events.Event, key: str) -> None:
        match event:
            case events.ToolCallAsked():
                self._calls[key] = (event.name, event.arguments)
            case events.ApprovalRequested():
                self._calls.setdefault(key, (event.name, event.arguments))
                self._begin(event.run_id, key, event.name, event.arguments, waits=True)
            case events.ToolCallStart():
                self._begin(event.run_id, key, *self._calls.get(key, (event.name, "")))
                if (owner := self._owners.get(event.run_id)) is not None:
                    self._counts[owner] = self._counts.get(owner, 0) + 1
            case events.ApprovalResolved():
                self._live.activities.pop(key, None)
            case events.ToolCallEnd():
                self._forget(key)
            case _:
                return

    def _begin(
        self, run_id: str, key: str, name: str, arguments: object, *, waits: bool = False
    ) -> None:
        self._live.activities[key] = Activity(
            call=calling(name, arguments),
            since=self._clock(),
            agent=self._agents.get(run_id, ""),
            waits=waits,
        )

    def _forget(self, key: str) -> None:
        self._calls.pop(key, None)
        self._live.activities.pop(key, None)
