"""A small server for the live page: a few fixed names, GET alone, this machine alone unless told.

On loopback the name that a browser asked for must be this machine's (no DNS rebinding); elsewhere
the address holds a secret word. Serves no file of a run and nothing of the environment.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trainload.errors import UsageError
from trainload.report.live.page import ASSETS, HTML
from trainload.report.page import load_asset

PORT = 8765
"""Taken where it is free and no other was asked for."""
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Document = Callable[[], dict[str, Any]]


class LivePage:
    """The server of one page, in threads of its own from `start` to `stop`."""

    def __init__(self, document: Document, *, bind: str = "127.0.0.1", port: int | None = None):
        self._server = _open_server(bind, port)
        self._server.document = document
        loopback = ipaddress.ip_address(bind).is_loopback
        self._server.secret = None if loopback else secrets.token_urlsafe(16)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        host, port = str(self._server.server_address[0]), self._server.server_address[1]
        name = f"[{host}]" if ":" in host else host
        secret = self._server.secret
        return f"http://{name}:{port}/" + (f"{secret}/" if secret else "")

    def start(self) -> None:
        """Serve until stopped."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    document: Document
    secret: str | None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is nothing to tell."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10.0
    server_version = "trainload"
    sys_version = ""

    def do_GET(self) -> None:
        """One of the fixed names."""
        name = self._name()
        if name is None:
            return
        if name == "":
            self._send("text/html", HTML)
        elif name in ASSETS:
            self._send(ASSETS[name], load_asset(name))
        elif name == "data.json":
            self._send("application/json", json.dumps(self.server.document(), allow_nan=False))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _name(self) -> str | None:
        """What is asked for; None, and the refusal is sent, where it may not be."""
        secret, path = self.server.secret, self.path.split("?")[0][1:]
        if secret is None:
            if not self._asked_for_this_machine():
                self._refuse(HTTPStatus.FORBIDDEN)
                return None
            return path
        word, _, name = path.partition("/")
        if not hmac.compare_digest(word.encode(), secret.encode()):
            self._refuse(HTTPStatus.NOT_FOUND)
            return None
        return name

    def _asked_for_this_machine(self) -> bool:
        host, port = self.headers.get("Host", ""), self.server.server_address[1]
        return host in {f"{name}:{port}" for name in _LOOPBACK_NAMES}

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, kind: str, text: str) -> None:
        data = text.encode("utf-8")
        self.send_response(HTTPStatus.OK)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(data))),
            ("Content-Security-Policy", _POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: the terminal belongs to the run."""


def _open_server(bind: str, port: int | None) -> _Server:
    """A server on that port, or on a free one where none was asked for and the usual is taken."""
    try:
        address = ipaddress.ip_address(bind)
    except ValueError:
        raise UsageError(f"--bind {bind!r}: give an address such as 127.0.0.1 or 0.0.0.0") from None
    kind = _Server6 if address.version == 6 else _Server
    for tried in (PORT, 0) if port is None else (port,):
        try:
            return kind((bind, tried), _Handler)
        except OSError as error:
            reason = error.strerror or str(error)
    raise UsageError(
        f"cannot serve on {bind} port {port or 'any'}: {reason}; choose another --port"
    )
