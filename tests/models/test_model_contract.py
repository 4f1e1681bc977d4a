"""The contract of models, over those that need no provider. The wires have a suite of their own."""

from __future__ import annotations

import pytest

from treadle.apps.testing.contracts.models import *  # noqa: F403  every test of the contract
from treadle.models.model import Model
from treadle.models.providers.fallback import FallbackModel
from treadle.testing import ScriptedModel


@pytest.fixture(params=["script", "fallback"])
def model(request: pytest.FixtureRequest) -> Model:
    first, second = (
        ScriptedModel(lambda _: {"text": "Hello to you."}, name=f"script:{name}") for name in "ab"
    )
    return first if request.param == "script" else FallbackModel(first, second)
