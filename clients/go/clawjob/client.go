package clawjob

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/endpoint"
	"clawjob.dev/go/internal/session"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// callTimeoutDefault bounds one try of a call when nothing else is said.
	callTimeoutDefault = 10 * time.Second
	// triesMax bounds the tries of a call that may be repeated.
	triesMax = 5
	// retryWaitFirst bounds the first wait before a further try; it doubles with each.
	retryWaitFirst = 200 * time.Millisecond
	// retryWaitMax bounds every such wait, also one that the server asks for.
	retryWaitMax = 10 * time.Second
)

// ClientConfig has the settings of a client. What is left at its zero value comes from the
// environment where a variable is named, else it is the default.
type ClientConfig struct {
	// Endpoints are the schedulers to call, http://host:port or https://host:port; else
	// CLAWJOB_ENDPOINTS (separated by commas), else http://127.0.0.1:7700. When one is out of reach,
	// the next is called.
	Endpoints []string
	// Token is the bearer token; else CLAWJOB_TOKEN.
	Token string
	// TokenFile has the bearer token, read anew at each call; else CLAWJOB_TOKEN_FILE.
	TokenFile string
	// App is the app of names that have none, such as "nightly-report"; else CLAWJOB_APP.
	App string
	// CAFile is a PEM file with the authority that signed the scheduler's certificate; else
	// CLAWJOB_CA_FILE, else the system's authorities.
	CAFile string
	// TLS is the base of the TLS settings.
	TLS *tls.Config
	// Timeout bounds each try of a call; 10 s by default. The context bounds all of it.
	Timeout time.Duration
}

// Client is the admin's side: jobs, runs, logs. It is safe for concurrent use, connects with the
// first call, and is closed when it is not needed any more.
//
// Jobs and runs are named "apps/billing/jobs/nightly-report" and "apps/billing/runs/01J…" as the
// server names them, or "billing/nightly-report" and "billing/01J…", or, when the client has an app,
// by the last part alone.
//
// Calls that may safely be repeated are, when the server is out of reach or busy: reads, changes that
// come to the same twice, and those that start something, which carry a request id. Errors of the
// server are [*Error].
type Client struct {
	app  string
	conn *conn
	jobs clawjobpb.JobServiceClient
	runs clawjobpb.RunServiceClient
}

// NewClient makes a client. It fails with a [*ConfigError] for settings that cannot be used.
func NewClient(config ClientConfig) (*Client, error) {
	return newClient(config, os.Getenv)
}

func newClient(config ClientConfig, getenv func(string) string) (*Client, error) {
	c := &checker{getenv: getenv}
	urls := c.endpoints(config.Endpoints)
	token := c.token(config.Token, config.TokenFile)
	app := c.name(config.App, "App", "CLAWJOB_APP")
	base := c.tls(config.TLS, config.CAFile)
	if config.Timeout < 0 {
		c.fault("Timeout", "%v is negative", config.Timeout)
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	calls := &conn{token: token, timeout: callTimeoutDefault}
	if config.Timeout > 0 {
		calls.timeout = config.Timeout
	}
	for _, url := range urls {
		target, err := endpoint.Parse(url)
		if err != nil {
			return nil, err
		}
		channel, err := grpc.NewClient(target.Address, target.Options(base)...)
		if err != nil {
			return nil, errors.Join(err, calls.close())
		}
		calls.channels = append(calls.channels, channel)
	}
	return &Client{
		app:  app,
		conn: calls,
		jobs: clawjobpb.NewJobServiceClient(calls),
		runs: clawjobpb.NewRunServiceClient(calls),
	}, nil
}

// Close closes the connections.
func (c *Client) Close() error { return c.conn.close() }

// Conn is for the services that have no methods here: it carries the token, repeats what is safe
// and returns [*Error].
//
//	fleet := clawjobpb.NewFleetServiceClient(client.Conn())
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// conn calls one of the endpoints and goes on to the next when it is out of reach.
type conn struct {
	channels []*grpc.ClientConn
	token    func() (string, error)
	timeout  time.Duration
	// current counts on; the endpoint is its remainder.
	current atomic.Uint64
}

func (c *conn) close() error {
	var errs []error
	for _, channel := range c.channels {
		errs = append(errs, channel.Close())
	}
	return errors.Join(errs...)
}

// Invoke calls a method, again when that is safe.
func (c *conn) Invoke(
	ctx context.Context,
	method string,
	request, reply any,
	options ...grpc.CallOption,
) error {
	repeatable := prepare(method, request)
	limit := c.timeout
	if waiting, ok := request.(*clawjobpb.WaitRunRequest); ok {
		limit += waiting.GetTimeout().AsDuration()
	}
	for tries := 1; ; tries++ {
		at := c.current.Load()
		err := c.try(ctx, limit, at, method, request, reply, options)
		if err == nil {
			return nil
		}
		wait, again := retryWait(err, tries)
		if again && status.Code(err) == codes.Unavailable {
			c.current.CompareAndSwap(at, at+1)
		}
		if !again || !repeatable || tries == triesMax || sleep(ctx, wait) != nil {
			return errorOf(err)
		}
	}
}

func (c *conn) try(
	ctx context.Context,
	limit time.Duration,
	at uint64,
	method string,
	request, reply any,
	options []grpc.CallOption,
) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	calling, err := c.headers(limited)
	if err != nil {
		return err
	}
	return c.channels[at%uint64(len(c.channels))].Invoke(calling, method, request, reply, options...)
}

// NewStream opens a stream; it is not opened again by itself.
func (c *conn) NewStream(
	ctx context.Context,
	description *grpc.StreamDesc,
	method string,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	calling, err := c.headers(ctx)
	if err != nil {
		return nil, err
	}
	at := c.current.Load()
	channel := c.channels[at%uint64(len(c.channels))]
	stream, err := channel.NewStream(calling, description, method, options...)
	if err != nil {
		if status.Code(err) == codes.Unavailable {
			c.current.CompareAndSwap(at, at+1)
		}
		return nil, errorOf(err)
	}
	return &errorStream{stream}, nil
}

func (c *conn) headers(ctx context.Context) (context.Context, error) {
	headers := []string{"clawjob-client", "go/" + session.Version}
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return nil, err
		}
		headers = append(headers, "authorization", "Bearer "+token)
	}
	return metadata.AppendToOutgoingContext(ctx, headers...), nil
}

// errorStream turns the end of a stream into [*Error].
type errorStream struct{ grpc.ClientStream }

// RecvMsg receives the next message.
func (s *errorStream) RecvMsg(message any) error {
	if err := s.ClientStream.RecvMsg(message); err != nil && !errors.Is(err, io.EOF) {
		return errorOf(err)
	} else {
		return err
	}
}

// sameTwice are the changes that come to the same when they are made twice.
var sameTwice = []string{"PauseJob", "ResumeJob", "CancelRun", "CordonExecutor", "UncordonExecutor"}

// reading are the beginnings of the names of methods that change nothing.
var reading = []string{"Get", "List", "Preview", "Forecast", "Wait", "Check"}

// prepare is whether a call may be repeated. A request that takes a request id gets one, so that it
// may.
func prepare(method string, request any) bool {
	name := method[strings.LastIndexByte(method, '/')+1:]
	if slices.Contains(sameTwice, name) {
		return true
	}
	for _, beginning := range reading {
		if strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return giveRequestID(request)
}

// retryWait is how long to wait before a further try, and whether one can help.
func retryWait(err error, tries int) (time.Duration, bool) {
	asked := retryAfterOf(err)
	switch status.Code(err) {
	case codes.Unavailable:
	case codes.ResourceExhausted:
		if asked == 0 {
			return 0, false
		}
	default:
		return 0, false
	}
	bound := min(retryWaitFirst<<(tries-1), retryWaitMax)
	return min(asked, retryWaitMax) + time.Duration(rand.Float64()*float64(bound)), true
}

// sleep waits, or fails when the context ends before.
func sleep(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
