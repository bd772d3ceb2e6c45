# Sends requests and reads answers. Nothing here knows a single operation.


class ApiProblem(Exception):
    """The daemon refused a request or could not do it (RFC 9457). Decide on `code`, never on the texts."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem["detail"])
        self.problem = problem
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
            connection.request(method, target, payload, sent)
            response = connection.getresponse()
            if response.status >= 400:
                raise _failure(response.status, response.read())
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
            content = response.read()
        finally:
            connection.close()
        data: Any = None
        if text:
            data = content.decode()
        elif content:
            try:
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
    ) -> Iterator[EventStart | Event]:
        """Yields an `EventStart` and then events, without an end if `follow` is true.

        After a lost connection, call it again with the `sequence` of the last event as `after`. The daemon sends
        something at least every 15 seconds, so a `timeout` of 60 notices a daemon that is gone.
        """
        query = {"after": after, "vm_id": vm_id, "follow": follow}
        connection, response = self._open("GET", "/v1/events", query, {}, None)
        try:
            lines: list[str] = []
            for raw in response:
                line = raw.decode().rstrip("\r\n")
                if line.startswith("data:"):
                    lines.append(line[5:].removeprefix(" "))
                elif line == "" and lines:
                    yield json.loads("\n".join(lines))
                    lines = []
        finally:
            connection.close()


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _quote(value: str) -> str:
    return urllib.parse.quote(value, safe="")


def _failure(status: int, content: bytes) -> Exception:
    try:
        problem = json.loads(content)
    except ValueError:
        return UnexpectedAnswer(status)
    if isinstance(problem, dict) and isinstance(problem.get("code"), str):
        return ApiProblem(cast(Problem, problem))
    return UnexpectedAnswer(status)
