"""How the log is written: lines for people on a terminal, one JSON object per line elsewhere (spec: SECR-02)."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

import click
import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from a2a_server.settings import Log, SettingsError

log = structlog.get_logger(__name__)


@contextmanager
def log_output(settings: Log, worker: int = 0) -> Iterator[None]:
    """Configure the log. If only JSON may be written, an error that ends the command is logged as well.

    Lines of a `worker` have its number, if nothing else says which one they are about.
    """
    configure(settings, worker=worker)
    try:
        yield
    except click.ClickException as error:
        if settings.format != "json":
            raise
        log.critical("process.failed", why=error.format_message())
        raise SystemExit(error.exit_code) from None


def log_faults(error: SettingsError) -> None:
    """Log what is wrong with the settings, if they say at least that the log is JSON."""
    if error.log_format == "json":
        configure(Log(format="json"))
        for fault in str(error).splitlines():
            log.critical("settings.invalid", why=fault)
        raise SystemExit(2)


def configure(settings: Log, stream: TextIO = sys.stderr, *, worker: int = 0) -> None:
    """Write our events and those of libraries, Python's warnings and uncaught exceptions.

    Tracebacks never show local variables, which may hold secrets.
    """
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    pretty = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        *([partial(_numbered, worker)] if worker else []),
    ]
    last = _renderers(stream, pretty=pretty)
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),  # a line and its end at once: libraries write there, too
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    foreign = [*shared, structlog.stdlib.add_logger_name]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[strip, *last], foreign_pre_chain=foreign))
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    if not pretty:
        _catch_all()


def _numbered(worker: int, _: object, __: str, event: EventDict) -> EventDict:
    event.setdefault("worker", worker)
    return event


def _catch_all() -> None:
    """Log what Python writes by itself as text over several lines."""
    logging.captureWarnings(capture=True)
    sys.excepthook = lambda *error: log.critical("process.failed", exc_info=error)
    threading.excepthook = partial(_uncaught, "thread.failed")
    sys.unraisablehook = partial(_uncaught, "exception.ignored")


def _uncaught(event: str, told: Any) -> None:  # noqa: ANN401 - of `threading` or `sys`
    error = told.exc_type, told.exc_value, told.exc_traceback
    log.error(event, exc_info=error)


def _renderers(stream: TextIO, *, pretty: bool) -> list[Processor]:
    if not pretty:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [_printable, structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=_indented)]


def _printable(_: object, __: str, event: EventDict) -> EventDict:
    """Let no value begin a line of its own or send commands to the terminal."""
    error = event.pop("exc_info", None)
    texts = {str(name): value if isinstance(value, str) else repr(value) for name, value in event.items()}
    return {_escaped(name): _escaped(text) for name, text in texts.items()} | {"exc_info": error}


def _indented(out: TextIO, error: ExcInfo) -> None:
    out.writelines(
        f"\n    {_escaped(line)}" for line in "".join(traceback.format_exception(*error)).rstrip("\n").split("\n")
    )


def _escaped(text: str) -> str:
    """Spell control characters, and others that do not print, as Python would."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
