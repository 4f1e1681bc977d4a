"""The same answer in every family of types, and what else people ask for."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NotRequired, TypeVar

import msgspec
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

T = TypeVar("T")


class Season(enum.Enum):
    WARM = "warm"
    COLD = "cold"


@dataclass
class Spot:
    name: str
    days: int = 1


@dataclass
class PlaceData:
    """A place to go to."""

    city: str
    score: Annotated[float, Field(ge=0, description="From 0 up.")]
    season: Season
    tags: list[str] = field(default_factory=list)
    spot: Spot | None = None


class SpotModel(BaseModel):
    name: str
    days: int = 1


class PlaceModel(BaseModel):
    """A place to go to."""

    city: str
    score: float = Field(ge=0, description="From 0 up.")
    season: Season
    tags: list[str] = []
    spot: SpotModel | None = None


class SpotDict(TypedDict):
    name: str
    days: NotRequired[int]


class PlaceDict(TypedDict):
    """A place to go to."""

    city: str
    score: Annotated[float, Field(ge=0, description="From 0 up.")]
    season: Season
    tags: NotRequired[list[str]]
    spot: NotRequired[SpotDict | None]


class SpotStruct(msgspec.Struct):
    name: str
    days: int = 1


class PlaceStruct(msgspec.Struct):
    """A place to go to."""

    city: str
    score: Annotated[float, msgspec.Meta(ge=0, description="From 0 up.")]
    season: Season
    tags: list[str] = []
    spot: SpotStruct | None = None


PLACE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A place to go to.",
    "properties": {
        "city": {"type": "string"},
        "score": {"type": "number", "minimum": 0, "description": "From 0 up."},
        "season": {"enum": ["warm", "cold"]},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        "spot": {"anyOf": [{"$ref": "#/$defs/spot"}, {"type": "null"}]},
    },
    "required": ["city", "score", "season"],
    "additionalProperties": False,
    "$defs": {
        "spot": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "days": {"type": "integer", "default": 1}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}

PLACES: list[Any] = [PlaceData, PlaceModel, PlaceDict, PlaceStruct, PLACE_SCHEMA]
"""One answer, five families."""


@dataclass
class Tree:
    """A tree."""

    value: int
    below: list[Tree] = field(default_factory=list)


class TreeStruct(msgspec.Struct):
    value: int
    below: list[TreeStruct] = []


@dataclass
class Page(Generic[T]):
    items: list[T]


class Box(msgspec.Struct, Generic[T]):
    item: T


@dataclass
class WithStruct:
    spot: SpotStruct
    size: int


@dataclass
class Found:
    """A field that is called as the wrapping is."""

    result: str


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    tricks: list[str]


@dataclass
class Odds:
    day: datetime.date
    id: uuid.UUID
    price: Decimal
    pair: tuple[int, str]
    kinds: set[Literal["a", "b"]]
    by_name: dict[str, Spot]
