"""Writes of Spark: ``df.write.format("tonnage")``, every row once, with task retries and speculation.

A partition of Spark is a part of a job (``tonnage job``), whose number is that of the partition: a task that runs again, or a
second copy of it, finds its part done, or waits for the other. The job is finished when Spark commits. It takes Spark 4.0 or
later, whose Python data sources write Arrow.

>>> spark.dataSource.register(TonnageDataSource)                                           # doctest: +SKIP
>>> df.write.format("tonnage").options(url="postgresql://app@db/shop", table="orders").mode("append").save()  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from ._arguments import takes
from ._errors import ConfigError
from ._jobs import LEASE, Job, plan_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    import pyarrow

# Options of the source's own; all others are those of `tonnage load`.
_OWN = {"url", "table", "lease", "connections_max", "path"}


@dataclass
class _Done(WriterCommitMessage):
    """What a partition has done."""

    part: int
    written: int


class TonnageDataSource(DataSource):
    """The format ``tonnage``: writes into a table of a database.

    Options are ``url``, ``table``, ``lease`` and ``connections_max``, and those of ``tonnage load`` with underscores: ``key``,
    ``create``, ``rejects``. ``load_mode`` is the ``mode`` of ``tonnage load``, as Spark has modes of its own: ``append`` adds rows,
    ``overwrite`` empties the table first.
    """

    @classmethod
    def name(cls) -> str:
        return "tonnage"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(dict(self.options), schema, overwrite)


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


__all__ = ["Job", "TonnageDataSource"]
