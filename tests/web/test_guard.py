"""Who may ask, and what browsers are told."""

from typing import cast

import httpx2
import pytest
from fastapi.testclient import TestClient

from longspan.web.app import STATIC, create_app
from longspan.web.guard import is_loopback
from tests.web.asking import error_of
from tests.web.plain_reader import PlainReader


def client(host: str, base: str = "http://127.0.0.1:8000") -> httpx2.Client:
    return cast(httpx2.Client, TestClient(create_app(PlainReader(), host=host), base_url=base))


@pytest.mark.parametrize(
    ("host", "name", "is_answered"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "localhost:8000", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "evil.example:8000", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "192.168.1.2", False),
        ("127.0.0.1", "[::1", False),
        ("127.0.0.1", "", False),
        ("0.0.0.0", "192.168.1.2:8000", True),
        ("0.0.0.0", "localhost", True),
        ("0.0.0.0", "evil.example", False),
        ("box.lan", "box.lan:8000", True),
    ],
)
def test_only_its_own_names_are_answered(host: str, name: str, is_answered: bool) -> None:
    answer = client(host).get("/api/about", headers={"Host": name})
    assert (answer.status_code == 200) == is_answered
    if not is_answered:
        assert answer.status_code == 421 and "Host header" in error_of(answer)


def test_pages_of_other_origins_are_refused() -> None:
    asks = client("127.0.0.1")
    assert asks.post("/api/sessions", headers={"Origin": "http://127.0.0.1:8000"}).status_code == 201
    for origin in ("http://evil.example", "http://127.0.0.1:9000", "http://[", "null", ""):
        refused = asks.post("/api/sessions", headers={"Origin": origin})
        assert refused.status_code == 403 and "other pages may not" in error_of(refused)
        assert "access-control-allow-origin" not in refused.headers
    assert "access-control-allow-origin" not in asks.options("/api/documents").headers


@pytest.mark.parametrize(
    ("site", "mode", "is_answered"),
    [
        ("same-origin", "cors", True),
        ("none", "navigate", True),
        ("cross-site", "navigate", True),
        ("cross-site", "no-cors", False),
        ("same-site", "cors", False),
    ],
)
def test_pages_elsewhere_may_link_but_not_include(site: str, mode: str, is_answered: bool) -> None:
    """Browsers send no Origin for pictures and scripts, but say that they are for another page."""
    answer = client("127.0.0.1").get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode})
    assert answer.status_code == (200 if is_answered else 403)


def test_answers_tell_browsers_what_is_allowed() -> None:
    asks = client("127.0.0.1")
    for path in ("/", "/static/main.js", "/api/about", "/nothing"):
        headers = asks.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert asks.get("/api/about").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/openapi.json", "/static/../app.py", "/static/%2e%2e/app.py"]
)
def test_nothing_else_is_served(path: str) -> None:
    answer = client("127.0.0.1").get(path)
    assert answer.status_code == 404 and error_of(answer) == "Not Found"


def test_the_page_needs_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = (STATIC / "index.html").read_text()
    assert "style=" not in page and "onclick" not in page and "<script>" not in page and "//" not in page
    for path in STATIC.glob("*.js"):
        code = path.read_text()
        assert "innerHTML" not in code and "insertAdjacentHTML" not in code and "document.write" not in code


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "box.lan", "localhost.evil.example")))
