"""A client of ``tonnage serve``, with nothing but the standard library."""

from __future__ import annotations

import json
import threading
import time
import uuid

from ._errors import ConfigError, DatabaseError, Error
from ._source import frame_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import http.client
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Literal, Self

    Ack = Literal["accepted", "journaled", "committed"]
    Mode = Literal["insert", "upsert", "ignore", "update", "delete"]

_ARROW = "application/vnd.apache.arrow.stream"
_JSON_LINES = "application/x-ndjson"

# Rows of a request where the caller gives any number, and the bytes at which one is sent early.
_ROWS_MAX = 1_000
_BYTES_MAX = 4 << 20

# What may go well when it is sent again: too slow, too much, away.
_AGAIN = frozenset({408, 429, 502, 503, 504})


class Reject:
    """A row that the service put aside.

    Attributes
    ----------
    row : int
        Its number among the rows of the call, from 0.
    column : str or None
        The column, where it is known.
    code : str
        The database's code of the error, or tonnage's.
    message : str
        What is wrong.
    """

    __slots__ = ("row", "column", "code", "message")

    def __init__(self, row: int, column: str | None, code: str, message: str) -> None:
        self.row: int = row
        self.column: str | None = column
        self.code: str = code
        self.message: str = message

    def __repr__(self) -> str:
        where = "" if self.column is None else f", column {self.column}"
        return f"<row {self.row}{where}: {self.message} ({self.code})>"


class Put:
    """What became of the rows of a call.

    Attributes
    ----------
    rows : int
        Rows that were sent.
    known : int
        Of these, rows that the service had from an earlier request with the same numbers; they are not doubled.
    rejects : list of Reject
        The rows that are bad. The others are in.
    first, last : int or None
        The service's own sequence numbers of the first and the last row.
    """

    __slots__ = ("rows", "known", "rejects", "first", "last")

    def __init__(self) -> None:
        self.rows: int = 0
        self.known: int = 0
        self.rejects: list[Reject] = []
        self.first: int | None = None
        self.last: int | None = None

    def _add(self, answer: Mapping[str, Any]) -> None:
        # The service counts the rows of a body from 1.
        for bad in answer.get("rejects", []):
            row = self.rows + int(bad["row"]) - 1
            self.rejects.append(Reject(row, bad["column"], bad["code"], bad["message"]))
        self.rows += int(answer["rows"])
        self.known += int(answer["known"])
        if self.first is None:
            self.first = answer["first"]
        self.last = answer["last"] if answer["last"] is not None else self.last

    def __repr__(self) -> str:
        return f"<{self.rows} rows, {self.known} known before, {len(self.rejects)} rejected>"


class Got:
    """Rows by their keys: iterate it.

    Attributes
    ----------
    rows : list of dict
        The rows that were found.
    missing : list of dict
        The keys that have no row, at most 10,000 of them.
    missing_count : int
        How many there are.
    """

    __slots__ = ("rows", "missing", "missing_count")

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.rows: list[dict[str, Any]] = answer["rows"]
        self.missing: list[dict[str, Any]] = answer["missing"]
        self.missing_count: int = answer["missing_count"]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<{len(self.rows)} rows, {self.missing_count} keys missing>"


class Client:
    """Puts rows into a service, and gets rows from it.

    Rows of a client are numbered. What is sent again, because an answer was lost or the service was full or away, has the
    same numbers, so it is there once. A client that is given a ``producer`` name goes on where the last one of that name
    stopped; only one may use a name at a time.

    Parameters
    ----------
    url : str
        ``http://`` or ``https://``, host and port of the service.
    token : str, optional
        The token that ``tonnage serve --new-token`` printed.
    database : str, optional
        The name of the database in the service's configuration; needed where it has several.
    producer : str, optional
        The name under which rows are numbered; a new one of this client's own if left out.
    timeout : float
        Seconds for which an answer is waited for.
    patience : float
        Seconds for which a request is tried again, with growing pauses, before it raises.

    Threads may share a client; its requests go one after another.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        database: str | None = None,
        producer: str | None = None,
        timeout: float = 60.0,
        patience: float = 300.0,
    ) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"'{url}' is not the URL of a service", hint="write it as http://127.0.0.1:8432")
        if parts.username is not None:
            raise ConfigError("the URL holds a user", hint="give the token as token=")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        self._token = token
        self._database = database
        self._given = producer is not None
        self._producer = producer if producer is not None else f"python-{uuid.uuid4().hex}"
        self._timeout = timeout
        self._patience = patience
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        # The number of the next row, by table and mode; none where the service has to be asked.
        self._next: dict[tuple[str, str], int | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The client can be used again."""
        with self._lock:
            self._drop()

    def put(
        self, table: str, row: Mapping[str, object], *, ack: Ack = "journaled", mode: Mode = "insert"
    ) -> Put:
        """Put one row, and wait for the acknowledgement.

        Parameters
        ----------
        table : str
            The table.
        row : mapping
            Columns to values.
        ack : {"journaled", "committed", "accepted"}, default "journaled"
            How safe the row is once this returns: on the service's disk, in the table, or in its memory.
        mode : {"insert", "upsert", "ignore", "update", "delete"}, default "insert"
            What happens to the row.

        Returns
        -------
        Put
            What was put.

        Raises
        ------
        Error
            If the service refuses the request, or does not answer within ``patience``.
        """
        return self.put_many(table, [row], ack=ack, mode=mode)

    def put_many(
        self, table: str, rows: Any, *, ack: Ack = "journaled", mode: Mode = "insert"
    ) -> Put:
        """Put rows: an iterable of mappings, or anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``.

        Bad rows are in ``rejects`` of what is returned, and the others are in the table, or on their way to it as far as
        ``ack`` says. Arrow is encoded by pyarrow, which must be installed.

        Parameters
        ----------
        table, ack, mode
            As of :meth:`put`.
        rows : frame, object of Arrow, or iterable of mappings
            The rows.

        Returns
        -------
        Put
            What was put.

        Raises
        ------
        Error
            If the service refuses a request, or does not answer within ``patience``. What was put before stays.
        """
        done = Put()
        bodies: Iterable[tuple[str, bytes]]
        rows = frame_of(rows)
        if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
            bodies = ((_ARROW, body) for body in _arrow(rows))
        else:
            bodies = ((_JSON_LINES, body) for body in _lines(rows))
        for kind, body in bodies:
            with self._lock:
                done._add(self._put(table, kind, body, ack, mode))
        return done

    def get(
        self,
        table: str,
        keys: Sequence[object],
        *,
        by: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Got:
        """Get rows by their keys.

        Parameters
        ----------
        table : str
            The table.
        keys : sequence
            Values of a key of one column, whose name is ``by``; or mappings of its columns to values.
        by : str or sequence of str, optional
            The columns of the key; those of the mappings if left out.
        columns : sequence of str, optional
            The columns wanted; all if left out.
        """
        names = [by] if isinstance(by, str) else list(by) if by is not None else None
        written: list[dict[str, object]] = []
        for key in keys:
            if isinstance(key, dict):
                written.append(key)
            elif names is not None:
                values = key if isinstance(key, (tuple, list)) else [key]
                if len(values) != len(names):
                    raise ConfigError(f"the key {key!r} has {len(values)} values and by= names {len(names)} columns")
                written.append(dict(zip(names, values)))
            else:
                raise ConfigError(f"nothing says which column {key!r} is of", hint='by="id" names it')
        if not written:
            return Got({"rows": [], "missing": [], "missing_count": 0})
        names = names if names is not None else list(written[0])
        query = {"by": ",".join(names)}
        if columns is not None:
            query["columns"] = ",".join(columns)
        body = b"".join(_json(key) + b"\n" for key in written)
        headers = {"Content-Type": _JSON_LINES, "Accept": "application/json"}
        with self._lock:
            return Got(self._ask("POST", self._path(table, "get", query), body, headers))

    def position(self, table: str, *, mode: Mode = "insert") -> dict[str, int | None]:
        """Say how far this producer's rows of a table have come.

        Parameters
        ----------
        table, mode
            As of :meth:`put`.

        Returns
        -------
        dict
            The numbers of the last row that is ``accepted``, ``journaled`` and ``committed``, each None where there is none, and the
            ``next`` one.
        """
        with self._lock:
            return self._position(table, mode)

    def _position(self, table: str, mode: str) -> dict[str, int | None]:
        from urllib.parse import quote

        path = f"{self._base}/v1/producers/{quote(self._producer, safe='')}"
        try:
            answer = self._ask("GET", path, b"", {"Accept": "application/json"})
        except _Refused as refused:
            if refused.status != 404:
                raise
            answer = {"tables": []}
        for known in answer["tables"]:
            is_table = known["table"] == table or known["table"].rpartition(".")[2] == table
            if is_table and known["mode"] == mode and self._database in (None, known["database"]):
                return {name: known[name] for name in ("accepted", "journaled", "committed", "next")}
        return {"accepted": None, "journaled": None, "committed": None, "next": 1}

    def _put(self, table: str, kind: str, body: bytes, ack: str, mode: str) -> Mapping[str, Any]:
        place = (table, mode)
        first = self._next.get(place, None if self._given else 1)
        if first is None:
            first = self._position(table, mode)["next"] or 1
        headers = {
            "Content-Type": kind,
            "Accept": "application/json",
            "Tonnage-Producer": self._producer,
            "Tonnage-Sequence": str(first),
        }
        # Where it fails, a part of the rows may have been taken.
        self._next[place] = None
        answer: Mapping[str, Any] = self._ask(
            "POST", self._path(table, "rows", {"ack": ack, "mode": mode}), body, headers
        )
        self._next[place] = int(answer["next"])
        return answer

    def _path(self, table: str, what: str, query: dict[str, str]) -> str:
        from urllib.parse import quote, urlencode

        if self._database is not None:
            query["database"] = self._database
        return f"{self._base}/v1/tables/{quote(table, safe='')}/{what}?{urlencode(query)}"

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Any:
        """Send a request until it is answered, or patience ends."""
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        ends = time.monotonic() + self._patience
        pause = 0.05
        while True:
            wait: float | None = None
            try:
                status, after, content = self._once(method, path, body, headers)
            except OSError as cause:
                trouble: Error = DatabaseError(
                    f"{self._host} does not answer: {cause}", hint="is tonnage serve running there?"
                )
                trouble.__cause__ = cause
            else:
                if status < 300:
                    return json.loads(content)
                trouble = _refused(status, content)
                if status not in _AGAIN:
                    raise trouble
                wait = after
            if wait is None:
                wait, pause = pause, min(pause * 2, 5.0)
            if time.monotonic() + wait > ends:
                raise trouble
            time.sleep(wait)

    def _once(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, float | None, bytes]:
        import http.client

        if self._connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            self._connection = kind(self._host, self._port, timeout=self._timeout)
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as cause:
            self._drop()
            raise cause if isinstance(cause, OSError) else OSError(str(cause) or type(cause).__name__)
        except BaseException:
            # Interrupted half-way: the next answer on this connection would be that of this request.
            self._drop()
            raise
        after = response.getheader("Retry-After")
        return response.status, float(after) if after is not None and after.isdigit() else None, content

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Refused(DatabaseError):
    """The service's refusal."""

    status: int = 0


def _refused(status: int, content: bytes) -> _Refused:
    message, hint, code = f"the service answered with status {status}", None, None
    try:
        error = json.loads(content)["error"]
        message, hint, code = str(error["message"]), error.get("hint"), error.get("code")
    except (ValueError, KeyError, TypeError):
        pass
    refused = _Refused(message, hint=hint, code=code)
    refused.status = status
    return refused


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, default=_text, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as cause:
        raise ConfigError(f"{value!r} cannot be JSON: {cause}") from cause


def _text(value: object) -> object:
    """What JSON has no word for, as the service reads it."""
    import datetime
    import decimal

    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    raise TypeError(f"values of {type(value).__name__} have no form in JSON")


def _lines(rows: Iterable[object]) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for row in rows:
        line = _json(row)
        lines.append(line)
        size += len(line)
        if len(lines) >= _ROWS_MAX or size >= _BYTES_MAX:
            yield b"\n".join(lines) + b"\n"
            lines, size = [], 0
    if lines:
        yield b"\n".join(lines) + b"\n"


def _arrow(rows: Any) -> Iterator[bytes]:
    try:
        import pyarrow as pa
    except ImportError as cause:
        raise ConfigError("Arrow rows are encoded by pyarrow, which is not installed", hint="pip install pyarrow") from cause
    if hasattr(rows, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(rows)
    else:
        batch = pa.record_batch(rows)
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    for batch in reader:
        # A request is a part that is sent again as a whole.
        for start in range(0, batch.num_rows, 65_536):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch.slice(start, 65_536))
            yield sink.getvalue().to_pybytes()
