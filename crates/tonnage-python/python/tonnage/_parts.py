"""Unloads in parts, which other processes read."""

from __future__ import annotations

import json
import uuid

from ._arguments import arguments
from ._errors import ConfigError
from ._stream import Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._database import Url


class UnloadPart:
    """A part of an unload. It is pickled with the URL and its password, and does not hold its state."""

    __slots__ = ("_url", "_arguments", "_part", "_name")

    def __init__(self, url: list[str], written: list[str], part: str, name: str) -> None:
        self._url, self._arguments, self._part, self._name = url, written, part, name

    def __reduce__(self) -> tuple[object, ...]:
        return UnloadPart, (self._url, self._arguments, self._part, self._name)

    def __dask_tokenize__(self) -> object:
        return self._name

    def __repr__(self) -> str:
        return f"<UnloadPart {self._name}>"

    def read(self) -> Rows:
        """The rows of this part, over a connection of their own."""
        from ._database import Database

        return Rows(Database(self._url)._native.unload_part(self._arguments, self._part))


class UnloadParts:
    """A table or a query, cut into parts.

    Attributes
    ----------
    parts : list of UnloadPart
        Disjoint, and together everything.
    notes : list of str
        What one should know.
    holds : bool
        Whether all parts are of one state, which this object holds, in this process.
    """

    def __init__(self, url: Url, options: Mapping[str, Any], most: int, *, one_state: bool) -> None:
        from ._database import Database, _places

        if (options.get("table") is None) == (options.get("query") is None):
            raise ConfigError("nothing says what to read", hint='table="orders" or query="select ..."')
        if most < 1:
            raise ConfigError("there is at least one partition")
        places = _places(url)
        written = [*arguments("unload", options), "--output=-"]
        self._cut = Database(places)._native.cut(written, most, one_state)
        self._places, self._arguments = places, written
        name = uuid.uuid4().hex
        self.parts = [
            UnloadPart(places, written, part, f"{name}-{number}")
            for number, part in enumerate(self._cut.parts)
        ]
        self.notes = self._cut.notes
        self.holds = self._cut.holds

    def empty(self) -> Rows:
        """No row, with the columns."""
        return Rows(self._cut.empty())

    def written(self) -> str:
        """The parts as text, for :func:`read_text`; without the URL."""
        return json.dumps({"arguments": self._arguments, "parts": self._cut.parts})

    def close(self) -> None:
        """End the state: parts that are begun later fail."""
        self._cut.close()


def read_text(url: Url, written: str) -> list[UnloadPart]:
    """Parts of :meth:`UnloadParts.written`, whose state another process holds."""
    from ._database import _places

    found = json.loads(written)
    places = _places(url)
    return [
        UnloadPart(places, found["arguments"], part, f"part-{number}") for number, part in enumerate(found["parts"])
    ]
