"""The same for :mod:`asyncio`: each call is a coroutine, and the event loop goes on while the engine works.

A task that is cancelled stops its run: what is being written is finished, and the account is the ``report`` of the
``CancelledError``, and in its notes.
"""

from __future__ import annotations

import asyncio
from functools import partial

from . import _database
from ._errors import InterruptedError
from ._tonnage import Stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, TypedDict, TypeVar, Unpack, overload

    from ._database import Nan, OnProgress, Url
    from ._options import BufferOptions, ExecOptions, GetOptions, LoadOptions, UnloadOptions
    from ._report import BufferReport, Plan, PutReport, Report, UnloadReport
    from ._stream import Found, Rows
    from ._tonnage import Batch

    class SourceRequest(TypedDict, total=False):
        """What a run is asked for besides its options: see :func:`tonnage.load`."""

        columns: Sequence[str] | None
        source_id: str | None
        nan: Nan | None
        index: bool
        progress: OnProgress
        stop: Stop | None

    class LoadRequest(LoadOptions, SourceRequest, total=False):
        pass

    class ExecRequest(ExecOptions, SourceRequest, total=False):
        pass

    class UnloadRequest(UnloadOptions, total=False):
        query: str | None
        progress: OnProgress
        stop: Stop | None

    T = TypeVar("T")

__all__ = ["Buffer", "Database", "batches", "bulk_put", "connect", "execute", "get", "load", "plan", "unload"]


async def _away(call: Callable[[], T]) -> T:
    """Do a call on another thread."""
    return await asyncio.get_running_loop().run_in_executor(None, call)


async def _stoppable(call: Callable[..., T], asked: Mapping[str, object]) -> T:
    """Do a call on another thread; who cancels it stops it, and waits until it has stopped."""
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = dict(asked)
    stop = options["stop"] = options.get("stop") or Stop()
    told = options.get("progress")
    if callable(told):
        options["progress"] = lambda progress: loop.call_soon_threadsafe(told, progress)
    work = loop.run_in_executor(None, partial(call, **options))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError as cancelled:
        stop.request()
        try:
            await work
        except InterruptedError as interrupted:
            if interrupted.report is not None:
                cancelled.report = interrupted.report  # type: ignore[attr-defined]
                cancelled.add_note(str(interrupted.report))
        except Exception as error:
            cancelled.add_note(str(error))
        raise


async def load(
    source: Any,
    url: Url,
    table: str,
    **options: Unpack[LoadRequest],
) -> Report:
    """Load rows into a table.

    See Also
    --------
    tonnage.load : the parameters, what is returned, and what is raised.
    """
    return await _stoppable(partial(_database.load, source, url, table), options)


async def execute(
    statement: str,
    source: Any,
    url: Url,
    **options: Unpack[ExecRequest],
) -> Report:
    """Run a statement for every row.

    See Also
    --------
    tonnage.execute : the parameters, what is returned, and what is raised.
    """
    return await _stoppable(partial(_database.execute, statement, source, url), options)


if TYPE_CHECKING:

    @overload
    async def unload(
        url: Url, table: str | None = None, *, to: None = None, **options: Unpack[UnloadRequest]
    ) -> Rows: ...
    @overload
    async def unload(
        url: Url, table: str | None = None, *, to: str | os.PathLike[str], **options: Unpack[UnloadRequest]
    ) -> UnloadReport: ...
    @overload
    async def unload(
        url: Url, table: str | None = None, *, to: str | os.PathLike[str] | None, **options: Unpack[UnloadRequest]
    ) -> Rows | UnloadReport: ...


async def unload(
    url: Url,
    table: str | None = None,
    *,
    to: str | os.PathLike[str] | None = None,
    **options: Unpack[UnloadRequest],
) -> Rows | UnloadReport:
    """Read a table or a query. Read the rows with :func:`batches`.

    See Also
    --------
    tonnage.unload : the parameters, what is returned, and what is raised.
    """
    return await _stoppable(partial(_database.unload, url, table, to=to), options)


async def get(
    url: Url, keys: Any, table: str, *, related: Sequence[str] | str = (), **options: Unpack[GetOptions]
) -> Found:
    """Find rows by their keys.

    See Also
    --------
    tonnage.get : the parameters, what is returned, and what is raised.
    """
    return await _away(partial(_database.get, url, keys, table, related=related, **options))


async def plan(source: Any, url: Url, table: str | None = None, **options: Any) -> Plan:
    """Say what would be done.

    See Also
    --------
    tonnage.plan : the parameters, what is returned, and what is raised.
    """
    return await _away(partial(_database.plan, source, url, table, **options))


async def bulk_put(url: Url, table: str, streams: Iterable[Any], **options: Any) -> PutReport:
    """Put many streams of entries. Callbacks are called on other threads.

    See Also
    --------
    tonnage.bulk_put : the parameters, what is returned, and what is raised.
    """
    return await _stoppable(partial(_database.bulk_put, url, table, streams), options)


async def batches(rows: Rows) -> AsyncIterator[Batch]:
    """Give the batches of rows, one after another.

    Parameters
    ----------
    rows : Rows
        What :func:`unload` or :func:`get` has given.

    Yields
    ------
    Batch
        Some rows, with ``__arrow_c_array__``.
    """
    iterator = iter(rows)
    while (batch := await _away(partial(next, iterator, None))) is not None:
        yield batch


def _settle(puts: list[tuple[asyncio.Future[int], int | None, BaseException | None]]) -> None:
    for future, number, error in puts:
        # Who waited may have been cancelled.
        if future.done():
            continue
        if error is not None:
            future.set_exception(error)
        elif number is not None:
            future.set_result(number)


def _settler(loop: asyncio.AbstractEventLoop) -> Callable[[list[Any]], object]:
    """What tells futures of the loop, called by another thread."""
    return lambda puts: loop.call_soon_threadsafe(_settle, puts)


class Buffer:
    """A buffer: :class:`tonnage.Buffer`, whose calls are coroutines."""

    __slots__ = ("_buffer", "_loop", "_settle")

    def __init__(self, buffer: _database.Buffer) -> None:
        self._buffer = buffer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._settle: Callable[[list[tuple[Any, int | None, BaseException | None]]], object] | None = None

    @property
    def committed(self) -> int:
        """All rows up to this one are in the table or in the rejects."""
        return self._buffer.committed

    async def put(self, row: Any, *, producer: str | None = None, number: int | None = None) -> int:
        """Put a row; its number, once it is as safe as ``ack`` says.

        It takes no thread, so thousands may be waited for at once. A put that is cancelled may have been accepted.

        See Also
        --------
        tonnage.Buffer.put : the parameters, what is returned, and what is raised.
        """
        number = _database.numbered(producer, number)
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._settle = loop, _settler(loop)
        assert self._settle is not None
        future: asyncio.Future[int] = loop.create_future()
        at_once = self._buffer._native.put_soon(row, producer, number, future, self._settle)
        return at_once if at_once is not None else await future

    async def put_many(self, rows: Any) -> int:
        """Put the rows of a frame or an iterable; the number of the last one.

        See Also
        --------
        tonnage.Buffer.put_many : the parameters, what is returned, and what is raised.
        """
        return await _away(partial(self._buffer.put_many, rows))

    async def wait(self, number: int) -> None:
        """Wait until row ``number`` is in the table or in the rejects.

        See Also
        --------
        tonnage.Buffer.wait : the parameters, what is returned, and what is raised.
        """
        await _away(partial(self._buffer.wait, number))

    async def flush(self) -> None:
        """Drain what was put before."""
        await _away(self._buffer.flush)

    async def close(self) -> BufferReport:
        """Drain all and end; the account."""
        return await _away(self._buffer.close)

    async def stop(self) -> BufferReport:
        """End without waiting for the database."""
        return await _away(self._buffer.stop)

    async def __aenter__(self) -> Buffer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Database:
    """A database: :class:`tonnage.Database`, whose calls are coroutines."""

    __slots__ = ("_database",)

    def __init__(self, url: Url, *, shard_by: Sequence[str] = ()) -> None:
        self._database = _database.Database(url, shard_by=shard_by)

    @property
    def url(self) -> str:
        """The URL, without its password."""
        return self._database.url

    async def __aenter__(self) -> Database:
        await _away(self._database.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _away(self._database.close)

    async def load(
        self,
        source: Any,
        table: str,
        **options: Unpack[LoadRequest],
    ) -> Report:
        """Load rows into a table.

        See Also
        --------
        tonnage.load : the parameters, what is returned, and what is raised.
        """
        return await load(source, self._database, table, **options)

    async def execute(
        self,
        statement: str,
        source: Any,
        **options: Unpack[ExecRequest],
    ) -> Report:
        """Run a statement for every row.

        See Also
        --------
        tonnage.execute : the parameters, what is returned, and what is raised.
        """
        return await execute(statement, source, self._database, **options)

    if TYPE_CHECKING:

        @overload
        async def unload(
            self, table: str | None = None, *, to: None = None, **options: Unpack[UnloadRequest]
        ) -> Rows: ...
        @overload
        async def unload(
            self, table: str | None = None, *, to: str | os.PathLike[str], **options: Unpack[UnloadRequest]
        ) -> UnloadReport: ...
        @overload
        async def unload(
            self, table: str | None = None, *, to: str | os.PathLike[str] | None, **options: Unpack[UnloadRequest]
        ) -> Rows | UnloadReport: ...

    async def unload(
        self,
        table: str | None = None,
        *,
        to: str | os.PathLike[str] | None = None,
        **options: Unpack[UnloadRequest],
    ) -> Rows | UnloadReport:
        """Read a table or a query.

        See Also
        --------
        tonnage.unload : the parameters, what is returned, and what is raised.
        """
        return await _stoppable(partial(_database.unload, self._database, table, to=to), options)

    async def get(
        self, keys: Any, table: str, *, related: Sequence[str] | str = (), **options: Unpack[GetOptions]
    ) -> Found:
        """Find rows by their keys.

        See Also
        --------
        tonnage.get : the parameters, what is returned, and what is raised.
        """
        return await get(self._database, keys, table, related=related, **options)

    async def plan(self, source: Any, table: str | None = None, **options: Any) -> Plan:
        """Say what would be done.

        See Also
        --------
        tonnage.plan : the parameters, what is returned, and what is raised.
        """
        return await plan(source, self._database, table, **options)

    async def bulk_put(self, table: str, streams: Iterable[Any], **options: Any) -> PutReport:
        """Put many streams of entries.

        See Also
        --------
        tonnage.bulk_put : the parameters, what is returned, and what is raised.
        """
        return await bulk_put(self._database, table, streams, **options)

    async def buffer(self, table: str, **options: Unpack[BufferOptions]) -> Buffer:
        """Open a buffer.

        See Also
        --------
        tonnage.Database.buffer : the parameters, what is returned, and what is raised.
        """
        return Buffer(await _away(partial(self._database.buffer, table, **options)))


def connect(url: Url, *, shard_by: Sequence[str] = ()) -> Database:
    """Name a database, for several calls: an asynchronous context manager.

    See Also
    --------
    tonnage.connect : the parameters, what is returned, and what is raised.
    """
    return Database(url, shard_by=shard_by)
