"""Documents in memory: for a while, and never more than fit."""

import pytest

from longspan.web.refusals import Refusal
from longspan.web.sessions import Sessions
from longspan.web.settings import ServeSettings


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_sessions_are_forgotten_when_nobody_uses_them() -> None:
    clock = Clock()
    sessions = Sessions(ServeSettings(session_seconds=60), clock)
    used, unused = sessions.open(), sessions.open()
    sessions.add(sessions.get(used), "a", "text", 1)
    clock.now = 50
    assert len(sessions.get(used).texts) == 1
    clock.now = 100
    assert len(sessions.get(used).texts) == 1
    with pytest.raises(Refusal, match="session is over"):
        sessions.get(unused)


def test_there_are_never_too_many() -> None:
    clock = Clock()
    sessions = Sessions(ServeSettings(max_sessions=2, session_seconds=60), clock)
    tokens = {sessions.open(), sessions.open()}
    assert len(tokens) == 2 and all(len(token) >= 32 for token in tokens)
    with pytest.raises(Refusal, match="too many pages"):
        sessions.open()
    clock.now = 61
    sessions.open()


def test_all_sessions_share_the_room_for_text() -> None:
    clock = Clock()
    sessions = Sessions(ServeSettings(max_total_characters=10, session_seconds=60), clock)
    first = sessions.get(sessions.open())
    sessions.add(first, "a", "1234567", 1)
    clock.now = 30
    second = sessions.get(sessions.open())
    sessions.add(second, "b", "123", 1)
    with pytest.raises(Refusal, match="as much text as it may") as refused:
        sessions.add(second, "c", "1", 1)
    assert refused.value.status == 503
    clock.now = 70
    third = sessions.get(sessions.open())
    assert sessions.add(third, "c", "1234567", 1).summary()["characters"] == 7, "the first was forgotten"


def test_settings_must_be_numbers_that_leave_something() -> None:
    with pytest.raises(ValueError, match="max_waiting is 0; it must be at least 1"):
        ServeSettings(max_waiting=0)
