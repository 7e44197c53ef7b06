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
    if index:
        frame = frame.reset_index()
    elif not (type(frame.index).__name__ == "RangeIndex" and frame.index.name is None):
        names = [str(name) for name in frame.index.names if name is not None]
        note = f"the index{' ' + ', '.join(names) if names else ''} of the frame is not loaded: index=True makes columns of it"
        if note not in notes:
            notes.append(note)
    names = [str(name) for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"the frame has two columns {name!r}", hint="give each column a name of its own")
    arrays = []
    for at, name in enumerate(names):
        column = frame.iloc[:, at]
        is_float = getattr(column.dtype, "kind", "") == "f" and type(column.dtype).__module__.startswith("numpy")
        try:
            if is_float and nan == "keep":
                arrays.append(pa.array(column.to_numpy(), from_pandas=False))
            else:
                arrays.append(pa.array(column, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            kinds = sorted({type(value).__name__ for value in column if value is not None})
            raise SchemaError(
                f"column {name!r} holds objects of types that no column has together: {', '.join(kinds)}",
                hint=f"give it one type: frame[{name!r}] = frame[{name!r}].astype(str)",
            ) from error
    return pa.table(arrays, names=names)
