"""Frames of pandas, whose values are not always what they look like."""

from __future__ import annotations

from ._errors import ConfigError, SchemaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def table_of(frame: Any, *, index: bool, nan: str | None, notes: list[str]) -> Any:
    """A frame as a table of Arrow, each column by itself, so that an error names it.

    ``NaN`` of a numpy column is pandas' missing value, so it is null unless ``nan="keep"``.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ConfigError("frames of pandas need pyarrow", hint="pip install pyarrow") from error

    if frame.columns.nlevels > 1:
        raise SchemaError("the frame's columns have several levels", hint="frame.columns = [\"_\".join(c) for c in frame.columns]")
    frame = _with_index(frame, index, notes)
    names = []
    for at, name in enumerate(frame.columns):
        # A missing name is None or a NaN, which is not itself.
        if name is None or name != name:
            raise SchemaError(f"column {at + 1} of the frame has no name", hint="frame.columns = [..] names all of them")
        names.append(str(name))
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"the frame has two columns {name!r}", hint="give each column a name of its own")
    return pa.table([_array(name, frame.iloc[:, at], nan) for at, name in enumerate(names)], names=names)


def _with_index(frame: Any, index: bool, notes: list[str]) -> Any:
    named = [str(name) for name in frame.index.names if name is not None]
    if index:
        try:
            return frame.reset_index()
        except ValueError as error:
            raise SchemaError(
                f"the index {', '.join(named)} has the name of a column: {error}",
                hint="leave index=True out, or rename it: frame.rename_axis(\"other\")",
            ) from error
    if not (type(frame.index).__name__ == "RangeIndex" and not named):
        note = f"the index{' ' + ', '.join(named) if named else ''} of the frame is not loaded: index=True makes columns of it"
        if note not in notes:
            notes.append(note)
    return frame


def _array(name: str, column: Any, nan: str | None) -> Any:
    """The column as an array of Arrow."""
    import pyarrow as pa

    if type(column.dtype).__name__ == "SparseDtype":
        column = column.sparse.to_dense()
    is_float = getattr(column.dtype, "kind", "") == "f" and type(column.dtype).__module__.startswith("numpy")
    if is_float and nan == "keep":
        return pa.array(column.to_numpy(), from_pandas=False)
    wanted = _type_of_objects(name, column) if column.dtype == object else None
    try:
        array = pa.array(column, type=wanted, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise _mixed(name, column) from error
    except OverflowError as error:
        raise SchemaError(
            f"column {name!r} holds integers beyond 64 bits",
            hint=f"make decimals of them: frame[{name!r}] = frame[{name!r}].map(decimal.Decimal)",
        ) from error
    # What pandas has its own type for is a number to Arrow, or the ends of an interval without what they include.
    if getattr(array.type, "extension_name", "").startswith("pandas."):
        raise SchemaError(
            f"column {name!r} holds values of the type {column.dtype}, which no table has",
            hint=f"frame[{name!r}] = frame[{name!r}].astype(str), or of periods .dt.to_timestamp()",
        )
    return array


def _mixed(name: str, column: Any) -> SchemaError:
    kinds = sorted({type(value).__name__ for value in column if value is not None})
    what = "a type that no column has" if len(kinds) == 1 else "types that no column has together"
    return SchemaError(
        f"column {name!r} holds objects of {what}: {', '.join(kinds)}",
        hint=f"give it one type: frame[{name!r}] = frame[{name!r}].astype(str)",
    )


def _type_of_objects(name: str, column: Any) -> Any:
    """The type of Arrow for a column of objects, where pyarrow's own choice would change values without a word; else None.

    It makes dates of times where a date comes first, takes naive times for those of UTC where another has a zone, leaves the
    zone of a time of day out and the nanoseconds of what pandas has, and makes bytes of texts where there are bytes.
    """
    import datetime

    import pyarrow as pa

    kinds = {kind for kind in set(map(type, column)) if kind.__name__ not in ("NoneType", "NAType", "NaTType")}
    times = {kind for kind in kinds if issubclass(kind, datetime.datetime)}
    dates = {kind for kind in kinds if issubclass(kind, datetime.date)} - times
    if (times and dates) or (bytes in kinds and str in kinds):
        raise _mixed(name, column)
    if any(issubclass(kind, datetime.time) for kind in kinds):
        if any(getattr(value, "tzinfo", None) is not None for value in column):
            raise SchemaError(
                f"column {name!r} holds times of day with a zone, which no table has",
                hint=f"frame[{name!r}] = frame[{name!r}].map(lambda time: time.replace(tzinfo=None))",
            )
    if times:
        values: list[Any] = [value for value in column if isinstance(value, tuple(times)) and value == value]
        if len({value.tzinfo is None for value in values}) > 1:
            raise SchemaError(
                f"column {name!r} holds times with a zone and others without",
                hint="give all of them one: time.replace(tzinfo=datetime.timezone.utc)",
            )
        if any(getattr(value, "nanosecond", 0) for value in values):
            return pa.timestamp("ns", tz=None if values[0].tzinfo is None else "UTC")
    if any(kind.__name__ == "Timedelta" for kind in kinds) and any(getattr(value, "nanoseconds", 0) for value in column):
        return pa.duration("ns")
    return None
