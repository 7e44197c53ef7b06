"""Loads and unloads by the workers of a Dask cluster: every row once, whatever the scheduler does.

A partition, or some of the files, is a part of a job (``tonnage job``): a task that runs again after its worker was lost, or
twice at the same time, finds its part done, or goes on with it. ``dask`` and ``distributed`` have to be installed.
"""

from __future__ import annotations

import warnings
import weakref
from contextlib import contextmanager

from ._errors import ConfigError
from ._jobs import LEASE, Job, JobReport, PartReport, plan_job
from ._parts import UnloadPart, UnloadParts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Literal, Unpack

    from ._database import Url
    from ._options import LoadOptions, UnloadOptions

# Parts a thread of the cluster, where nobody has said how many: so that one that is slow does not hold up the others.
PARTS_PER_THREAD = 4


def load(
    source: Any,
    url: Url,
    table: str,
    *,
    client: Any = None,
    parts: int | None = None,
    retries: int = 3,
    lease: int = LEASE,
    connections_max: int | None = None,
    job: str | None = None,
    **options: Unpack[LoadOptions],
) -> JobReport:
    """Load files, or the partitions of a Dask DataFrame, by the workers of a cluster.

    Parameters
    ----------
    source : path, glob, list of them, or dask.dataframe.DataFrame
        Files that the workers can read under the same names, or a frame.
    url, table
        As of :func:`tonnage.load`; the workers get the URL, with its password if it has one.
    client : distributed.Client, optional
        The cluster; without one the client that is current.
    parts : int, optional
        Parts that files are shared out in; four for each thread of the cluster where it is left out. A frame has one for each
        partition.
    retries : int, default 3
        How often the scheduler tries a part that has failed again.
    lease : int, default 60
        Seconds after which another worker takes the part of one that was lost.
    connections_max : int, optional
        Connections of all workers together, at most.
    job : str, optional
        Go on with this job, which was interrupted: ``report.job_id``. Of a frame it has to be the same frame.
    **options
        Of ``tonnage load``: ``mode``, ``key``, ``create``, ``rejects`` (a directory that all workers can reach) ..

    Returns
    -------
    JobReport
        The account of all parts.
    """
    client = _client(client)
    frame = source if hasattr(source, "to_delayed") else None
    if job is not None:
        planned = Job(url, job, lease=lease)
    elif frame is None:
        threads = sum(client.nthreads().values())
        wanted = parts if parts is not None else max(threads, 1) * PARTS_PER_THREAD
        planned = plan_job(
            source, url, table, parts=wanted, connections_max=connections_max, lease=lease, **options
        )
    else:
        planned = plan_job(
            _sample(frame), url, table, parts=frame.npartitions, connections_max=connections_max, lease=lease, **options
        )
    tasks = _tasks(client, planned, frame, retries)
    try:
        client.gather(tasks)
    except BaseException as error:
        client.cancel(tasks)
        error.add_note(f"tonnage.dask.load(.., job={planned.job_id!r}) goes on with what is missing")
        raise
    return planned.finish()


def unload(
    url: Url,
    table: str | None = None,
    *,
    query: str | None = None,
    client: Any = None,
    partitions: int | None = None,
    state: Literal["auto", "one", "any"] = "auto",
    **options: Unpack[UnloadOptions],
) -> Any:
    """Read a table or a query as a Dask DataFrame, whose partitions the workers read when they are needed.

    Partitions are disjoint, and together everything: ranges of pages, or of values of ``split_by`` or the primary key. A task
    that runs again reads the same rows, where the partitions are of one state.

    That state is held by a transaction of this process, over one connection, until the frame and all that was made of it are
    collected as garbage. A database that cleans up behind its transactions waits for it; :func:`one_state` ends it when its
    block does. Tasks that begin later fail, and do not read another state. Where the database can show no state to several
    processes there is a warning, as each partition is then of its own moment.

    Parameters
    ----------
    url, table, query
        As of :func:`tonnage.unload`; the workers get the URL, with its password if it has one.
    client : distributed.Client, optional
        The cluster, which says how many partitions there are; without one the client that is current, if any.
    partitions : int, optional
        The most partitions; four for each thread of the cluster where it is left out. A small table has fewer.
    state : {"auto", "one", "any"}
        ``one`` refuses a database that can show no state to several processes, ``any`` holds none.
    **options
        Of ``tonnage unload``: ``columns``, ``where``, ``text``, ``split_by`` ..

    Returns
    -------
    dask.dataframe.DataFrame
        Its columns are of Arrow's types (``pandas.ArrowDtype``), so that a partition with a null has the types of the others.
    """
    asked: dict[str, Any] = {**options, "table": table, "query": query}
    cut = _cut(url, asked, client, partitions, state)
    if state == "auto":
        for note in cut.notes:
            warnings.warn(note, stacklevel=2)
    frame = _frame(cut)
    # By the expression, which is part of all that is made of the frame. Tasks are kept by a scheduler for a time of its own.
    weakref.finalize(frame.expr, cut.close)
    return frame


@contextmanager
def one_state(
    url: Url,
    table: str | None = None,
    *,
    query: str | None = None,
    client: Any = None,
    partitions: int | None = None,
    **options: Unpack[UnloadOptions],
) -> Iterator[Any]:
    """:func:`unload` of one state, which ends with the block: work is done in it, as ``frame.compute()`` does.

    Parameters
    ----------
    url, table, query, client, partitions, **options
        As of :func:`unload`.

    Yields
    ------
    dask.dataframe.DataFrame
        As of :func:`unload`.

    Raises
    ------
    ConfigError
        Where the database can show no state to several processes.
    """
    cut = _cut(url, {**options, "table": table, "query": query}, client, partitions, "one")
    try:
        yield _frame(cut)
    finally:
        cut.close()


def _cut(url: Url, asked: dict[str, Any], client: Any, partitions: int | None, state: str) -> UnloadParts:
    most = partitions if partitions is not None else _threads(client) * PARTS_PER_THREAD
    cut = UnloadParts(url, asked, most, one_state=state != "any")
    if state == "one" and not cut.holds and len(cut.parts) > 1:
        raise ConfigError(
            "this database can show no state to several processes",
            hint='state="any" reads each partition of a state of its own; tonnage.unload() reads one',
        )
    return cut


def _frame(cut: UnloadParts) -> Any:
    from dask.dataframe import from_map

    made: Any = from_map
    return made(
        _rows, cut.parts, meta=_pandas(cut.empty()), label="tonnage-unload", enforce_metadata=False
    )


def _rows(part: UnloadPart) -> Any:
    return _pandas(part.read())


def _pandas(rows: Any) -> Any:
    import pandas

    return rows.to_pandas(types_mapper=pandas.ArrowDtype)


def _threads(client: Any) -> int:
    """Threads of the cluster; of this machine where there is none."""
    import os

    try:
        return max(int(sum(_client(client).nthreads().values())), 1)
    except ConfigError:
        return os.cpu_count() or 1


def _client(client: Any) -> Any:
    if client is not None:
        return client
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError) as error:
        raise ConfigError("there is no Dask cluster at hand", hint="client=distributed.Client(..)") from error


def _sample(frame: Any) -> Any:
    """No row, with the columns and types of the frame."""
    import pyarrow

    return pyarrow.Table.from_pandas(frame._meta_nonempty, preserve_index=False).slice(0, 0)


def _tasks(client: Any, job: Job, frame: Any, retries: int) -> list[Any]:
    if frame is None:
        total = job.status().parts["total"]
        return list(client.map(_part, [job] * total, range(total), pure=False, retries=retries))
    partitions = frame.to_delayed()
    if len(partitions) != job.status().parts["total"]:
        raise ConfigError(
            f"the frame has {len(partitions)} partitions, and the job {job.status().parts['total']} parts",
            hint="a job goes on with the frame that it was planned for",
        )
    rows = client.compute(partitions)
    return list(client.map(_part, [job] * len(rows), range(len(rows)), rows, pure=False, retries=retries))


def _part(job: Job, number: int, rows: Any = None) -> dict[str, Any]:
    done = job.run(number, rows)
    if not isinstance(done, PartReport):
        raise TypeError("a part that is named gives an account")
    return done.data


__all__: Sequence[str] = ["load", "one_state", "unload"]
