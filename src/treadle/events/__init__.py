"""Event delivery: from journal entries to subscribers, callbacks and telemetry. hooks/ has the
hooks, telemetry/ the spans and logs.

    feed.py         publishes the events of one run
    joining.py      shorter queues for slow readers
    hub.py          publish and subscribe over all runs
    callbacks.py    functions called with the events of a run
    follow.py       follows a run from any process
    live_deltas.py  sends deltas to followers in other processes
    tracing.py      `Tracer`: the tracing contract

The event types are re-exported here.
"""

from __future__ import annotations

from treadle.messages.events import DELTAS as DELTAS
from treadle.messages.events import TOOL_EVENTS as TOOL_EVENTS
from treadle.messages.events import ApprovalRequested as ApprovalRequested
from treadle.messages.events import ApprovalResolved as ApprovalResolved
from treadle.messages.events import ChildEnd as ChildEnd
from treadle.messages.events import ChildStart as ChildStart
from treadle.messages.events import Compacted as Compacted
from treadle.messages.events import ErrorInfo as ErrorInfo
from treadle.messages.events import ErrorRaised as ErrorRaised
from treadle.messages.events import Event as Event
from treadle.messages.events import InputAdded as InputAdded
from treadle.messages.events import LimitWarning as LimitWarning
from treadle.messages.events import MessageAdded as MessageAdded
from treadle.messages.events import OutputReady as OutputReady
from treadle.messages.events import ReasoningDelta as ReasoningDelta
from treadle.messages.events import ReasoningEnd as ReasoningEnd
from treadle.messages.events import ReasoningStart as ReasoningStart
from treadle.messages.events import Retry as Retry
from treadle.messages.events import RunEnd as RunEnd
from treadle.messages.events import RunStart as RunStart
from treadle.messages.events import TextDelta as TextDelta
from treadle.messages.events import ToolCallAsked as ToolCallAsked
from treadle.messages.events import ToolCallDelta as ToolCallDelta
from treadle.messages.events import ToolCallEnd as ToolCallEnd
from treadle.messages.events import ToolCallStart as ToolCallStart
from treadle.messages.events import ToolProgress as ToolProgress
from treadle.messages.events import TurnEnd as TurnEnd
from treadle.messages.events import TurnStart as TurnStart
from treadle.messages.events import UsageReported as UsageReported
from treadle.messages.events import Warned as Warned
