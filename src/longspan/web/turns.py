"""Turns at something that only so many may do at once, and that only so many may wait for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from longspan.web.refusals import Refusal


class Turns:
    """Places for files. Used from one event loop.

    Args:
        at_once: that have a place.
        waiting: that may wait for one beside these.
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._most = at_once + waiting
        self.taken = 0
        """Places, and those that wait for one."""

    @asynccontextmanager
    async def next(self) -> AsyncGenerator[None]:
        """A place, when it is there.

        Raises:
            Refusal: as many wait as may.
        """
        if self.taken >= self._most:
            raise Refusal(503, "too many files are sent to this server at once; try again later")
        self.taken += 1
        try:
            async with self._places:
                yield
        finally:
            self.taken -= 1
