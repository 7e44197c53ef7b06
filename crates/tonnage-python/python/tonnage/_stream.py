"""What comes out of a database."""

from __future__ import annotations

import os

from . import _tonnage
from ._errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import pandas
    import polars
    import pyarrow

    from ._report import GetReport


def _module(name: str, why: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{why} needs {name}", hint=f"pip install {name}") from error


class Rows:
    """Rows on their way, to be read once.

    Whatever takes Arrow takes it (``__arrow_c_stream__``): ``polars.DataFrame(rows)``, ``pyarrow.table(rows)``,
    ``duckdb.from_arrow(pyarrow.RecordBatchReader.from_stream(rows))``, ``tonnage.load(rows, ...)``. Rows come as they are
    read, so a table may be larger than memory.

    Examples
    --------
    >>> import tonnage
    >>> db = getfixture("shop")
    >>> rows = tonnage.unload(db, table="orders", columns=["id", "total"])
    >>> rows.column_names
    ['id', 'total']
    >>> sum(len(batch) for batch in rows)
    3
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: _tonnage.Stream | dict[str, list[Any]]) -> None:
        self._stream = _tonnage.columns(list(stream.items())) if isinstance(stream, dict) else stream

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._stream.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._stream.__arrow_c_schema__()

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._stream.column_names

    @property
    def column_types(self) -> dict[str, str]:
        """The names of the columns and their Arrow types."""
        return dict(self._stream.column_types)

    def __iter__(self) -> Iterator[_tonnage.Batch]:
        """Batches, each with ``__arrow_c_array__``."""
        while (batch := self._stream.next_batch()) is not None:
            yield batch

    def _whole(self) -> Rows:
        """The rows, once all were read: what reads them from the database is interrupted by Ctrl-C, and fails with its own error."""
        self._stream.complete()
        return self

    def to_arrow(self) -> pyarrow.Table:
        """All rows as a ``pyarrow.Table``."""
        return _module("pyarrow", "to_arrow()").table(self._whole())

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a ``pandas.DataFrame``.

        Parameters
        ----------
        **options
            Those of ``pyarrow.Table.to_pandas``.

        Returns
        -------
        pandas.DataFrame
            The rows.

        Raises
        ------
        ConfigError
            If pandas or pyarrow is not installed, or the rows were read already.
        """
        _module("pandas", "to_pandas()")
        frame: pandas.DataFrame = self.to_arrow().to_pandas(**options)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """All rows as a ``polars.DataFrame``."""
        frame: polars.DataFrame = _module("polars", "to_polars()").DataFrame(self._whole())
        return frame

    def to_parquet(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> int:
        """Write the rows to a Parquet file, a few batches in memory at a time.

        Parameters
        ----------
        path : str or PathLike
            A file that ends in ``.parquet``, or a URL of an object.
        overwrite : bool, default False
            Whether a file that is there is replaced.

        Returns
        -------
        int
            Rows written.
        """
        if not str(path).endswith(".parquet"):
            raise ConfigError(f"{path} does not end in .parquet", hint="to_file() writes the format of any ending")
        return self.to_file(path, overwrite=overwrite)

    def to_file(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> int:
        """Write the rows to a file in the format of its ending, a few batches in memory at a time.

        Parameters
        ----------
        path : str or PathLike
            A file that ends in .csv, .tsv, .jsonl, .parquet or .arrow, or a URL of an object.
        overwrite : bool, default False
            Whether a file that is there is replaced.

        Returns
        -------
        int
            Rows written.

        Raises
        ------
        ConfigError
            If the ending says no format, the file is there, or the rows were read already.
        """
        return self._stream.write(os.fspath(path), overwrite)

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts, whose values are objects of the standard library."""
        return [row for batch in self for row in batch.to_pylist()]

    def close(self) -> None:
        """End the reading."""
        self._stream.close()

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._stream.column_types)
        return f"<{type(self).__name__} ({columns})>"


class Found(Rows):
    """Rows that were found by their keys, and the keys that have none."""

    __slots__ = ("_found", "_related")

    def __init__(self, found: _tonnage.Found) -> None:
        super().__init__(found.rows)
        self._found = found
        self._related = {name: Rows(rows) for name, rows in found.related}

    @property
    def related(self) -> dict[str, Rows]:
        """Rows of the other tables, by the table's name."""
        return self._related

    @property
    def missing(self) -> list[Any]:
        """The keys that have no row: values, or tuples where a key has several columns. What is left is read first."""
        self._found.complete()
        rows = Rows(self._found.missing())
        if len(rows.column_names) == 1:
            return [next(iter(row.values())) for row in rows.to_pylist()]
        return [tuple(row.values()) for row in rows.to_pylist()]

    @property
    def report(self) -> GetReport:
        """The account. What is left of the rows is read first."""
        from ._report import GetReport

        self._found.complete()
        report: GetReport = GetReport._of(self._found.report() or "{}")
        return report
