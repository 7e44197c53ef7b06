"""Frames of polars, of which some columns have types that Arrow has no name for."""

from __future__ import annotations

from ._errors import SchemaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The width of what they hold, or that they hold places in memory, is known to polars alone.
_OWN = ("Object", "Int128", "UInt128")


def is_frame(source: Any) -> bool:
    """Whether it is a frame of polars."""
    return type(source).__name__ == "DataFrame" and type(source).__module__.partition(".")[0] == "polars"


def table_of(frame: Any) -> Any:
    """The frame, with texts in the place of what has no type, since polars gives such columns a buffer that Arrow does not have.

    Raises
    ------
    SchemaError
        If a column has a type that is polars' own.
    """
    casts = {}
    for name, kind in frame.schema.items():
        own = next((part for part in _parts(kind) if part in _OWN), None)
        if own is not None:
            fitting = "map_elements(str, polars.String)" if own == "Object" else "cast(polars.Decimal(38, 0))"
            raise SchemaError(
                f"column {name!r} has the type {kind}, which polars alone has",
                hint=f"frame.with_columns(polars.col({name!r}).{fitting}), or leave it out",
            )
        if "Null" in _parts(kind):
            casts[name] = _typed(kind)
    return frame.cast(casts) if casts else frame


def _parts(kind: Any) -> list[str]:
    """The names of the types that a type consists of."""
    import polars

    if isinstance(kind, (polars.List, polars.Array)):
        return _parts(kind.inner)
    if isinstance(kind, polars.Struct):
        return [part for field in kind.fields for part in _parts(field.dtype)]
    return [kind.base_type().__name__]


def _typed(kind: Any) -> Any:
    """The type, with texts in the place of what has none."""
    import polars

    if kind == polars.Null:
        return polars.String()
    if isinstance(kind, polars.List):
        return polars.List(_typed(kind.inner))
    if isinstance(kind, polars.Array):
        return polars.Array(_typed(kind.inner), kind.size)
    if isinstance(kind, polars.Struct):
        return polars.Struct([polars.Field(field.name, _typed(field.dtype)) for field in kind.fields])
    return kind
