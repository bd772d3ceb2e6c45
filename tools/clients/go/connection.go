// APIError says that the daemon refused a request or could not do it (RFC 9457). Decide on Code.
type APIError struct {
	Problem
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

// Answer is a successful answer. Data is nil if it has no body, as with 204 and 304.
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

// List is a list that a request must have. Any slice can be assigned to it; nil is sent as an empty list.
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
	// HTTP needs a transport with the client's certificate; see NewClient.
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
		TLSClientConfig: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			RootCAs:      roots,
			Certificates: []tls.Certificate{certificate},
		},
	}
	return &Client{URL: strings.TrimSuffix(url, "/"), HTTP: &http.Client{Transport: transport}}, nil
}

type request struct {
	method  string
	path    string
	query   url.Values
	headers http.Header
	body    any
}

// open sends a request. The caller closes the body of the response. Repeating any request is safe.
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
	response, err := c.HTTP.Do(sent)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 400 {
		return response, nil
	}
	defer response.Body.Close()
	refusal := &APIError{}
	if err := json.NewDecoder(response.Body).Decode(&refusal.Problem); err != nil || refusal.Code == "" {
		return nil, &UnexpectedAnswer{Status: response.StatusCode}
	}
	return nil, refusal
}

func send[T any](ctx context.Context, c *Client, r request) (*Answer[T], error) {
	response, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	answer := &Answer[T]{Status: response.StatusCode, ETag: response.Header.Get("ETag")}
	if len(content) == 0 {
		return answer, nil
	}
	answer.Data = new(T)
	if text, isText := any(answer.Data).(*string); isText {
		*text = string(content)
	} else if err := json.Unmarshal(content, answer.Data); err != nil {
		return nil, &UnexpectedAnswer{Status: response.StatusCode}
	}
	return answer, nil
}

// StreamEventsOptions chooses events.
type StreamEventsOptions struct {
	// After is the sequence of the last event that is known; nil for events from now on.
	After *int64
	// VMID is empty for all VMs.
	VMID string
	// Once ends the stream after the newest event.
	Once bool
}

// StreamEvents calls started once, and then happened for each event, until one of them fails or the stream ends. After a lost
// connection, call it again with the sequence of the last event.
func (c *Client) StreamEvents(ctx context.Context, options StreamEventsOptions, started func(EventStart) error, happened func(Event) error) error {
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
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	var kind string
	var data []byte
	for lines.Scan() {
		line := lines.Text()
		if value, found := strings.CutPrefix(line, "event:"); found {
			kind = strings.TrimSpace(value)
		} else if value, found := strings.CutPrefix(line, "data:"); found {
			data = append(append(data, value...), '\n')
		} else if line == "" && len(data) > 0 {
			if err := take(kind, data, started, happened); err != nil {
				return err
			}
			kind, data = "", nil
		}
	}
	return lines.Err()
}

func take(kind string, data []byte, started func(EventStart) error, happened func(Event) error) error {
	if kind == "start" {
		var start EventStart
		if err := json.Unmarshal(data, &start); err != nil {
			return err
		}
		return started(start)
	}
	var event Event
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	return happened(event)
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
