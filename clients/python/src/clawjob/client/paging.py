"""Lists over all their pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

#: Things asked for at once.
PAGE_SIZE = 200


def pages(fetch: Callable[[int, str], tuple[Sequence[T], str]], limit: int | None) -> Iterator[T]:
    """Yields the things of all pages, `limit` of them at most; a page is fetched when it is needed.

    `fetch` gets a page's size and token, and returns its things and the next token.
    """
    token, left = "", limit
    while left is None or left > 0:
        size = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
        things, token = fetch(size, token)
        yield from things[:left]
        if left is not None:
            left -= len(things)
        if not token:
            return
