"""What stands before every request: who may ask, how much they may send, and what browsers are told.

A web page elsewhere must not reach a server on a user's machine. A name that was made to point to it (DNS
rebinding) is refused by the Host header, a page of another origin by Origin and Sec-Fetch-Site; no answer
carries CORS headers. Pages may load nothing from elsewhere and run no inline script.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longspan.web.refusals import refusal_response

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at this address or name."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


class Guard:
    """An application behind these rules.

    Args:
        app: the application.
        host: address or name that the server is bound to. Behind a loopback one, only loopback names are
            answered; behind another, also addresses, this name, and the machine's.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._is_local = is_loopback(host)
        self._names = {"localhost"} if self._is_local else {"localhost", host, socket.gethostname()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host):
            answer = refusal_response(421, f"the Host header is {host!r}; it must be this server's address")
        elif (elsewhere := _other_page(headers, host)) is not None:
            answer = refusal_response(
                403, f"the request comes from {elsewhere}; other pages may not ask here"
            )
        else:
            answer = self._app
        await answer(scope, receive, send_with_headers)

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        address = _address(name)
        if address is None:
            return name in self._names
        # A name can be made to point anywhere, an address cannot.
        return address.is_loopback if self._is_local else True


def _other_page(headers: Headers, host: str) -> str | None:
    """Where a request comes from, if it is a page of another origin; such a page may link here, no more."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        return repr(origin)
    # Browsers send no Origin for what a page merely includes, such as a picture.
    site = headers.get("sec-fetch-site", "none")
    if site in ("none", "same-origin") or headers.get("sec-fetch-mode") == "navigate":
        return None
    return f"a {site} page"


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
