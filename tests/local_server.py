"""A web server on this machine that misbehaves as it is told."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Behaviour = Callable[["Handler", bytes], None]


class LocalServer(ThreadingHTTPServer):
    """Serves `files` by path. Each request takes the next behaviour, and the last one stays."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.behaviours: list[Behaviour] = [serve()]
        self.requests: list[tuple[str, str, str]] = []
        self.has_room = threading.Event()

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    @property
    def ranges(self) -> list[str]:
        return [asked for _, asked, _ in self.requests]


class Handler(BaseHTTPRequestHandler):
    server: LocalServer

    def do_GET(self) -> None:
        asked, validator = self.headers.get("Range", ""), self.headers.get("If-Range", "")
        self.server.requests.append((self.path, asked, validator))
        behaviours = self.server.behaviours
        behaviour = behaviours.pop(0) if len(behaviours) > 1 else behaviours[0]
        if self.path in self.server.files:
            behaviour(self, self.server.files[self.path])
        else:
            answer(404)(self, b"")

    def start(self, code: int, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass


def serve(
    knows_ranges: bool = True, tags: bool = True, cut_after: int | None = None, waits: bool = False, lie: int = 0
) -> Behaviour:
    """The file, or its end from the byte that is asked for, perhaps cut off after so many bytes."""

    def behave(handler: Handler, content: bytes) -> None:
        tag = f'"{hashlib.sha256(content).hexdigest()[:12]}"'
        found = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", "")) if knows_ranges else None
        start = int(found[1]) if found and handler.headers.get("If-Range", tag) == tag else 0
        headers = {"Content_Length": str(len(content) - start + lie)} | ({"ETag": tag} if tags else {})
        if start >= len(content) > 0:
            return handler.start(416, Content_Length="0")
        if start:
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.start(206 if start else 200, **headers)
        handler.wfile.write(content[start : len(content) if cut_after is None else start + cut_after])
        if waits:
            handler.server.has_room.wait(30)
        return None

    return behave


def answer(code: int, **headers: str) -> Behaviour:
    """A status without a file."""
    return lambda handler, content: handler.start(code, Content_Length="0", **headers)


def send(wrong: bytes) -> Behaviour:
    """Other bytes than those of the file."""
    return lambda handler, content: serve()(handler, wrong)


def without_length(handler: Handler, content: bytes) -> None:
    """The connection's end is the file's end."""
    handler.start(200)
    handler.wfile.write(content)


@contextmanager
def local_server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.has_room.set()
            server.shutdown()
            thread.join()
