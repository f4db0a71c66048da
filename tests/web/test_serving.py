"""The socket behind the page."""

import socket

import pytest

from longspan.web.serving import address_of, bound_socket


def test_a_free_port_is_taken_and_said() -> None:
    with bound_socket("127.0.0.1", 0) as listener:
        address, port = listener.getsockname()
        assert address == "127.0.0.1" and port > 0
        assert address_of(listener, "127.0.0.1") == f"http://127.0.0.1:{port}/"
        assert address_of(listener, "::1") == f"http://[::1]:{port}/"
        with pytest.raises(ValueError, match=f"cannot listen at 127.0.0.1, port {port}"):
            bound_socket("127.0.0.1", port)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such option")
def test_connections_end_when_nobody_takes_what_is_sent() -> None:
    with (
        bound_socket("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
