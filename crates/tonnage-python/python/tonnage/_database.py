"""What is done with a database."""

from __future__ import annotations

import os

from . import _log, _tonnage
from ._arguments import arguments, text
from ._errors import ConfigError, RejectedError
from ._report import BufferReport, Plan, PutReport, Report, UnloadReport
from ._source import describe, frame_of, keys_of
from ._stream import Found, Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Literal, Protocol, TypeAlias, Unpack, overload

    from ._options import BufferOptions, ExecOptions, GetOptions, LoadOptions, UnloadOptions

    class _HasUrl(Protocol):
        @property
        def url(self) -> Any: ...

    Url: TypeAlias = "str | os.PathLike[str] | Sequence[str] | Database | Any"
    Nan: TypeAlias = Literal["null", "keep"]
    OnProgress: TypeAlias = "bool | Callable[[Progress], object] | None"

# Drivers of SQLAlchemy, and the schemes that they have here.
_SCHEMES = {"postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql", "mariadb": "mysql", "sqlite": "sqlite"}


class Progress:
    """How far a run has come.

    Attributes
    ----------
    read, written, rejected : int
        Rows.
    bytes_read : int
        Bytes of the source.
    bytes_total : int or None
        Bytes of the source in all, where that is known.
    seconds : float
        Since the run began.
    """

    __slots__ = ("read", "written", "rejected", "bytes_read", "bytes_total", "seconds")

    def __init__(
        self, read: int, written: int, rejected: int, bytes_read: int, bytes_total: int | None, seconds: float
    ) -> None:
        self.read: int = read
        self.written: int = written
        self.rejected: int = rejected
        self.bytes_read: int = bytes_read
        self.bytes_total: int | None = bytes_total
        self.seconds: float = seconds

    def __repr__(self) -> str:
        return f"<Progress: {self.written:,} rows written after {self.seconds:.1f} s>"


class _Bar:
    """A line on standard error, where somebody looks at it, or under a notebook's cell."""

    def __init__(self) -> None:
        import sys

        self._stream = sys.stderr
        self._notebook = "ipykernel" in sys.modules
        # The line of a notebook, once it is there.
        self._line: Any = None
        self._began = False

    def __call__(self, progress: Progress) -> None:
        if not self._notebook and not self._stream.isatty():
            return
        rate = progress.written / progress.seconds if progress.seconds else 0.0
        share = ""
        if progress.bytes_total:
            part = min(progress.bytes_read / progress.bytes_total, 1.0)
            share = f"{part:4.0%} |{'#' * int(20 * part):<20}| "
        rejected = f", {progress.rejected:,} rejected" if progress.rejected else ""
        line = f"{share}{progress.written:,} rows, {int(rate):,} rows/s{rejected}, {progress.seconds:.0f} s"
        if self._notebook:
            self._show(line)
            return
        self._stream.write("\r" + line.ljust(78))
        self._stream.flush()
        self._began = True

    def _show(self, line: str) -> None:
        from importlib import import_module

        shown = {"text/plain": line}
        if self._line is None:
            self._line = import_module("IPython.display").display(shown, raw=True, display_id=True)
        else:
            self._line.update(shown, raw=True)

    def close(self) -> None:
        if self._began:
            self._stream.write("\n")


def _names(columns: Sequence[str] | None) -> list[str] | None:
    """Names of columns as a list; one may be given by itself."""
    if columns is None or isinstance(columns, str):
        return None if columns is None else [columns]
    if not hasattr(columns, "__iter__"):
        raise ConfigError(f"columns={columns!r} names no columns", hint='columns=["id", "name"]')
    return list(columns)


def _progress(wanted: OnProgress) -> tuple[Callable[..., None] | None, Callable[[], None]]:
    if wanted is None or wanted is False:
        return None, lambda: None
    if wanted is not True and not callable(wanted):
        raise ConfigError(f"progress={wanted!r} is neither True nor a function", hint="progress=True shows a line")
    import time

    bar = _Bar() if wanted is True else None
    told: Callable[[Progress], object] = bar if bar is not None else wanted  # type: ignore[assignment]
    started = time.monotonic()

    def call(read: int, written: int, rejected: int, bytes_read: int, total: int | None) -> None:
        told(Progress(read, written, rejected, bytes_read, total, time.monotonic() - started))

    return call, bar.close if bar is not None else lambda: None


def _places(url: Any) -> list[str]:
    if isinstance(url, (str, os.PathLike)):
        return [_plain(text(url))]
    # A URL of SQLAlchemy is a tuple too.
    if isinstance(url, (list, tuple)) and not hasattr(url, "render_as_string"):
        return [place for one in url for place in _places(one)]
    # An engine or a connection of SQLAlchemy: only its URL is used.
    found = getattr(url, "url", None)
    if found is None:
        found = getattr(getattr(url, "engine", None), "url", None)
    bind: Any = getattr(url, "get_bind", None)
    if found is None and bind is not None:
        # A session.
        return _places(bind())
    render = getattr(found, "render_as_string", None) or getattr(url, "render_as_string", None)
    if render is None:
        raise ConfigError(
            f"a {type(url).__name__} names no database",
            hint="a URL, a file, @NAME of targets.toml, or an engine of SQLAlchemy",
        )
    return [_plain(render(hide_password=False))]


def _plain(place: str) -> str:
    """A URL of SQLAlchemy as it is written here: ``postgresql+psycopg://``, ``sqlite:///shop.db``."""
    scheme, sign, rest = place.partition("://")
    name, plus, _ = scheme.partition("+")
    if not sign or name not in _SCHEMES:
        return place
    if name == "sqlite":
        path = rest.removeprefix("/").partition("?")[0]
        if path in ("", ":memory:"):
            raise ConfigError(
                "a database of SQLite in memory is seen by the connection that made it and no other",
                hint="use one in a file: sqlite:///shop.db",
            )
        return path if "." in os.path.basename(path) else f"sqlite:{path}"
    return f"{_SCHEMES[name]}://{rest}" if plus else place


class Database:
    """A database, and what is done with it. Threads may share it.

    It is connected to when it is first needed; :func:`connect` makes one.

    Examples
    --------
    >>> import tonnage
    >>> with tonnage.connect(getfixture("shop")) as db:
    ...     report = db.load([{"id": 4, "total": "1.50"}], table="orders")
    ...     sum(len(batch) for batch in db.unload(table="orders"))
    4
    """

    __slots__ = ("_native", "__weakref__")

    def __init__(self, url: Url, *, shard_by: Sequence[str] = ()) -> None:
        places = _places(url)
        if len(places) > 1 and not shard_by:
            raise ConfigError(
                f"{len(places)} databases are named, and nothing says in which of them a row is",
                hint='shard_by=["customer"] says it',
            )
        self._native = _tonnage.Database(places, list(shard_by))

    @property
    def url(self) -> str:
        """The URL, without its password."""
        return self._native.url

    def __enter__(self) -> Database:
        self._native.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of its connections. It connects again where it is used again."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<Database {self.url}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Database is not pickled: it has connections; connect in the process that uses it")

    def load(
        self,
        source: Any,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        source_id: str | None = None,
        nan: Nan | None = None,
        index: bool = False,
        progress: OnProgress = None,
        stop: _tonnage.Stop | None = None,
        **options: Unpack[LoadOptions],
    ) -> Report:
        """Load rows into a table.

        See Also
        --------
        tonnage.load : the parameters, what is returned, and what is raised.
        """
        return self._run("load", {**options, "table": table}, source, columns, source_id, nan, index, progress, stop)

    def execute(
        self,
        statement: str,
        source: Any,
        *,
        columns: Sequence[str] | None = None,
        source_id: str | None = None,
        nan: Nan | None = None,
        index: bool = False,
        progress: OnProgress = None,
        stop: _tonnage.Stop | None = None,
        **options: Unpack[ExecOptions],
    ) -> Report:
        """Run a statement for every row.

        See Also
        --------
        tonnage.execute : the parameters, what is returned, and what is raised.
        """
        return self._run("exec", {**options, "sql": statement}, source, columns, source_id, nan, index, progress, stop)

    def _given(
        self,
        command: str,
        options: dict[str, Any],
        source: Any,
        columns: Sequence[str] | None,
        source_id: str | None,
        nan: str | None,
        index: bool,
    ) -> tuple[list[str], Any, list[str], bool]:
        columns = _names(columns)
        described = describe(
            source,
            columns=columns,
            nan=nan,
            index=index,
            timezone=options.get("timezone"),
            source_id=source_id,
        )
        if described.types and (options.get("create") or options.get("add_columns")):
            named = options.get("types") or {}
            if not isinstance(named, dict):
                raise ConfigError(f"types={named!r} names no columns with their types", hint='types={"day": "date"}')
            options["types"] = {**described.types, **named}
        is_program = not isinstance(described.rows, list)
        if columns is not None:
            options["columns"] = columns
        in_one = is_program and options.get("single_transaction") is None
        _tonnage.log_debug(_log.wants_debug())
        return arguments(command, options), described.rows, described.notes, in_one

    def _run(
        self,
        command: str,
        options: dict[str, Any],
        source: Any,
        columns: Sequence[str] | None,
        source_id: str | None,
        nan: str | None,
        index: bool,
        progress: OnProgress,
        stop: _tonnage.Stop | None,
    ) -> Report:
        call, close = _progress(progress)
        written, rows, notes, in_one = self._given(command, options, source, columns, source_id, nan, index)
        try:
            account, samples, verified = self._native.load(
                command, written, rows, in_one, stop if stop is not None else _tonnage.Stop(), call
            )
        finally:
            close()
        report: Report = Report._of(account)
        report.data["notes"] += notes
        report._samples = samples
        if verified is not None:
            import json

            report.verified = json.loads(verified)
            if not json.loads(verified)["agrees"]:
                raise RejectedError(
                    "rows of the table are not those that were loaded", hint="report.verified says which", report=report
                )
        return report

    def plan(
        self,
        source: Any,
        table: str | None = None,
        *,
        statement: str | None = None,
        columns: Sequence[str] | None = None,
        source_id: str | None = None,
        nan: Nan | None = None,
        index: bool = False,
        **options: Any,
    ) -> Plan:
        """Say what :meth:`load`, or with ``statement`` :meth:`execute`, would do.

        See Also
        --------
        tonnage.plan : the parameters, what is returned, and what is raised.
        """
        if (table is None) == (statement is None):
            raise ConfigError("a plan is of a load into a table or of a statement", hint="table= or statement=")
        command = "load" if statement is None else "exec"
        named = {"table": table} if statement is None else {"sql": statement}
        written, rows, notes, in_one = self._given(
            command, {**options, **named}, source, columns, source_id, nan, index
        )
        plan = self._native.plan(command, written, rows, in_one)
        return Plan(plan + "".join(f"note: {note}\n" for note in notes))

    if TYPE_CHECKING:

        @overload
        def unload(
            self,
            table: str | None = None,
            *,
            query: str | None = None,
            to: None = None,
            progress: OnProgress = None,
            stop: _tonnage.Stop | None = None,
            **options: Unpack[UnloadOptions],
        ) -> Rows: ...
        @overload
        def unload(
            self,
            table: str | None = None,
            *,
            query: str | None = None,
            to: str | os.PathLike[str],
            progress: OnProgress = None,
            stop: _tonnage.Stop | None = None,
            **options: Unpack[UnloadOptions],
        ) -> UnloadReport: ...
        @overload
        def unload(
            self,
            table: str | None = None,
            *,
            query: str | None = None,
            to: str | os.PathLike[str] | None,
            progress: OnProgress = None,
            stop: _tonnage.Stop | None = None,
            **options: Unpack[UnloadOptions],
        ) -> Rows | UnloadReport: ...

    def unload(
        self,
        table: str | None = None,
        *,
        query: str | None = None,
        to: str | os.PathLike[str] | None = None,
        progress: OnProgress = None,
        stop: _tonnage.Stop | None = None,
        **options: Unpack[UnloadOptions],
    ) -> Rows | UnloadReport:
        """Read a table or a query.

        See Also
        --------
        tonnage.unload : the parameters, what is returned, and what is raised.
        """
        all_options: dict[str, Any] = {**options, "table": table, "query": query}
        if table is None and query is None:
            raise ConfigError("nothing says what to read", hint='table="orders" or query="select ..."')
        _tonnage.log_debug(_log.wants_debug())
        if to is None:
            return Rows(self._native.unload([*arguments("unload", all_options), "--output=-"]))
        call, close = _progress(progress)
        written = arguments("unload", {**all_options, "output": to})
        try:
            account = self._native.unload_files(written, stop if stop is not None else _tonnage.Stop(), call)
        finally:
            close()
        report: UnloadReport = UnloadReport._of(account)
        return report

    def get(
        self,
        keys: Any,
        table: str,
        *,
        related: Sequence[str] | str = (),
        **options: Unpack[GetOptions],
    ) -> Found:
        """Find rows by their keys.

        See Also
        --------
        tonnage.get : the parameters, what is returned, and what is raised.
        """
        all_options: dict[str, Any] = {
            **options, "table": table, "with": [related] if isinstance(related, str) else list(related)
        }
        _tonnage.log_debug(_log.wants_debug())
        if isinstance(keys, (str, os.PathLike)):
            return Found(self._native.get(arguments("get", {**all_options, "keys": keys}), []))
        return Found(self._native.get(arguments("get", all_options), keys_of(keys)))

    def buffer(
        self,
        table: str,
        **options: Unpack[BufferOptions],
    ) -> Buffer:
        """Open a buffer, which takes rows one at a time and drains them in the background.

        Parameters
        ----------
        table : str
            The table.
        ack : {"accepted", "journaled", "committed"}, default "accepted"
            When :meth:`Buffer.put` returns: once the row is in memory, on disk in the journal, or in the table.
        journal : str or PathLike, optional
            A directory where rows are kept until the database has them. The next buffer with it goes on with what a
            process that died has left.
        **options
            All of ``tonnage ingest``: ``mode``, ``key``, ``memory``, ``drain_bytes``, ``drain_age``, ``rejects`` ..

        Returns
        -------
        Buffer
            A context manager: its end drains all and closes it.
        """
        written = arguments("ingest", {**options, "table": table})
        return Buffer(self._native.buffer(written))

    def bulk_put(
        self,
        table: str,
        streams: Iterable[Any],
        *,
        columns: Sequence[str] | None = None,
        parallelism: int = 4,
        on_completed: Callable[[int], object] | None = None,
        on_key_exists: Callable[[Entry], object] | None = None,
        on_failed: Callable[[Failure, Entry], bool] | None = None,
        stop: _tonnage.Stop | None = None,
        **options: Unpack[LoadOptions],
    ) -> PutReport:
        """Put many streams of entries.

        See Also
        --------
        tonnage.bulk_put : the parameters, what is returned, and what is raised.
        """
        described = [
            describe(stream, columns=_names(columns), shown=f"stream {number}")
            for number, stream in enumerate(streams)
        ]
        sources: list[Any] = []
        for one in described:
            if isinstance(one.rows, list):
                raise ConfigError("a stream is rows of the program, and not a file", hint="tonnage.load() takes files")
            sources.append(one.rows)

        def exists(stream: int, row: int, data: list[tuple[str, str | None]]) -> None:
            if on_key_exists is not None:
                on_key_exists(Entry(stream, row, dict(data)))

        def failed(
            failure: tuple[str | None, str, str], stream: int, row: int, data: list[tuple[str, str | None]]
        ) -> bool:
            if on_failed is None:
                return False
            return bool(on_failed(Failure(*failure), Entry(stream, row, dict(data))))

        account = self._native.bulk_put(
            arguments("load", {**options, "table": table}),
            sources,
            parallelism,
            stop if stop is not None else _tonnage.Stop(),
            on_completed,
            None if on_key_exists is None else exists,
            None if on_failed is None else failed,
        )
        report: PutReport = PutReport._of(account)
        return report


class Entry:
    """An entry of a bulk put that was not written: its ``stream`` from 0, its ``row`` there from 1, its ``data`` as text."""

    __slots__ = ("stream", "row", "data")

    def __init__(self, stream: int, row: int, data: dict[str, str | None]) -> None:
        self.stream: int = stream
        self.row: int = row
        self.data: dict[str, str | None] = data

    def __repr__(self) -> str:
        return f"Entry(stream={self.stream}, row={self.row}, data={self.data!r})"


class Failure:
    """Why an entry was not written: the ``column`` or None, the database's ``code``, the ``message``."""

    __slots__ = ("column", "code", "message")

    def __init__(self, column: str | None, code: str, message: str) -> None:
        self.column: str | None = column
        self.code: str = code
        self.message: str = message

    def __repr__(self) -> str:
        return f"Failure(column={self.column!r}, code={self.code!r}, message={self.message!r})"


class Buffer:
    """Takes rows one at a time. Threads may share it.

    Examples
    --------
    >>> import tonnage
    >>> with tonnage.connect(getfixture("shop")).buffer("orders") as buffer:
    ...     number = buffer.put({"id": 5, "total": "2.50"})
    ...     buffer.wait(number)
    >>> buffer.close().rows["written"]
    1
    """

    __slots__ = ("_native", "_closed", "__weakref__")

    def __init__(self, native: _tonnage.Buffer) -> None:
        self._native = native
        self._closed: BufferReport | None = None

    @property
    def columns(self) -> list[str]:
        """The table's columns."""
        return self._native.columns

    @property
    def accepted(self) -> int:
        """The number of the last row that was accepted."""
        return self._native.accepted

    @property
    def journaled(self) -> int:
        """All rows up to this one are on disk in the journal."""
        return self._native.journaled

    @property
    def committed(self) -> int:
        """All rows up to this one are in the table or in the rejects."""
        return self._native.committed

    def put(self, row: Any, *, producer: str | None = None, number: int | None = None) -> int:
        """Put a row.

        Parameters
        ----------
        row : dict, or tuple of values in the order of the table's columns
            The row. A column that a dict does not name takes its default.
        producer, number : str, int, optional
            Whose row it is and the number that it has there. Rows of a producer that were put before are not taken again,
            so one that got no answer puts it again.

        Returns
        -------
        int
            The row's number, once it is as safe as ``ack`` says.

        Raises
        ------
        DatabaseError
            The one that ended the buffer.
        """
        if producer is None:
            return self._native.put(row)
        return self._native.put_from(producer, numbered(producer, number), row)

    def put_many(self, rows: Any) -> int:
        """Put many rows.

        Parameters
        ----------
        rows : frame, object of Arrow, or iterable of rows
            The rows: a frame of pandas or polars, anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, or rows as
            :meth:`put` takes them.

        Returns
        -------
        int
            The number of the last one, once all are as safe as ``ack`` says.

        Raises
        ------
        DatabaseError
            The one that ended the buffer.
        """
        rows = frame_of(rows)
        if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
            return self._native.put_arrow(rows)
        return self._native.put_rows(rows)

    def wait(self, number: int) -> None:
        """Wait until a row, and all before it, are in the table or in the rejects.

        Parameters
        ----------
        number : int
            What :meth:`put` has returned.

        Raises
        ------
        ConfigError
            If no such row was put.
        DatabaseError
            The one that ended the buffer.
        """
        self._native.wait(number)

    def wait_journaled(self, number: int) -> None:
        """Wait until a row, and all before it, are on disk in the journal.

        Parameters
        ----------
        number : int
            What :meth:`put` has returned.

        Raises
        ------
        ConfigError
            If no such row was put, or there is no journal.
        """
        self._native.wait_journaled(number)

    def flush(self) -> None:
        """Drain what was put before, and wait for it."""
        self._native.flush()

    def report(self) -> BufferReport:
        """Give the account so far."""
        report: BufferReport = BufferReport._of(self._native.report())
        return report

    def close(self) -> BufferReport:
        """Drain all and end; the account."""
        if self._closed is None:
            closed: BufferReport = BufferReport._of(self._native.close())
            self._closed = closed
        return self._closed

    def stop(self) -> BufferReport:
        """End without waiting for the database; the next buffer with the journal drains the rest."""
        if self._closed is None:
            closed: BufferReport = BufferReport._of(self._native.stop())
            self._closed = closed
        return self._closed

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()


def numbered(producer: str | None, number: int | None) -> int:
    """The number of a producer's row; 0 without a producer."""
    if producer is None:
        return 0
    if number is None:
        raise ConfigError("a producer numbers its rows", hint="number=17")
    return number


def connect(url: Url, *, shard_by: Sequence[str] = ()) -> Database:
    """Name a database, for several calls.

    Parameters
    ----------
    url : str, PathLike, list of them, or an engine or a connection of SQLAlchemy
        A URL, a file of SQLite, ``@NAME`` of targets.toml; several with ``shard_by``.
    shard_by : list of str, optional
        The columns that say in which of several databases a row is.

    Returns
    -------
    Database
        A context manager. It connects where it is entered, or first used.

    Raises
    ------
    ConfigError
        If ``url`` names no database.
    """
    return Database(url, shard_by=shard_by)


def _database(url: Url) -> Database:
    return url if isinstance(url, Database) else Database(url)


def load(
    source: Any,
    url: Url,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    source_id: str | None = None,
    nan: Nan | None = None,
    index: bool = False,
    progress: OnProgress = None,
    stop: _tonnage.Stop | None = None,
    **options: Unpack[LoadOptions],
) -> Report:
    """Load rows into a table: every row once, bad ones put aside.

    Parameters
    ----------
    source : path, frame, object of Arrow, or iterable
        Paths, globs, directories and URLs; whatever has ``__arrow_c_stream__`` or ``__arrow_c_array__`` (frames of pandas
        and polars, tables of pyarrow, relations of DuckDB), which is not copied; iterators of such; an iterable of dicts,
        or of tuples with ``columns``; a function that gives one of these.
    url : str, PathLike, Database, or an engine or a connection of SQLAlchemy
        The database.
    table : str
        The table: ``table``, ``schema.table`` or ``"odd.name"``.
    columns : list of str, optional
        The table's columns to load; of tuples the names of their values.
    source_id : str, optional
        The name of these rows, by which ``resume=True`` finds the run again. They must come as they did: a checksum of what
        was loaded says whether they do, and other rows are refused. Without it rows of the program are one transaction, where
        the database has them and ``jobs`` is not given.
    nan : {"null", "keep"}, optional
        What a float that is no number becomes. If not given, it is null in frames of pandas, where it stands for a missing
        value, and a number elsewhere.
    index : bool, default False
        Whether the index of a frame of pandas becomes columns.
    progress : bool or callable, optional
        True shows a line on a terminal and in notebooks; a function is called with a :class:`Progress` about every 100 ms.
    stop : Stop, optional
        ``stop.request()`` of another thread ends the run with an :class:`InterruptedError`.
    **options
        All of ``tonnage load``: ``mode``, ``key``, ``create``, ``rejects``, ``max_rejects``, ``resume``, ``jobs`` ..

    Returns
    -------
    Report
        The account.

    Raises
    ------
    ConfigError
        If an option is wrong.
    SchemaError
        If rows and table do not fit together.
    RejectedError
        If more rows are bad than is allowed; its ``report`` says what is written.
    DatabaseError
        If the database refuses something; its ``code`` is the database's.
    KeyboardInterrupt
        At Ctrl-C, once what is being written is finished; its notes have the account.

    Examples
    --------
    >>> import tonnage
    >>> report = tonnage.load([{"id": 9, "total": "7.25"}], getfixture("shop"), table="orders")
    >>> str(report.rows)
    '1 read = 1 written'
    """
    return _database(url).load(
        source,
        table,
        columns=columns,
        source_id=source_id,
        nan=nan,
        index=index,
        progress=progress,
        stop=stop,
        **options,
    )


def execute(
    statement: str,
    source: Any,
    url: Url,
    *,
    columns: Sequence[str] | None = None,
    source_id: str | None = None,
    nan: Nan | None = None,
    index: bool = False,
    progress: OnProgress = None,
    stop: _tonnage.Stop | None = None,
    **options: Unpack[ExecOptions],
) -> Report:
    """Run a statement with ``:name`` parameters for every row, exactly once.

    Parameters
    ----------
    statement : str
        An INSERT, UPDATE, DELETE or MERGE; ``:name`` is the value of column ``name`` of the row.
    source, url, columns, source_id, nan, index, progress, stop
        As of :func:`load`.
    **options
        All of ``tonnage exec``; ``key`` names the parameters that say which rows the statement touches, so that several
        jobs may run it.

    Returns
    -------
    Report
        The account.

    Examples
    --------
    >>> import tonnage
    >>> change = "update orders set total = total + :more where id = :id"
    >>> str(tonnage.execute(change, [{"id": 1, "more": 5}], getfixture("shop")).rows)
    '1 read = 1 written'
    """
    return _database(url).execute(
        statement,
        source,
        columns=columns,
        source_id=source_id,
        nan=nan,
        index=index,
        progress=progress,
        stop=stop,
        **options,
    )


def plan(
    source: Any,
    url: Url,
    table: str | None = None,
    *,
    statement: str | None = None,
    columns: Sequence[str] | None = None,
    source_id: str | None = None,
    nan: Nan | None = None,
    index: bool = False,
    **options: Any,
) -> Plan:
    """Say what a load, or with ``statement`` an execute, of the same arguments would do; nothing is written.

    Rows of an iterator are read for it, so give a function or a list.

    Parameters
    ----------
    source, url, columns, source_id, nan, index
        As of :func:`load`.
    table, statement : str
        The table of a load, or the statement of an execute: one of the two.
    **options
        As of :func:`load` or :func:`execute`.

    Returns
    -------
    Plan
        A text: what ``--dry-run`` of the command prints.

    Raises
    ------
    ConfigError
        If an option is wrong.
    SchemaError
        If rows and table do not fit together.
    """
    return _database(url).plan(
        source, table, statement=statement, columns=columns, source_id=source_id, nan=nan, index=index, **options
    )


if TYPE_CHECKING:

    @overload
    def unload(
        url: Url,
        table: str | None = None,
        *,
        query: str | None = None,
        to: None = None,
        progress: OnProgress = None,
        stop: _tonnage.Stop | None = None,
        **options: Unpack[UnloadOptions],
    ) -> Rows: ...
    @overload
    def unload(
        url: Url,
        table: str | None = None,
        *,
        query: str | None = None,
        to: str | os.PathLike[str],
        progress: OnProgress = None,
        stop: _tonnage.Stop | None = None,
        **options: Unpack[UnloadOptions],
    ) -> UnloadReport: ...
    @overload
    def unload(
        url: Url,
        table: str | None = None,
        *,
        query: str | None = None,
        to: str | os.PathLike[str] | None,
        progress: OnProgress = None,
        stop: _tonnage.Stop | None = None,
        **options: Unpack[UnloadOptions],
    ) -> Rows | UnloadReport: ...


def unload(
    url: Url,
    table: str | None = None,
    *,
    query: str | None = None,
    to: str | os.PathLike[str] | None = None,
    progress: OnProgress = None,
    stop: _tonnage.Stop | None = None,
    **options: Unpack[UnloadOptions],
) -> Rows | UnloadReport:
    """Read a table or a query: every row once, all of one state.

    Parameters
    ----------
    url
        As of :func:`load`.
    table, query : str
        What to read, one of the two.
    to : str or PathLike, optional
        A file in the format of its ending; a directory, or a name with ``{}``, gets a file a job.
    **options
        All of ``tonnage unload``: ``columns``, ``where``, ``limit``, ``jobs``, ``split_by``, ``overwrite`` ..

    Returns
    -------
    Rows or UnloadReport
        The rows as a stream; with ``to`` the account.

    Examples
    --------
    >>> import tonnage
    >>> tonnage.unload(getfixture("shop"), table="orders", where="id < 3").to_arrow().num_rows
    2
    """
    return _database(url).unload(table, query=query, to=to, progress=progress, stop=stop, **options)


def get(
    url: Url,
    keys: Any,
    table: str,
    *,
    related: Sequence[str] | str = (),
    **options: Unpack[GetOptions],
) -> Found:
    """Find rows by their keys.

    Parameters
    ----------
    url
        As of :func:`load`.
    keys : list of values or tuples, path, frame
        The keys, a tuple where they have several columns; a path names files of them; columns of a frame go by name.
    table : str
        The table.
    related : list of str, optional
        Other tables whose rows belong to these, by their foreign keys.
    **options
        All of ``tonnage get``: ``key``, ``columns``, ``ordered``, ``nested``, ``on``, ``from_``, ``to``, ``before``,
        ``after`` ..

    Returns
    -------
    Found
        The rows as a stream; ``missing`` are the keys without, ``related["lines"]`` the rows of another table.

    Examples
    --------
    >>> import tonnage
    >>> found = tonnage.get(getfixture("shop"), [1, 17], table="orders", columns=["id"])
    >>> found.missing
    [17]
    >>> found.to_pylist()
    [{'id': 1}]
    """
    return _database(url).get(keys, table, related=related, **options)


def bulk_put(
    url: Url,
    table: str,
    streams: Iterable[Any],
    *,
    columns: Sequence[str] | None = None,
    parallelism: int = 4,
    on_completed: Callable[[int], object] | None = None,
    on_key_exists: Callable[[Entry], object] | None = None,
    on_failed: Callable[[Failure, Entry], bool] | None = None,
    stop: _tonnage.Stop | None = None,
    **options: Unpack[LoadOptions],
) -> PutReport:
    """Put many streams of entries at once.

    Parameters
    ----------
    url, table
        As of :func:`load`.
    streams : iterable of frames, objects of Arrow, or iterables of rows
        The streams, all of the same columns.
    parallelism : int, default 4
        Streams that are read at once.
    on_completed : callable, optional
        Called with the number of each stream that is completed.
    on_key_exists : callable, optional
        Called with each :class:`Entry` of an insert whose key is there. Without it they are only counted.
    on_failed : callable, optional
        Called with the :class:`Failure` and the :class:`Entry` of any other that cannot be written; whether it returns true
        says whether to go on. Without it the first ends the put.
    **options
        Of ``tonnage load``: ``mode``, ``key``, ``jobs``, ``batch_rows`` ..

    Returns
    -------
    PutReport
        The account.
    """
    return _database(url).bulk_put(
        table,
        streams,
        columns=columns,
        parallelism=parallelism,
        on_completed=on_completed,
        on_key_exists=on_key_exists,
        on_failed=on_failed,
        stop=stop,
        **options,
    )
