"""What rows come from: files, Arrow data, objects."""

from __future__ import annotations

import os
from itertools import chain, islice

from . import _tonnage
from ._errors import ConfigError, SchemaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

# Rows that are looked at before the first is loaded, for the names and types of their columns.
SAMPLE_ROWS = 1_000


class Described:
    """Rows, ready for the engine, and what is to be said of them."""

    __slots__ = ("rows", "notes", "types")

    def __init__(self, rows: list[str] | _tonnage.Source, notes: list[str], types: dict[str, str]) -> None:
        self.rows = rows
        self.notes = notes
        # The types of columns that a table made for them would have, where only the objects say them.
        self.types = types


def describe(
    source: Any,
    *,
    columns: list[str] | None = None,
    nan: str | None = None,
    index: bool = False,
    timezone: str | None = None,
    source_id: str | None = None,
    shown: str | None = None,
) -> Described:
    """Find out what ``source`` is."""
    if nan not in (None, "null", "keep"):
        raise ConfigError(f"nan={nan!r} is unknown", hint='nan="null" makes nulls of them, nan="keep" leaves them numbers')
    files = _files(source)
    if files is not None:
        if source_id is not None:
            raise ConfigError("source_id is for rows of the program", hint="files are told by path and content; leave it out")
        return Described(files, [], {})
    notes: list[str] = []
    types: dict[str, str] = {}
    names: list[str] = []
    make: Callable[[], Any]
    if callable(source) and not _is_arrow(source) and not _is_pandas(source):
        first = [source()]
        called = source

        def again() -> Any:
            return first.pop() if first else called()

        found = _kind(first[0], columns, nan, index, notes)
        if found is None:
            raise _unknown(first[0])
        kind, convert, names, types, begun = found
        if begun is not None:
            first[0] = begun

        def make() -> Any:
            return convert(again())
    else:
        found = _kind(source, columns, nan, index, notes)
        if found is None:
            raise _unknown(source)
        kind, convert, names, types, begun = found
        is_once = begun is not None or _is_once(source)
        if source_id is not None and is_once:
            raise ConfigError(
                f"a {type(source).__name__} can be read only once, and a run with a source_id may have to read it again",
                hint="give a function that makes it: lambda: ...",
            )
        whole = source if begun is None else begun

        def make() -> Any:
            return convert(whole)

    name = shown or _name(source)
    native = _tonnage.Source(make, name, kind, names, timezone, nan == "null", source_id)
    return Described(native, notes, types)


def _files(source: Any) -> list[str] | None:
    if isinstance(source, (str, os.PathLike)):
        return [str(os.fspath(source))]
    if isinstance(source, (list, tuple)) and source and all(isinstance(one, (str, os.PathLike)) for one in source):
        return [str(os.fspath(one)) for one in source]
    return None


def _name(source: Any) -> str:
    if _is_pandas(source):
        return "DataFrame"
    return type(source).__name__ if not callable(source) else getattr(source, "__name__", "rows").strip("<>")


def _is_arrow(source: Any) -> bool:
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def _is_pandas(source: Any) -> bool:
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _is_once(source: Any) -> bool:
    return hasattr(source, "__next__") or hasattr(source, "read_next_batch")


def _unknown(source: Any) -> ConfigError:
    return ConfigError(
        f"a {type(source).__name__} is nothing that rows can be read from",
        hint="a path, a frame or another object of Arrow, an iterable of dicts, or of tuples with columns=",
    )


def _itself(value: Any) -> Any:
    return value


_Kind = "tuple[str, Callable[[Any], Any], list[str], dict[str, str], Any]"


def _kind(
    source: Any, columns: list[str] | None, nan: str | None, index: bool, notes: list[str]
) -> Any:
    """The kind, how it is prepared, names, types, and what stands for ``source`` once it was looked into."""
    if _is_pandas(source):
        from ._pandas import table_of

        table = table_of(source, index=index, nan=nan, notes=notes)
        return "arrow", lambda _: table, [], {}, None
    if _is_arrow(source):
        return "arrow", _itself, [], {}, None
    if isinstance(source, (dict, bytes, bytearray)) or not hasattr(source, "__iter__"):
        return None
    is_once = _is_once(source)
    iterator = iter(source)
    sample = list(islice(iterator, SAMPLE_ROWS if not is_once else 1))
    if is_once and sample and not (_is_arrow(sample[0]) or _is_pandas(sample[0])):
        sample += islice(iterator, SAMPLE_ROWS - 1)
    begun = chain(sample, iterator) if is_once else None
    if sample and (_is_arrow(sample[0]) or _is_pandas(sample[0])):

        def batches(frames: Iterable[Any]) -> Iterator[Any]:
            from ._pandas import table_of

            for frame in frames:
                yield table_of(frame, index=index, nan=nan, notes=notes) if _is_pandas(frame) else frame

        return "batches", batches, [], {}, begun
    names = list(columns) if columns is not None else []
    if not names:
        seen: dict[str, None] = {}
        for row in sample:
            # A named tuple names its values.
            named: Any = getattr(row, "_fields", None) if isinstance(row, tuple) else getattr(row, "keys", None)
            keys: Any = named() if callable(named) else named
            if keys is None:
                raise ConfigError(
                    f"nothing says which columns the values of a {type(row).__name__} are of",
                    hint='columns=["id", "name"] names them; rows that are dicts name them themselves',
                )
            seen.update(dict.fromkeys(keys))
        names = list(seen)
    return "rows", _itself, names, _types(sample, names), begun


def _types(sample: list[Any], names: list[str]) -> dict[str, str]:
    """The types of columns by the objects in them; columns of objects that say none are left out."""
    types: dict[str, str] = {}
    for at, name in enumerate(names):
        values = [
            value
            for row in sample
            for value in ([row.get(name)] if hasattr(row, "get") else list(row)[at : at + 1])
            if value is not None
        ]
        kind = _type(values)
        if kind is not None:
            types[name] = kind
    return types


def _type(values: list[Any]) -> str | None:
    if not values:
        return None
    kinds = {type(value).__name__ for value in values}
    if kinds == {"bool"}:
        return "bool"
    if kinds == {"int"}:
        return "int64" if all(-(2**63) <= value < 2**63 for value in values) else "numeric"
    if kinds <= {"int", "float"}:
        return "float64"
    if kinds <= {"int", "Decimal"}:
        return "numeric"
    if kinds <= {"datetime", "Timestamp"}:
        zoned = {value.tzinfo is not None for value in values}
        return "timestamptz" if zoned == {True} else "timestamp" if zoned == {False} else None
    if kinds == {"date"}:
        return "date"
    if kinds == {"time"}:
        return "time"
    if kinds <= {"bytes", "bytearray"}:
        return "bytes"
    if kinds == {"UUID"}:
        return "uuid"
    if kinds <= {"dict", "list"}:
        return "json"
    return None


def key_texts(keys: Iterable[Any]) -> list[str]:
    """Keys as CSV records without a header: a field a key column."""
    records: list[str] = []
    for key in keys:
        parts = key if isinstance(key, (tuple, list)) else (key,)
        records.append(",".join(_field(part) for part in parts))
    return records


def _field(value: Any) -> str:
    if value is None:
        raise SchemaError("a key is None, and no row has such a key", hint="leave it out")
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    if isinstance(value, (bytes, bytearray)):
        text = "\\x" + value.hex()
    if text == "" or any(sign in text for sign in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text
