"""Resource names and their short forms: `app/job`, `apps/app/jobs/job`, or `job` with an app."""

from __future__ import annotations

#: Lists over every app that the caller may see.
ALL_APPS = "apps/-"


def full(collection: str, text: str, app: str | None) -> str:
    """The full name of a job, run or executor. Raises ValueError for what is no name."""
    parts = text.split("/")
    if len(parts) == 4 and parts[0] == "apps" and parts[2] == collection:
        of, name = parts[1], parts[3]
    elif len(parts) == 2:
        of, name = parts
    elif len(parts) == 1 and app is not None:
        of, name = app, text
    elif len(parts) == 1:
        raise ValueError(f"{text!r}: of which app? Write 'APP/{text}', or give the client an app")
    else:
        raise ValueError(f"{text!r} is no name; write 'APP/ID' or 'apps/APP/{collection}/ID'")
    if not _is_id(of) or not _is_id(name):
        raise ValueError(f"{text!r}: the app and the id must be one word each; write 'APP/ID'")
    return f"apps/{of}/{collection}/{name}"


def parent(app: str | None) -> str:
    """The app's full name, or all apps."""
    if app is None:
        return ALL_APPS
    name = app.removeprefix("apps/")
    if name != "-" and (not _is_id(name) or "/" in name):
        raise ValueError(f"{app!r} is no app; write one word, such as 'demo'")
    return f"apps/{name}"


def app_of(name: str) -> str:
    """The app of a full name."""
    return name.split("/")[1]


def _is_id(part: str) -> bool:
    return bool(part) and part != "-" and not any(c.isspace() or not c.isprintable() for c in part)
