// Far more than the daemon sends: another server must not fill the memory.
const (
	answerBytesMax  = 64 << 20
	refusalBytesMax = 64 << 10
	messageBytesMax = 1 << 20
)

// A stream that sends nothing for this long, not even a comment, has lost its connection. The daemon sends something every 15 s.
const streamSilence = 45 * time.Second

// APIError says that the daemon refused a request or could not do it (RFC 9457). Decide on Code.
type APIError struct {
	Problem
	// RetryAfter is when to try again; zero if the daemon does not say so.
	RetryAfter time.Duration
}

func (e *APIError) Error() string {
	return e.Code + ": " + e.Detail
}

// UnexpectedAnswer is an answer that does not come from vmhostd: another HTTP server listens there.
type UnexpectedAnswer struct {
	Status int
}

func (e *UnexpectedAnswer) Error() string {
	return fmt.Sprintf("an answer with status %d that is not vmhostd's", e.Status)
}

// Answer is a successful answer. Data is nil if it has no content, as with 204 and 304; a text may be empty.
type Answer[T any] struct {
	Data   *T
	Status int
	// ETag is for IfMatch and IfNoneMatch; empty if the resource has none.
	ETag string
}

// Nullable is a member that a request can leave out, set to null, or set to a value. Its zero value is left out.
type Nullable[T any] struct {
	value  *T
	isNull bool
}

// Some sets a member to a value.
func Some[T any](value T) Nullable[T] {
	return Nullable[T]{value: &value}
}

// Null sets a member to null.
func Null[T any]() Nullable[T] {
	return Nullable[T]{isNull: true}
}

// Ptr returns a pointer to a value, for a member that can be left out.
func Ptr[T any](value T) *T {
	return &value
}

// MarshalJSON implements json.Marshaler.
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	return json.Marshal(n.value)
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nullable[T]) UnmarshalJSON(data []byte) error {
	var value *T
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	n.value = value
	n.isNull = value == nil
	return nil
}

// List is a list that a request must have, or one that Some sets, as in Some(List[string](slice)). Any slice can be assigned to
// it; nil is sent as an empty list.
type List[T any] []T

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Client reaches one daemon. Goroutines may share it.
type Client struct {
	// URL is as https://host-1:9000.
	URL string
	// HTTP needs a transport with the client's certificate, and must follow no redirect; see NewClient.
	HTTP *http.Client
}

// NewClient returns a client that trusts one authority, and shows a certificate. The files are PEM. Bound a request by its context.
func NewClient(url, caFile, certificateFile, keyFile string) (*Client, error) {
	authority, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate in PEM", caFile)
	}
	certificate, err := tls.LoadX509KeyPair(certificateFile, keyFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		// The daemon closes an idle connection after 75 s.
		IdleConnTimeout: 60 * time.Second,
		TLSClientConfig: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			RootCAs:      roots,
			Certificates: []tls.Certificate{certificate},
		},
	}
	// The daemon redirects no request of the API, and another server must not get what is in one.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{URL: strings.TrimSuffix(url, "/"), HTTP: &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

type request struct {
	method  string
	path    string
	query   url.Values
	headers http.Header
	body    any
}

// open sends a request. The caller closes the body of the response.
func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
	var content io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	target := c.URL + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, target, content)
	if err != nil {
		return nil, err
	}
	for name, values := range r.headers {
		sent.Header[name] = values
	}
	if r.body != nil {
		sent.Header.Set("Content-Type", "application/json")
	}
	if !isForOnce(sent) {
		// An empty list is not sent; it lets net/http repeat a request if the daemon closed the kept connection just as it was used.
		sent.Header["Idempotency-Key"] = []string{}
	}
	response, err := c.HTTP.Do(sent)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 || response.StatusCode == http.StatusNotModified {
		return response, nil
	}
	defer response.Body.Close()
	return nil, failure(response)
}

// isForOnce says whether a repeat of a request that is done has another outcome: a reboot or a rebuild begins again, and If-Match
// refuses the repeat for the change that the request itself made.
func isForOnce(r *http.Request) bool {
	path := r.URL.Path
	return r.Header.Get("If-Match") != "" ||
		r.Method == http.MethodPost && (strings.HasSuffix(path, "/reboot") || strings.HasSuffix(path, "/rebuild"))
}

func failure(response *http.Response) error {
	content, err := read(response, refusalBytesMax)
	if err != nil {
		return err
	}
	refusal := &APIError{}
	if err := json.Unmarshal(content, &refusal.Problem); err != nil || refusal.Code == "" || refusal.Status == 0 {
		return &UnexpectedAnswer{Status: response.StatusCode}
	}
	// The daemon writes seconds, never a date.
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil {
		refusal.RetryAfter = time.Duration(seconds) * time.Second
	}
	return refusal
}

func read(response *http.Response, bytesMax int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(response.Body, bytesMax+1))
	if err == nil && int64(len(content)) > bytesMax {
		err = &UnexpectedAnswer{Status: response.StatusCode}
	}
	return content, err
}

func send[T any](ctx context.Context, c *Client, r request) (*Answer[T], error) {
	response, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := read(response, answerBytesMax)
	if err != nil {
		return nil, err
	}
	answer := &Answer[T]{Status: response.StatusCode, ETag: response.Header.Get("ETag")}
	data := new(T)
	text, isText := any(data).(*string)
	if len(content) == 0 && !(isText && response.StatusCode == http.StatusOK) {
		return answer, nil
	}
	answer.Data = data
	if isText {
		*text = string(content)
	} else if err := json.Unmarshal(content, answer.Data); err != nil {
		return nil, &UnexpectedAnswer{Status: response.StatusCode}
	}
	return answer, nil
}

// StreamEventsOptions chooses events.
type StreamEventsOptions struct {
	// After is the number after which events are wanted; nil for events from now on.
	After *int64
	// VMID is empty for all VMs.
	VMID string
	// Once ends the stream after the newest event.
	Once bool
	// Silence is how long the stream may send nothing until ErrSilent; 45 s if zero. The daemon sends something every 15 s.
	Silence time.Duration
}

// StreamMessage is a message of StreamEvents. It has a Start, or an Event, or only a number that moves the reader forward.
type StreamMessage struct {
	// After is the number after which to continue.
	After int64
	Start *EventStart
	Event *Event
}

// ErrSilent says that a stream sent nothing for too long: its connection is lost.
var ErrSilent = errors.New("the stream of events is silent")

// StreamEvents returns what the daemon streams: first a Start, then events, until the stream ends or an error, which comes last.
// A further Start has Missed: events before its number are not kept, so read everything again. After a lost connection or an end,
// call it again with the After of the last message. With VMID, messages without an event bring it forward while other VMs have
// events.
func (c *Client) StreamEvents(ctx context.Context, options StreamEventsOptions) iter.Seq2[StreamMessage, error] {
	return func(yield func(StreamMessage, error) bool) {
		silence := options.Silence
		if silence == 0 {
			silence = streamSilence
		}
		bound, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(silence, func() { cancel(ErrSilent) })
		defer timer.Stop()
		var hasLeft bool
		// The bound is for the daemon, not for the reader of the messages.
		err := c.stream(bound, options, func() { timer.Reset(silence) }, func(message StreamMessage) bool {
			timer.Stop()
			hasLeft = !yield(message, nil)
			timer.Reset(silence)
			return !hasLeft
		})
		if err != nil && !hasLeft {
			if errors.Is(context.Cause(bound), ErrSilent) {
				err = ErrSilent
			}
			yield(StreamMessage{}, err)
		}
	}
}

// stream calls heard for each line, and happened for each message until it returns false.
func (c *Client) stream(ctx context.Context, options StreamEventsOptions, heard func(), happened func(StreamMessage) bool) error {
	query := url.Values{}
	set(query.Set, "after", options.After)
	setText(query.Set, "vm_id", options.VMID)
	if options.Once {
		query.Set("follow", "false")
	}
	response, err := c.open(ctx, request{method: "GET", path: "/v1/events", query: query})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	unexpected := &UnexpectedAnswer{Status: response.StatusCode}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return unexpected
	}
	parser := streamParser{after: options.After}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, messageBytesMax)
	for lines.Scan() {
		heard()
		message, err := parser.take(lines.Text())
		if err != nil {
			return unexpected
		}
		if message != nil && !happened(*message) {
			return nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return unexpected
	}
	return lines.Err()
}

// streamParser parses server-sent events (WHATWG HTML).
type streamParser struct {
	// after is the number of the last message; nil before the first one that has a number.
	after *int64
	kind  string
	id    *int64
	data  []byte
}

var errNotEvents = errors.New("not a stream of events of vmhostd")

// take returns a message if the line ends one.
func (p *streamParser) take(line string) (*StreamMessage, error) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch {
	case line == "":
		return p.end()
	case name == "event":
		p.kind = value
	case name == "id":
		if id, err := strconv.ParseInt(value, 10, 64); err == nil {
			p.id = &id
		}
	case name == "data":
		p.data = append(append(p.data, value...), '\n')
		if len(p.data) > messageBytesMax {
			return nil, errNotEvents
		}
	}
	return nil, nil
}

func (p *streamParser) end() (*StreamMessage, error) {
	kind, id, data := p.kind, p.id, p.data
	p.kind, p.id, p.data = "", nil, nil
	if id == nil && len(data) == 0 {
		return nil, nil
	}
	if id != nil {
		p.after = id
	}
	if p.after == nil {
		return nil, errNotEvents
	}
	message := &StreamMessage{After: *p.after}
	if len(data) == 0 {
		return message, nil
	}
	if kind == "start" {
		message.Start = &EventStart{}
		return message, json.Unmarshal(data, message.Start)
	}
	message.Event = &Event{}
	return message, json.Unmarshal(data, message.Event)
}

func set[T any](put func(name, value string), name string, value *T) {
	if value != nil {
		put(name, fmt.Sprint(*value))
	}
}

func setText(put func(name, value string), name, value string) {
	if value != "" {
		put(name, value)
	}
}
