"""What the engine logs, for :mod:`logging`."""

from __future__ import annotations

import sys


def wants_debug() -> bool:
    """Whether anybody listens to records of the level DEBUG."""
    logging = sys.modules.get("logging")
    return logging is not None and bool(logging.getLogger("tonnage").isEnabledFor(10))


def emit(records: list[tuple[int, str, str]]) -> None:
    """Pass records on; loggers are named by the engine's modules: ``tonnage.engine.load``."""
    if "logging" not in sys.modules and all(level < 30 for level, _, _ in records):
        return
    import logging

    for level, target, message in records:
        name = target.replace("::", ".")
        if name.startswith("tonnage_"):
            name = "tonnage." + name.removeprefix("tonnage_")
        logger = logging.getLogger(name)
        if logger.isEnabledFor(level):
            logger.log(level, "%s", message)
