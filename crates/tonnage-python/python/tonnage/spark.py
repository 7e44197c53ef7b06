"""Writes and reads of Spark: ``df.write.format("tonnage")``, every row once, with task retries and speculation.

A partition of Spark is a part of a job (``tonnage job``), whose number is that of the partition: a task that runs again, or a
second copy of it, finds its part done, or waits for the other. The job is finished when Spark commits. It takes Spark 4.0 or
later, whose Python data sources write Arrow.

>>> spark.dataSource.register(TonnageDataSource)                                           # doctest: +SKIP
>>> df.write.format("tonnage").options(url="postgresql://app@db/shop", table="orders").mode("append").save()  # doctest: +SKIP

Reads are in partitions: ranges of values of ``split_by`` or the primary key, each of the state that its task finds. Where all
are to be of one state, ``one_state`` holds it:

>>> df = spark.read.format("tonnage").options(url="postgresql://app@db/shop", table="orders").load()  # doctest: +SKIP
>>> with one_state("postgresql://app@db/shop", "orders") as options:                       # doctest: +SKIP
...     spark.read.format("tonnage").options(**options).load().count()
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from ._arguments import takes
from ._errors import ConfigError
from ._jobs import LEASE, Job, plan_job
from ._parts import UnloadPart, UnloadParts, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Unpack

    import pyarrow

    from ._options import UnloadOptions

# Options of the source's own; all others are those of `tonnage load`.
_OWN = {"url", "table", "lease", "connections_max", "path"}

# Options of a read that are the source's own; all others are those of `tonnage unload`.
_READ_OWN = {"url", "partitions", "parts", "path"}

# Partitions where nobody has said how many.
PARTITIONS = 16


@dataclass
class _Done(WriterCommitMessage):
    """What a partition has done."""

    part: int
    written: int


class TonnageDataSource(DataSource):
    """The format ``tonnage``: writes into a table of a database, and reads it.

    Options of a write are ``url``, ``table``, ``lease`` and ``connections_max``, and those of ``tonnage load`` with underscores: ``key``,
    ``create``, ``rejects``. ``load_mode`` is the ``mode`` of ``tonnage load``, as Spark has modes of its own: ``append`` adds rows,
    ``overwrite`` empties the table first.

    Options of a read are ``url``, ``table`` or ``query``, and ``partitions``, the most of them, and those of ``tonnage unload``:
    ``columns``, ``where``, ``split_by``.
    """

    @classmethod
    def name(cls) -> str:
        return "tonnage"

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        import pyarrow

        written = self.options.get("parts")
        rows = read_text(_url(self.options), written)[0].read() if written else _parts(self.options).empty()
        schema = pyarrow.schema(rows)
        rows.close()
        return from_arrow_schema(schema)

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader(dict(self.options), schema)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(dict(self.options), schema, overwrite)


@contextmanager
def one_state(
    url: str,
    table: str | None = None,
    *,
    query: str | None = None,
    partitions: int = PARTITIONS,
    **options: Unpack[UnloadOptions],
) -> Iterator[dict[str, str]]:
    """Hold one state of a table or a query, of which Spark reads all partitions.

    Parameters
    ----------
    url, table, query
        As of :func:`tonnage.unload`.
    partitions : int, default 16
        The most partitions. A small table has fewer.
    **options
        Of ``tonnage unload``: ``columns``, ``where``, ``text``, ``split_by`` ..

    Yields
    ------
    dict
        Options for ``spark.read.format("tonnage")``. Tasks that begin after the block fail.

    Raises
    ------
    ConfigError
        Where the database can show no state to several processes.
    """
    cut = UnloadParts(url, {**options, "table": table, "query": query}, partitions, one_state=True)
    if not cut.holds and len(cut.parts) > 1:
        raise ConfigError(
            "this database can show no state to several processes",
            hint="without one_state() each partition is read of a state of its own",
        )
    try:
        yield {"url": url, "parts": cut.written()}
    finally:
        cut.close()


@dataclass
class _Partition(InputPartition):
    part: UnloadPart


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str], schema: Any) -> None:
        self.options, self.wanted = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        written = self.options.get("parts")
        # Spark plans in a process that ends, which can hold no state.
        parts = read_text(_url(self.options), written) if written else _parts(self.options).parts
        return [_Partition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self.wanted, timezone="UTC")
        assert isinstance(partition, _Partition)
        rows = pyarrow.RecordBatchReader.from_stream(partition.part.read())
        for batch in rows:
            # The same values in the forms that Spark has of them.
            yield batch.select(schema.names).cast(schema)


def _url(options: Mapping[str, str]) -> str:
    url = options.get("url")
    if not url:
        raise ConfigError("a read names a database", hint='.options(url="..", table="..")')
    return url


def _parts(options: Mapping[str, str]) -> UnloadParts:
    known = takes("unload")
    found: dict[str, Any] = {"table": None, "query": None}
    for name, value in options.items():
        if name in _READ_OWN:
            continue
        listed = known.get(name.replace("_", "-")) == "values" or name in ("columns", "text")
        found[name] = [part.strip() for part in value.split(",")] if listed else value
    most = int(options.get("partitions", PARTITIONS))
    return UnloadParts(_url(options), found, most, one_state=False)


class _Writer(DataSourceArrowWriter):
    def __init__(self, options: dict[str, str], schema: Any, overwrite: bool) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        url, table = options.get("url"), options.get("table")
        if not url or not table:
            raise ConfigError("a write names a database and a table", hint='.options(url="..", table="..")')
        lease = int(options.get("lease", LEASE))
        most = options.get("connections_max")
        rows = to_arrow_schema(schema).empty_table()
        self.job = plan_job(
            rows,
            url,
            table,
            parts=0,
            lease=lease,
            connections_max=None if most is None else int(most),
            **_load_options(options, overwrite),
        )

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("Spark has no task here, which names the partition")
        batches = iter(iterator)
        first = next(batches, None)
        if first is None:
            return _Done(context.partitionId(), 0)

        def all_batches() -> Iterator[pyarrow.RecordBatch]:
            yield first
            yield from batches

        rows = pyarrow.RecordBatchReader.from_batches(first.schema, all_batches())
        done = self.job.run(context.partitionId(), rows)
        return _Done(context.partitionId(), 0 if done is None else done.rows["written"])

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.job.finish()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # What other partitions have written stays, and is on record until the job is forgotten; a table that was to take
        # the place of another goes with it.
        self.job.forget()


def _load_options(options: dict[str, str], overwrite: bool) -> dict[str, Any]:
    """Options of Spark, which are texts under names in lower case, as those of a load."""
    known = takes("load")
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name in _OWN:
            continue
        option = "mode" if name == "load_mode" else name
        how = known.get(option.replace("_", "-"))
        if how == "flag":
            found[option] = value.lower() == "true"
        elif option in ("key", "columns"):
            found[option] = [part.strip() for part in value.split(",")]
        elif how == "value?" and value.lower() in ("true", "false"):
            found[option] = value.lower() == "true"
        else:
            found[option] = value
    if overwrite:
        found["truncate"] = True
    return found


__all__ = ["Job", "TonnageDataSource", "one_state"]
