"""The standard `logging` inside a handler, copied into its run's log."""

from __future__ import annotations

import logging

from clawjob.context import LogLevel, current_context

#: What every record carries; anything else came by `extra=`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_EXCEPTION = logging.Formatter()


class RunLogHandler(logging.Handler):
    """Copies what a handler logs into its run's log; what is logged elsewhere it passes over.

    `App.run` adds one to the root logger. Values given by `extra=` become fields of the record, the
    logger's name the field `logger`.
    """

    def emit(self, record: logging.LogRecord) -> None:
        context = current_context()
        if context is None:
            return
        try:
            text = record.getMessage()
            if record.exc_info:
                text = f"{text}\n{_EXCEPTION.formatException(record.exc_info)}"
            if record.stack_info:
                text = f"{text}\n{record.stack_info}"
            fields = {
                name: str(value) for name, value in vars(record).items() if name not in _STANDARD
            }
            fields["logger"] = record.name
            wall = int(record.created * 1_000_000) * 1000
            context._outlet.log(LogLevel.of(record.levelno), text, fields, wall)
        except Exception:
            self.handleError(record)


def attach(level: int = logging.INFO) -> RunLogHandler:
    """Adds the handler to the root logger. A program that has not set up logging gets INFO and
    above on standard error too."""
    root = logging.getLogger()
    if not root.handlers:
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler = RunLogHandler(level)
    root.addHandler(handler)
    return handler


def detach(handler: RunLogHandler) -> None:
    """Takes the handler away again."""
    logging.getLogger().removeHandler(handler)
