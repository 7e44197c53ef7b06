"""Accounts of what was done."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, ClassVar

    from ._stream import Rows


class Account:
    """An account: its entries are attributes, and all of it is :attr:`data`.

    Attributes
    ----------
    data : dict
        What ``--report`` of the command writes: docs/reference/report.md has every entry.
    """

    data: dict[str, Any]

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)

    @classmethod
    def _of(cls, text: str) -> Any:
        import json

        return cls(json.loads(text))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "data":
            raise AttributeError(name)
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"an account has no {name!r}; it has {', '.join(self.data)}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.data})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).splitlines()[0]}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and self.data == other.data

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class RowCounts:
    """Rows by what became of them: ``read == written + skipped + rejected + unfinished``.

    Attributes
    ----------
    read, written, rejected, unfinished : int
        Rows.
    conflict, unmatched, superseded, resumed : int
        Rows that were left out: their key was there; was not there; a later row of the same key came; an earlier attempt
        had done them.
    """

    read: int
    written: int
    rejected: int
    unfinished: int
    conflict: int
    unmatched: int
    superseded: int
    resumed: int

    __slots__ = ("read", "written", "rejected", "unfinished", "conflict", "unmatched", "superseded", "resumed")

    def __init__(self, rows: Mapping[str, Any]) -> None:
        skipped = rows["skipped"]
        self.read, self.written = rows["read"], rows["written"]
        self.rejected, self.unfinished = rows["rejected"], rows["unfinished"]
        self.conflict, self.unmatched = skipped["conflict"], skipped["unmatched"]
        self.superseded, self.resumed = skipped["superseded"], skipped["resumed"]

    @property
    def skipped(self) -> int:
        """All rows that were left out."""
        return self.conflict + self.unmatched + self.superseded + self.resumed

    def _terms(self) -> list[tuple[int, str]]:
        terms = [
            (self.conflict, "skipped (key exists)"),
            (self.unmatched, "skipped (no such key)"),
            (self.superseded, "superseded"),
            (self.resumed, "resumed"),
            (self.rejected, "rejected"),
            (self.unfinished, "unfinished"),
        ]
        return [term for term in terms if term[0]]

    def __str__(self) -> str:
        rest = "".join(f" + {count:,} {name}" for count, name in self._terms())
        return f"{self.read:,} read = {self.written:,} written{rest}"

    def __repr__(self) -> str:
        return f"<RowCounts: {self}>"


class Report(Account):
    """The account of a load or of a statement for every row.

    Attributes
    ----------
    state : str
        ``finished``, ``stopped`` or ``nothing to do``.
    rows : RowCounts
        The rows.
    seconds : float
        Seconds of this attempt.
    rows_per_second : float
        Rows written a second.
    run_id : str or None
        The run in the ledger.
    notes : list of str
        What one should know.
    guarantees_lost : list of str
        Promises that could not be given.
    error : str or None
        Why it stopped, where it did.
    verified : dict or None
        What ``verify=True`` has found.
    """

    if TYPE_CHECKING:
        run_id: str | None
        state: str
        target: str
        table: str
        operation: str
        method: str
        seconds: float
        rows_per_second: float
        jobs: int
        commits: int
        retries: int
        notes: list[str]
        guarantees_lost: list[str]
        settings_changed: list[str]
        error: str | None

    _samples: Sequence[tuple[float, int]] = ()
    verified: dict[str, Any] | None = None

    @property
    def rows(self) -> RowCounts:
        """Rows by what became of them."""
        return RowCounts(self.data["rows"])

    @property
    def rejects_path(self) -> str | None:
        """The file of the rows that were put aside; None where there are none."""
        path: str | None = self.data["rejects"]
        return path

    def rejects(self) -> Rows:
        """Give the rows that were put aside as a table.

        Returns
        -------
        Rows
            Columns ``file``, ``row``, ``column``, ``code``, ``message`` and ``data`` (the row as JSON). Those of all
            attempts of the run; no rows where none were put aside.

        Raises
        ------
        OSError
            If the file of the rejects is gone.
        """
        import json

        from ._stream import Rows

        columns: dict[str, list[Any]] = {
            "file": [], "row": [], "column": [], "code": [], "message": [], "data": []
        }
        if self.rejects_path is not None:
            with open(self.rejects_path, encoding="utf-8") as lines:
                for line in lines:
                    found = json.loads(line)
                    for name, values in columns.items():
                        value = found.get(name)
                        if name == "data":
                            value = json.dumps(found.get("data", found.get("raw")), ensure_ascii=False)
                        values.append(value)
        return Rows(columns)

    def __str__(self) -> str:
        data = self.data
        rows = self.rows
        preposition = "on" if data["operation"] == "statement" else "into"
        jobs, commits = data["jobs"], data["commits"]
        bound = str(data["bound_by"]).split(":")[0]
        lines = [
            f"{data['operation']} {preposition} {data['target']} {data['table']}: {_counted(rows.written, 'row')} written in "
            f"{data['seconds']:.2f} s, {int(data['rows_per_second']):,} rows/s",
            f"  {data['method']} by {_counted(jobs, 'job')}, {_counted(commits, 'commit')}, durability "
            f"{data['durability']}, bound by {bound}",
            f"  {rows}",
        ]
        if data["state"] != "finished":
            lines.insert(1, f"  {data['state']}" + (f": {data['error']}" if data["error"] else ""))
        if self.rejects_path is not None:
            lines.append(f"  rejects in {self.rejects_path}")
        lines += [f"  note: {note}" for note in data["notes"]]
        if self.verified is not None:
            lines.append("  verified: " + ("rows agree" if self.verified["agrees"] else "rows differ"))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ._html import report_html

        return report_html(self, self._samples)


class UnloadReport(Account):
    """The account of an unload into files.

    Attributes
    ----------
    rows, bytes : int
        Rows, and bytes of the files.
    files : list of dict
        ``path``, ``rows``, ``bytes`` of each.
    seconds, rows_per_second : float
        How long it took.
    """

    if TYPE_CHECKING:
        rows: int
        bytes: int
        files: list[dict[str, Any]]
        seconds: float
        rows_per_second: float
        notes: list[str]

    def __str__(self) -> str:
        data = self.data
        what = data["table"] or "the query"
        head = (
            f"{what} of {data['target']}: {_counted(data['rows'], 'row')}, {data['bytes']:,} bytes in "
            f"{data['seconds']:.2f} s, {int(data['rows_per_second']):,} rows/s"
        )
        files = f"  {_counted(len(data['files']), 'file')} by {_counted(data['jobs'], 'job')}"
        return "\n".join([head, files, *(f"  note: {note}" for note in data["notes"])])


class GetReport(Account):
    """The account of a get: ``keys`` asked, found and missing, ``rows``, ``requests``, ``seconds``."""

    def __str__(self) -> str:
        data = self.data
        keys = data["keys"]
        return (
            f"{data['table']} of {data['target']}: {_counted(data['rows'], 'row')} in {data['seconds']:.2f} s\n"
            f"  {keys['asked']:,} keys asked, {keys['found']:,} found, {keys['missing']:,} missing"
        )


class BufferReport(Account):
    """The account of a buffer: ``rows`` put, recovered, written, rejected and unfinished, ``rejects``, ``seconds``."""

    def __str__(self) -> str:
        data = self.data
        rows = data["rows"]
        return (
            f"{data['operation']} into {data['target']} {data['table']}: {_counted(rows['written'], 'row')} written\n"
            f"  {rows['put']:,} put + {rows['recovered']:,} recovered, {rows['rejected']:,} rejected, "
            f"{rows['unfinished']:,} unfinished"
        )


class PutReport(Account):
    """The account of a bulk put: ``streams``, ``completed``, ``written``, ``key_exists``, ``failed``, ``load``."""

    def __str__(self) -> str:
        data = self.data
        return (
            f"{data['completed']} of {_counted(data['streams'], 'stream')} completed\n"
            f"  {data['written']:,} written, {data['key_exists']:,} keys there, {data['failed']:,} failed"
        )


class Plan(str):
    """What would be done, as text. ``print(plan)`` shows it as ``--dry-run`` does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self)}</pre>"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
