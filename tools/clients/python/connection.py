# Sends requests and reads answers. Nothing here knows a single operation.

# Far more than the daemon sends: another server must not fill the memory.
ANSWER_BYTES_MAX = 64 * 1024 * 1024
REFUSAL_BYTES_MAX = 64 * 1024
MESSAGE_BYTES_MAX = 1024 * 1024


class ApiProblem(Exception):
    """The daemon refused a request or could not do it (RFC 9457). Decide on `code`, never on the texts."""

    def __init__(self, problem: Problem, retry_after: int | None = None) -> None:
        super().__init__(problem["detail"])
        self.problem = problem
        # Seconds after which to try again; None if the daemon does not say so.
        self.retry_after = retry_after
        self.code = problem["code"]
        self.status = problem["status"]


class UnexpectedAnswer(Exception):
    """An answer that does not come from vmhostd: another HTTP server listens there."""

    def __init__(self, status: int) -> None:
        super().__init__(f"an answer with status {status} that is not vmhostd's")
        self.status = status


T = TypeVar("T")


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A successful answer."""

    data: T
    status: int
    # For `if_match` and `if_none_match`; empty if the resource has none.
    etag: str


@dataclass(frozen=True)
class StreamMessage:
    """A message of `stream_events`. It has a `start`, or an `event`, or only a number that moves the reader forward."""

    # Continue after this number.
    after: int
    start: EventStart | None = None
    event: Event | None = None


def tls_context(ca_file: str, certificate_file: str, key_file: str) -> ssl.SSLContext:
    """Trusts one authority, and shows a certificate. The files are PEM."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate_file, key_file)
    return context


class Connection:
    """Reaches one daemon. Each request has a connection of its own, so threads may share this."""

    def __init__(self, url: str, context: ssl.SSLContext, timeout: float = 60.0) -> None:
        """`url` is as `https://host-1:9000`; `timeout` is in seconds, without what `prefer` may take."""
        parts = urllib.parse.urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or 443
        self._context = context
        self._timeout = timeout

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, Any],
        body: Any,
    ) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        sent = {name: str(value) for name, value in headers.items() if value is not None}
        wait = re.search(r"\bwait=(\d+)", sent.get("prefer", ""))
        timeout = self._timeout + (int(wait.group(1)) if wait else 0)
        pairs = [(name, _as_text(value)) for name, value in query.items() if value is not None]
        target = path + ("?" + urllib.parse.urlencode(pairs) if pairs else "")
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            sent["content-type"] = "application/json"
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=timeout, context=self._context
        )
        try:
            with _broken_as_os_error():
                connection.request(method, target, payload, sent)
                response = connection.getresponse()
                # The daemon redirects no request of the API.
                if response.status >= 300 and response.status != 304:
                    raise _failure(response)
        except BaseException:
            connection.close()
            raise
        return connection, response

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, Any],
        body: Any = None,
        text: bool = False,
    ) -> Answer[Any]:
        connection, response = self._open(method, path, query, headers, body)
        try:
            with _broken_as_os_error():
                content = _read(response, ANSWER_BYTES_MAX)
        finally:
            connection.close()
        data: Any = None
        try:
            if text:
                data = content.decode()
            elif content:
                data = json.loads(content)
        except ValueError:
            raise UnexpectedAnswer(response.status) from None
        return Answer(data, response.status, response.headers.get("etag") or "")

    def stream_events(
        self,
        *,
        after: int | None = None,
        vm_id: str | None = None,
        follow: bool = True,
    ) -> Iterator[StreamMessage]:
        """Yields what the daemon streams: first a `start`, then events, without an end if `follow` is true.

        A further `start` has `missed`: events before its number are not kept, so read everything again. After a lost
        connection (OSError) or an end, call this again with the `after` of the last message. With `vm_id`, messages
        without an event bring it forward while other VMs have events. The daemon sends something at least every
        15 seconds: with the usual `timeout` of 60, a daemon that is gone is noticed.
        """
        query = {"after": after, "vm_id": vm_id, "follow": follow}
        connection, response = self._open("GET", "/v1/events", query, {}, None)
        last = after
        try:
            if response.headers.get_content_type() != "text/event-stream":
                raise UnexpectedAnswer(response.status)
            with _broken_as_os_error():
                for kind, number, data in _messages(response):
                    last = last if number is None else number
                    yield _message(kind, last, data, response.status)
        finally:
            connection.close()


def _messages(response: http.client.HTTPResponse) -> Iterator[tuple[str, int | None, str]]:
    """Yields type, id and data of each server-sent event (WHATWG HTML) that has an id or data."""
    kind, number, data, size = "", None, [], 0
    for line in _lines(response):
        size += len(line)
        if size > MESSAGE_BYTES_MAX:
            raise UnexpectedAnswer(response.status)
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "id" and value.isdecimal():
            number = int(value)
        elif name == "data":
            data.append(value)
        elif line == "":
            if number is not None or data:
                yield kind, number, "\n".join(data)
            kind, number, data, size = "", None, [], 0


def _lines(response: http.client.HTTPResponse) -> Iterator[str]:
    """Yields lines as they come. `readline` of http.client takes a stream that breaks off for one that ends."""
    rest = b""
    while piece := response.read1(65536):
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MESSAGE_BYTES_MAX:
            raise UnexpectedAnswer(response.status)
        for line in lines:
            yield line.decode(errors="replace").removesuffix("\r")
    _refuse_missing(response)


def _message(kind: str, after: int | None, data: str, status: int) -> StreamMessage:
    try:
        value = json.loads(data) if data else None
    except ValueError:
        raise UnexpectedAnswer(status) from None
    if after is None:
        raise UnexpectedAnswer(status)
    if kind == "start":
        return StreamMessage(after, start=value)
    return StreamMessage(after, event=value)


@contextmanager
def _broken_as_os_error() -> Iterator[None]:
    """Raises an OSError for an answer that breaks off, for which http.client has errors of its own."""
    try:
        yield None
    except OSError:
        raise
    except http.client.HTTPException as error:
        raise ConnectionError(f"the answer broke off: {error!r}") from error


def _read(response: http.client.HTTPResponse, bytes_max: int) -> bytes:
    content = response.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise UnexpectedAnswer(response.status)
    _refuse_missing(response)
    return content


def _refuse_missing(response: http.client.HTTPResponse) -> None:
    """Raises an OSError if the answer broke off: http.client does so by itself only if all is read at once."""
    if response.length:
        raise ConnectionError(f"the answer broke off: {response.length} bytes are missing")


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _quote(value: str) -> str:
    return urllib.parse.quote(value, safe="")


def _failure(response: http.client.HTTPResponse) -> Exception:
    try:
        problem = json.loads(_read(response, REFUSAL_BYTES_MAX))
    except ValueError:
        return UnexpectedAnswer(response.status)
    kinds = {"code": str, "detail": str, "status": int}
    if not isinstance(problem, dict) or not all(isinstance(problem.get(name), kind) for name, kind in kinds.items()):
        return UnexpectedAnswer(response.status)
    seconds = response.headers.get("retry-after") or ""
    # The daemon writes seconds, never a date.
    return ApiProblem(cast(Problem, problem), int(seconds) if re.fullmatch("[0-9]+", seconds) else None)
