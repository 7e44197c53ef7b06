"""Jobs: one load in parts, which any number of processes carry out."""

from __future__ import annotations

from . import _tonnage
from ._arguments import arguments
from ._errors import ConfigError
from ._report import Account
from ._source import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Unpack

    from ._database import Nan, Url
    from ._options import LoadOptions

# How long a process that is gone keeps its part, in seconds.
LEASE = 60


class JobReport(Account):
    """How far a job is, or what has become of it.

    Attributes
    ----------
    job_id : str
        The job.
    state : str
        ``unfinished``, ``to be finished`` or ``finished``.
    rows : dict
        Rows of parts that are done: ``read == written + skipped + rejected``.
    parts : dict
        Parts by how far they are: ``total``, ``done``, ``running``, ``failed``, ``open``.
    list : list of dict
        Each part.
    notes : list of str
        What one should know.
    """

    if TYPE_CHECKING:
        job_id: str
        state: str
        rows: dict[str, int]
        parts: dict[str, int]
        notes: list[str]
        list: Sequence[dict[str, Any]]

    def __str__(self) -> str:
        rows = self.rows
        return (
            f"job {self.job_id} is {self.state}: {self.parts['done']} of {self.parts['total']} parts done, "
            f"{rows['read']:,} read = {rows['written']:,} written + {rows['skipped']:,} skipped "
            f"+ {rows['rejected']:,} rejected"
        )


class PartReport(Account):
    """A part that was carried out.

    Attributes
    ----------
    part : int
        Its number.
    already_done : bool
        Whether it was done before, and there was nothing to do.
    rows : dict
        Its rows: ``read == written + skipped + rejected``.
    load : dict or None
        The account of this attempt.
    """

    if TYPE_CHECKING:
        part: int
        already_done: bool
        rows: dict[str, int]
        load: dict[str, Any] | None

    def __str__(self) -> str:
        done = "was done before" if self.already_done else "is done"
        return f"part {self.part} {done}: {self.rows['written']:,} rows written"


class Job:
    """A job in the ledger of a database. It is pickled as its id and the URL, with the URL's password.

    :func:`plan_job` makes one.

    Examples
    --------
    >>> import tonnage
    >>> shop = getfixture("shop")
    >>> with open("more.csv", "w") as more:
    ...     print("id,total", "4,1.50", sep=chr(10), file=more)
    >>> job = tonnage.plan_job("more.csv", shop, "orders")
    >>> job.run(0).already_done
    False
    >>> job.run(0).already_done
    True
    >>> job.finish().state
    'finished'
    """

    __slots__ = ("_url", "_native", "job_id", "lease")

    def __init__(self, url: Url, job_id: str, *, lease: int = LEASE) -> None:
        from ._database import Database, _places

        # What a process elsewhere connects by.
        self._url = _places(url)
        self._native = _tonnage.Jobs(Database(self._url)._native)
        self.job_id: str = job_id
        self.lease: int = lease

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self._url, self.job_id, self.lease)

    def __repr__(self) -> str:
        return f"<Job {self.job_id}>"

    def run(
        self,
        part: int | None = None,
        rows: Any = None,
        *,
        attempt: int | None = None,
        nan: Nan | None = None,
        index: bool = False,
        stop: _tonnage.Stop | None = None,
    ) -> PartReport | None:
        """Carry out a part: every row once, however often and wherever it is called.

        Parameters
        ----------
        part : int, optional
            Its number, from 0 on. Without one the next that is free; None is returned where none is left.
        rows : frame, object of Arrow or iterable of rows, optional
            Its rows, of a job without files: they are written in one transaction.
        attempt : int, optional
            The number of this attempt, where the caller counts them: it takes the part from a lower one that is at work.

        Returns
        -------
        PartReport or None
            What was done. A part that another process carries out is waited for, and then is done.
        """
        source = None
        if rows is not None:
            described = describe(rows, nan=nan, index=index)
            if isinstance(described.rows, list):
                raise ConfigError("a part has its files from the plan", hint="leave rows out, or give a frame")
            source = described.rows
        stop = stop if stop is not None else _tonnage.Stop()
        account = self._native.job_part(self.job_id, part, attempt, self.lease, source, stop)
        return None if account is None else PartReport._of(account)

    def status(self) -> JobReport:
        """How far it is."""
        report: JobReport = JobReport._of(self._native.job_status(self.job_id))
        return report

    def finish(self) -> JobReport:
        """End it, once all parts are done: indexes are built, a table takes its place. One process does it, however many call."""
        report: JobReport = JobReport._of(self._native.job_finish(self.job_id, self.lease))
        return report

    def forget(self) -> bool:
        """Have the ledger forget it; rows that were written stay, but for those of a table that was to take its place."""
        return self._native.job_forget(self.job_id)


def _again(url: Sequence[str], job_id: str, lease: int) -> Job:
    return Job(url, job_id, lease=lease)


def plan_job(
    source: Any,
    url: Url,
    table: str,
    *,
    parts: int = 100,
    connections_max: int | None = None,
    lease: int = LEASE,
    nan: Nan | None = None,
    **options: Unpack[LoadOptions],
) -> Job:
    """Plan a load in parts, which any number of processes carry out.

    Parameters
    ----------
    source : path, glob, list of them, frame or object of Arrow
        Files, which are shared out in parts of like size; or rows like those of all parts, none of which is loaded.
    url, table
        As of :func:`load`.
    parts : int, default 100
        Parts; of files no more than there are. 0, of rows that a program brings: as many as are carried out.
    connections_max : int, optional
        Connections of all processes together, at most.
    lease : int, default 60
        Seconds for which a process that is gone keeps its part.
    **options
        Of ``tonnage job plan``: ``mode``, ``key``, ``create``, ``rejects`` (a directory) ..

    Returns
    -------
    Job
        The job; its parts are carried out by :meth:`Job.run`, and it ends with :meth:`Job.finish`.
    """
    named: dict[str, Any] = {**options, "table": table}
    described = describe(source, nan=nan, timezone=named.get("timezone"))
    if described.types and (named.get("create") or named.get("add_columns")):
        given: Mapping[str, str] = named.get("types") or {}
        named["types"] = {**described.types, **given}
    job = Job(url, "", lease=lease)
    written = arguments("load", named)
    job.job_id, _, _ = job._native.job_plan(written, described.rows, parts, connections_max)
    return job
