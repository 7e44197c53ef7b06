"""The exceptions of the package."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._report import Report


class Error(Exception):
    """Whatever tonnage refuses or cannot do.

    Attributes
    ----------
    message : str
        What is wrong, and where.
    hint : str or None
        What to do next.
    code : str or None
        The database's own code (SQLSTATE, or its number), where it gave one.
    report : Report or None
        The account of the run, where there was one. It says what is written.
    """

    message: str
    hint: str | None
    code: str | None
    report: Report | None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        report: Report | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.report = report

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_remake, (type(self), self.message, self.hint, self.code, self.report))


def _remake(
    kind: type[Error], message: str, hint: str | None, code: str | None, report: Report | None
) -> Error:
    return kind(message, hint=hint, code=code, report=report)


class ConfigError(Error, ValueError):
    """An option, an argument or a URL is wrong."""


class SchemaError(Error):
    """Table and rows do not fit together, or the table is not there."""


class InputError(Error):
    """The rows cannot be read, or are not what they were when the run began."""


class RejectedError(Error):
    """Rows are bad, and more of them than is allowed. ``report`` says what is written."""


class DatabaseError(Error):
    """The database refuses something, or is not to be reached. ``code`` is its own code."""


class InterruptedError(Error):
    """The run was asked to stop. ``report`` says what is written."""


_KINDS: dict[str, type[Error]] = {
    "Config": ConfigError,
    "Input": InputError,
    "Schema": SchemaError,
    "Altered": SchemaError,
    "Rejected": RejectedError,
    "Cancelled": InterruptedError,
    "Refused": DatabaseError,
    "Overloaded": DatabaseError,
    "Unsent": DatabaseError,
    "InDoubt": DatabaseError,
    "Fenced": DatabaseError,
}

# What the command line calls otherwise, as it is called here.
_NAMES = {
    "table": "table=",
    "query": "query=",
    "output": "to=",
    "dry-run": "tonnage.plan()",
    "ask-password": "a password in the URL or in targets.toml",
    "true": "true=",
    "false": "false=",
    "from": "from_=",
    "with": "related=",
}


def _in_python(text: str) -> str:
    """Options of the command line as those of a function: ``--batch-rows N`` is ``batch_rows=N``."""
    import re

    from . import _tonnage

    commands = ("load", "exec", "unload", "get", "ingest")
    options = [option for command in commands for option in _tonnage.options(command)]
    flags = {name for name, takes, _, _ in options if takes == "flag"}
    words = {name: values for name, _, values, _ in options if values}

    def named(found: re.Match[str]) -> str:
        name, value = found.group(1), found.group(2)
        if name in _NAMES:
            return _NAMES[name] + (value or "").strip(" =")
        if name in flags:
            return name.replace("-", "_") + "=True" + (value or "").replace("=", " ", 1)
        return name.replace("-", "_") + "=" + (value or "").strip(" =")

    text = re.sub(r"(?<![\w-])--type '?([^\s=']+)=(\w+(?:\([\d, ]+\))?)'?", r'types={"\1": "\2"}', text)
    text = re.sub(r"(?<![\w-])--create(?![=\w-])", 'create="missing"', text)
    text = re.sub(r"(?<![\w-])--([a-z][a-z-]*[a-z])((?:=| )[A-Z][A-Z,=]*\b|=[a-z]+)?", named, text)
    for name, values in words.items():
        # A value that follows is one word of those that there are.
        pattern = rf"\b{name.replace('-', '_')}= ?({'|'.join(map(re.escape, values))})\b"
        text = re.sub(pattern, rf'{name.replace("-", "_")}="\1"', text)
    text = re.sub(r"\b([a-z_]+=) <\w+>", r"\1", text)
    return re.sub(r"(?<![\w-])-t(?= )", "table", text)


def make(kind: str, message: str, hint: str | None, code: str | None, report: str | None) -> Error:
    """The exception of an error of the engine."""
    account = None
    if report is not None:
        from ._report import Report

        account = Report._of(report)
    raised = _KINDS.get(kind, Error)
    return raised(
        _in_python(message),
        hint=None if hint is None else _in_python(hint),
        code=code,
        report=account,
    )


def interrupted(raised: BaseException, report: str, resumable: bool) -> None:
    """Give what was raised while a run went on the account of that run."""
    from ._report import Report

    account = Report._of(report)
    raised.report = account  # type: ignore[attr-defined]
    raised.add_note(str(account))
    if resumable and account.state != "finished":
        raised.add_note("hint: go on with resume=True")
