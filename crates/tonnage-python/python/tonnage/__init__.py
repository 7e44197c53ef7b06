"""Bulk in and bulk out for databases: every row once, and accounted for.

``load``, ``unload``, ``get``, ``execute`` and ``bulk_put`` do one thing with a database, ``connect`` is for several;
``tonnage.aio`` has the same for asyncio. Options have the names of the command's, with underscores.
"""

from __future__ import annotations

from ._database import (
    Buffer,
    Database,
    Entry,
    Failure,
    Progress,
    bulk_put,
    connect,
    execute,
    get,
    load,
    plan,
    unload,
)
from ._errors import (
    ConfigError,
    DatabaseError,
    Error,
    InputError,
    InterruptedError,
    RejectedError,
    SchemaError,
)
from ._jobs import Job, JobReport, PartReport, plan_job
from ._report import BufferReport, GetReport, Plan, PutReport, Report, RowCounts, UnloadReport
from ._stream import Found, Rows
from ._tonnage import Stop, __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._client import Client
else:

    def __getattr__(name: str) -> object:
        # Few programs talk to a service, so the others do not wait for what it takes.
        if name == "Client":
            from ._client import Client

            return Client
        raise AttributeError(f"module 'tonnage' has no attribute {name!r}")


__all__ = [
    "Buffer",
    "BufferReport",
    "Client",
    "ConfigError",
    "Database",
    "DatabaseError",
    "Entry",
    "Error",
    "Failure",
    "Found",
    "GetReport",
    "InputError",
    "InterruptedError",
    "Job",
    "JobReport",
    "PartReport",
    "Plan",
    "Progress",
    "PutReport",
    "RejectedError",
    "Report",
    "RowCounts",
    "Rows",
    "SchemaError",
    "Stop",
    "UnloadReport",
    "__version__",
    "bulk_put",
    "connect",
    "execute",
    "get",
    "load",
    "plan",
    "plan_job",
    "unload",
]
