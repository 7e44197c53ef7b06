"""What rows come from: files, Arrow data, objects."""

from __future__ import annotations

import os
from itertools import chain, islice

from . import _polars, _tonnage
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
    # A frame of a class of its own has the same traps.
    return any(kind.__name__ == "DataFrame" and _package(kind) == "pandas" for kind in type(source).__mro__)


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_once(source: Any) -> bool:
    return hasattr(source, "__next__") or hasattr(source, "read_next_batch")


def _unknown(source: Any) -> ConfigError:
    hint = "a path, a frame or another object of Arrow, an iterable of dicts, or of tuples with columns="
    if isinstance(source, dict):
        hint = "a row is an element of a list: [row]; columns are a frame: pandas.DataFrame(columns)"
    elif hasattr(source, "__aiter__"):
        hint = "put its rows into a buffer: await buffer.put(row)"
    elif type(source).__name__ == "LazyFrame":
        hint = "lazy.collect(), or lazy.sink_parquet(path) and then the path"
    elif type(source).__name__ == "ndarray":
        hint = "pandas.DataFrame(array)"
    elif _is_column(source):
        hint = "it is a column without a table: series.to_frame(), or pyarrow.table({name: array})"
    return ConfigError(f"a {type(source).__name__} is nothing that rows can be read from", hint=hint)


def frame_of(rows: Any, *, index: bool = False, nan: str | None = None, notes: list[str] | None = None) -> Any:
    """A frame of pandas or polars as one that Arrow has the types of; anything else as it is."""
    if _is_pandas(rows):
        from ._pandas import table_of

        return table_of(rows, index=index, nan=nan, notes=[] if notes is None else notes)
    return _polars.table_of(rows) if _polars.is_frame(rows) else rows


def _is_column(source: Any) -> bool:
    """A column of pandas, polars or pyarrow, and no table. An array of structs is a batch of rows."""
    kind = type(source)
    if _package(kind) == "pyarrow":
        return hasattr(source, "null_count") and not hasattr(source, "schema") and not hasattr(source.type, "fields")
    return kind.__name__ in ("Series", "Index", "RangeIndex", "MultiIndex") and _package(kind) in ("pandas", "polars")


def _itself(value: Any) -> Any:
    return value


_Kind = "tuple[str, Callable[[Any], Any], list[str], dict[str, str], Any]"


def _kind(
    source: Any, columns: list[str] | None, nan: str | None, index: bool, notes: list[str]
) -> Any:
    """The kind, how it is prepared, names, types, and what stands for ``source`` once it was looked into."""
    if _is_column(source) or type(source).__name__ == "ndarray":
        return None
    if _is_pandas(source) or _is_arrow(source):
        frame = frame_of(source, index=index, nan=nan, notes=notes)
        # A function that gives such may be called again.
        return "arrow", _itself if frame is source else lambda _: frame, [], {}, None
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
            for frame in frames:
                yield frame_of(frame, index=index, nan=nan, notes=notes)

        return "batches", batches, [], {}, begun
    names = list(columns) if columns is not None else []
    if not names:
        seen: dict[str, None] = {}
        for row in sample:
            # A named tuple names its values.
            named: Any = getattr(row, "_fields", None) if isinstance(row, tuple) else getattr(row, "keys", None)
            keys: Any = named() if callable(named) else named
            if keys is None:
                dataclass = "dataclasses.asdict(row) makes a dict of it" if hasattr(row, "__dataclass_fields__") else None
                raise ConfigError(
                    f"nothing says which columns the values of a {type(row).__name__} are of",
                    hint=dataclass or 'columns=["id", "name"] names them; rows that are dicts name them themselves',
                )
            seen.update(dict.fromkeys(keys))
        names = list(seen)
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise ConfigError(f"a column is called {wrong!r}, and names of columns are texts", hint=f"{str(wrong)!r} is one")
    return "rows", _itself, names, _types(sample, names), begun


def _types(sample: list[Any], names: list[str]) -> dict[str, str]:
    """The types of columns by the objects in them; columns of objects that say none are left out."""
    types: dict[str, str] = {}
    for at, name in enumerate(names):
        found = (_value(row, name, at) for row in sample)
        kind = _type([value for value in found if value is not None and type(value).__name__ not in ("NAType", "NaTType")])
        if kind is not None:
            types[name] = kind
    return types


def _value(row: Any, name: str, at: int) -> Any:
    if hasattr(row, "get"):
        return row.get(name)
    # What is no row is refused where it is read, with its number.
    return row[at] if isinstance(row, (tuple, list)) and at < len(row) else None


def _type(values: list[Any]) -> str | None:
    if not values:
        return None
    kinds = {_kind_name(value) for value in values}
    if kinds == {"bool"}:
        return "bool"
    if kinds == {"int"}:
        return "int64" if all(-(2**63) <= value < 2**63 for value in values) else "numeric"
    if kinds <= {"int", "float"}:
        return "float64"
    if kinds <= {"int", "Decimal"}:
        return "numeric"
    if kinds == {"datetime"}:
        zoned = {value.tzinfo is not None for value in values}
        return "timestamptz" if zoned == {True} else "timestamp" if zoned == {False} else None
    if kinds == {"datetime64"}:
        return "timestamp"
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


def _kind_name(value: Any) -> str:
    """The name of the value's type; of one of numpy and pandas that of Python's own."""
    kind = type(value)
    name = kind.__name__.rstrip("_")
    if _package(kind) == "numpy":
        return {"i": "int", "u": "int", "f": "float", "b": "bool"}.get(value.dtype.kind, name)
    if isinstance(value, int) and kind is not bool:
        return "int"
    return "datetime" if name == "Timestamp" else name


def keys_of(keys: Any) -> list[str] | _tonnage.Source:
    """Keys: columns of a frame and values of dicts go by name, others in the order of the key's columns."""
    if _package(type(keys)) in ("pandas", "polars") and _is_column(keys):
        keys = keys.to_frame()
    is_named = isinstance(keys, (list, tuple)) and keys and all(isinstance(key, dict) for key in keys)
    if is_named or _is_arrow(keys) or _is_pandas(keys):
        rows = describe(keys, shown="keys").rows
        assert not isinstance(rows, list)
        return rows
    if not hasattr(keys, "__iter__"):
        raise ConfigError(f"the keys are a {type(keys).__name__}, and no list of them", hint=f"[{keys!r}]")
    return _key_texts(keys)


def _key_texts(keys: Iterable[Any]) -> list[str]:
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
