"""Turns: so many at once, so many that wait, and no more."""

import asyncio

import pytest

from longspan.web.refusals import Refusal
from longspan.web.turns import Turns


def test_only_so_many_wait() -> None:
    async def take() -> list[str]:
        turns, go, said = Turns(at_once=1, waiting=2), asyncio.Event(), list[str]()

        async def one(name: str) -> None:
            async with turns.next():
                said.append(name)
                await go.wait()

        tasks = [asyncio.create_task(one(name)) for name in "abc"]
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match="too many files") as refused:
            await one("d")
        assert refused.value.status == 503 and said == ["a"]
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        tasks.append(asyncio.create_task(one("e")))
        go.set()
        await asyncio.gather(tasks[0], *tasks[2:])
        return said

    assert asyncio.run(take()) == ["a", "c", "e"]
