package session

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/endpoint"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
)

const (
	// connectTimeout bounds TCP and TLS.
	connectTimeout = 5 * time.Second
	// welcomeTimeout bounds the time from Hello to Welcome.
	welcomeTimeout = 10 * time.Second
	// tokenWait is how long to wait before the token is looked at again when it could not be used:
	// somebody has to put it there.
	tokenWait = 5 * time.Second
)

type stream = grpc.BidiStreamingClient[clawjobpb.SessionRequest, clawjobpb.SessionResponse]

// opened is a session that a Welcome has opened.
type opened struct {
	welcome *clawjobpb.Welcome
	stream  stream
	// end cuts the stream and its connection.
	end func()
}

// connection is a connection, with the headers that its session is to be opened with.
type connection struct {
	*grpc.ClientConn
	headers []string
}

// connect connects to one endpoint. Each session has a connection of its own, since unread streams
// would fill a shared one's window. The token is read first: without one there is no use in dialing.
func connect(ctx context.Context, settings *Settings, url string) (*connection, *fault) {
	headers := []string{"clawjob-client", "go/" + Version}
	if settings.Token != nil {
		token, err := settings.Token()
		if err != nil {
			// Only somebody at this machine can change that.
			return nil, &fault{message: err.Error(), retryAfter: tokenWait}
		}
		headers = append(headers, "authorization", "Bearer "+token)
	}
	conn, f := openChannel(ctx, settings, url)
	if f != nil {
		return nil, f
	}
	return &connection{conn, headers}, nil
}

func openChannel(ctx context.Context, settings *Settings, url string) (*grpc.ClientConn, *fault) {
	target, err := endpoint.Parse(url)
	if err != nil {
		return nil, transient("%v", err)
	}
	conn, err := grpc.NewClient(target.Address, target.Options(settings.TLS)...)
	if err != nil {
		return nil, transient("%v", err)
	}
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure || !conn.WaitForStateChange(limited, state) {
			f := whyNot(ctx, conn)
			_ = conn.Close()
			return nil, f
		}
	}
	return conn, nil
}

// whyNot asks a connection that came to nothing for its error: a call that does not wait for the
// connection ends with it.
func whyNot(ctx context.Context, conn *grpc.ClientConn) *fault {
	if conn.GetState() != connectivity.TransientFailure {
		return transient("no connection within %v", connectTimeout)
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := clawjobpb.NewExecutorServiceClient(conn).Session(limited)
	if err == nil {
		return transient("the connection broke while it was opened")
	}
	return transient("%v", err)
}

// open opens the session over a connection. The Hello is in the outbox already: a server may want
// to read it before it answers with headers. The connection is closed when it fails. The session
// lives as long as life; dialing bounds its opening only.
func open(
	life, dialing context.Context,
	conn *connection,
	out *outbox,
) (*opened, *fault) {
	ctx, cancel := context.WithCancel(life)
	stopWaiting := context.AfterFunc(dialing, cancel)
	defer stopWaiting()
	end := func() {
		cancel()
		_ = conn.Close()
	}
	var late atomic.Bool
	timer := time.AfterFunc(welcomeTimeout, func() {
		late.Store(true)
		cancel()
	})
	defer timer.Stop()
	session, f := begin(ctx, conn, out)
	if f != nil {
		end()
		if late.Load() {
			f = transient("no Welcome within %v", welcomeTimeout)
		}
		return nil, f
	}
	session.end = end
	return session, nil
}

func begin(ctx context.Context, conn *connection, out *outbox) (*opened, *fault) {
	calling := metadata.AppendToOutgoingContext(ctx, conn.headers...)
	frames, err := clawjobpb.NewExecutorServiceClient(conn).Session(calling)
	if err != nil {
		return nil, faultOf(err)
	}
	go send(ctx, frames, out)
	for {
		response, f := receive(frames)
		if f != nil {
			return nil, f
		}
		if welcome := response.GetWelcome(); welcome != nil {
			return &opened{welcome: welcome, stream: frames}, nil
		}
		if closed := response.GetClose(); closed != nil {
			return nil, faultOfClose(closed)
		}
		// A frame of a later contract, or one that makes no sense yet.
	}
}

// send moves frames from the outbox to the stream, in its own goroutine: a peer that does not read
// holds up nothing else.
func send(ctx context.Context, frames stream, out *outbox) {
	for {
		frame, ok := out.next(ctx)
		if !ok {
			// The end of the upward half; what went wrong, if anything, the reader hears.
			_ = frames.CloseSend()
			return
		}
		if err := frames.Send(frame); err != nil {
			return
		}
	}
}

func receive(frames stream) (*clawjobpb.SessionResponse, *fault) {
	response, err := frames.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil, transient("the scheduler ended the stream")
	case err != nil:
		return nil, faultOf(err)
	default:
		return response, nil
	}
}
