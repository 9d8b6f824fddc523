"""One request over http or https: what was answered, or a fault that says whether another try could help."""

import re
import socket
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers that may be others in a moment
NO_SUCH_PART = 416


class Fault(Exception):
    """An address that did not deliver, as the end of a sentence that begins with the address."""

    def __init__(self, reason: str, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class NoSuchPart(Fault):
    """The server has no bytes where those that are here end."""


@dataclass(frozen=True)
class Answer:
    """A file from byte `start` on."""

    address: str
    response: HTTPResponse
    start: int
    total: int | None
    """Bytes of the whole file, if the server says so."""
    validator: str
    """Names this version of the file; empty where the server names none."""

    @property
    def tells_its_end(self) -> bool:
        """Whether a connection that is cut can be told from a file that ends."""
        return self.total is not None or self.response.chunked

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        try:
            return self.response.read1(size)
        except (OSError, HTTPException) as error:
            raise Fault(f"broke off ({_in_words(error)})") from error


def ask(address: str, start: int, validator: str, timeout: float) -> Answer:
    """Ask for the file from byte `start` on, if it is still the version that the validator names."""
    if not _is_web(address):
        raise Fault("is no http or https address", is_final=True)
    headers = {"User-Agent": "grcl", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-"} | ({"If-Range": validator} if validator else {})
    try:
        response = cast(HTTPResponse, _opener().open(Request(address, headers=headers), timeout=timeout))
    except HTTPError as error:
        error.close()
        raise _refused(error.code) from error
    except (OSError, HTTPException) as error:
        is_unknown = isinstance(error, URLError) and isinstance(error.reason, socket.gaierror)
        raise Fault(f"cannot be reached ({_in_words(error)})", is_final=is_unknown) from error
    try:
        return _answer(address, response, start)
    except Fault:
        response.close()
        raise


def _answer(address: str, response: HTTPResponse, start: int) -> Answer:
    validator = _validator(response.headers)
    if response.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != start:
            raise NoSuchPart("answered with another part than was asked for")
        return Answer(address, response, start, None if found[2] == "*" else int(found[2]), validator)
    if response.status != 200:
        raise Fault(f"answered {response.status}", is_final=True)
    length = response.headers.get("Content-Length", "")
    return Answer(address, response, 0, int(length) if re.fullmatch(r"[0-9]+", length) else None, validator)


def _validator(headers: HTTPMessage) -> str:
    """A strong ETag, else the date of the last change; a weak ETag does not promise the same bytes."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")


def _refused(code: int) -> Fault:
    if code == NO_SUCH_PART:
        return NoSuchPart(f"answered {code}")
    if 300 <= code < 400:
        return Fault("redirects to where we do not follow", is_final=True)
    return Fault(f"answered {code}", is_final=code not in PASSING)


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


class _Redirects(HTTPRedirectHandler):
    """Follows only to the web, and from https only to https: a redirect must not weaken what was asked for."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        is_weaker = req.full_url.lower().startswith("https:") and not newurl.lower().startswith("https:")
        if is_weaker or not _is_web(newurl):
            fp.close()
            raise _refused(code)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> OpenerDirector:
    """Without urllib's handlers for file, ftp and data addresses."""
    opener = OpenerDirector()
    for handler in (ProxyHandler, HTTPHandler, HTTPSHandler, _Redirects, HTTPErrorProcessor, HTTPDefaultErrorHandler):
        opener.add_handler(handler())
    return opener


def _in_words(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    return (reason.strerror if isinstance(reason, OSError) else None) or str(reason) or type(reason).__name__
