"""Loads by the workers of a Dask cluster: every row once, whatever the scheduler does.

A partition, or some of the files, is a part of a job (``tonnage job``): a task that runs again after its worker was lost, or
twice at the same time, finds its part done, or goes on with it. ``dask`` and ``distributed`` have to be installed.
"""

from __future__ import annotations

from ._errors import ConfigError
from ._jobs import LEASE, Job, JobReport, PartReport, plan_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Unpack

    from ._database import Url
    from ._options import LoadOptions

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


__all__: Sequence[str] = ["load"]
