package clawjob_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// patience is the longest wait for anything that must happen.
const patience = 60 * time.Second

type (
	up   = clawjobpb.SessionRequest
	down = clawjobpb.SessionResponse
)

// fake is a scheduler that does what the test says, on a port of its own.
type fake struct {
	clawjobpb.UnimplementedExecutorServiceServer
	t        *testing.T
	listener *countingListener
	server   *grpc.Server
	sessions chan *scripted
	dials    atomic.Int32
	// lateHeaders holds headers back until the Hello has come.
	lateHeaders atomic.Bool
	mutex       sync.Mutex
	refusals    []error
	// life ends with the fake.
	life context.Context
	die  context.CancelFunc
}

// countingListener counts the connections that come, whatever becomes of them.
type countingListener struct {
	net.Listener
	count atomic.Int32
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.count.Add(1)
	}
	return conn, err
}

func newFake(t *testing.T, options ...grpc.ServerOption) *fake {
	return newFakeAt(t, "127.0.0.1:0", options...)
}

// newFakeAt is on the same port as one that is gone.
func newFakeAt(t *testing.T, address string, options ...grpc.ServerOption) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{
		t:        t,
		listener: &countingListener{Listener: listener},
		server:   grpc.NewServer(options...),
		sessions: make(chan *scripted, 64),
	}
	f.life, f.die = context.WithCancel(context.Background())
	clawjobpb.RegisterExecutorServiceServer(f.server, f)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = f.server.Serve(f.listener)
	}()
	t.Cleanup(func() {
		f.crash()
		<-served
	})
	return f
}

func (f *fake) address() string { return f.listener.Addr().String() }

func (f *fake) url() string { return "http://" + f.address() }

// refuse answers the next dials with these.
func (f *fake) refuse(errs ...error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.refusals = append(f.refusals, errs...)
}

// crash goes away without a word.
func (f *fake) crash() string {
	f.die()
	f.server.Stop()
	return f.address()
}

// accept is the next session, its Hello read, without a Welcome yet.
func (f *fake) accept() *scripted {
	f.t.Helper()
	return receive(f.t, "a session", f.sessions)
}

// open is the next session, welcomed.
func (f *fake) open() *scripted {
	f.t.Helper()
	s := f.accept()
	s.welcome(welcome())
	return s
}

// Session serves one session by its script.
func (f *fake) Session(stream grpc.BidiStreamingServer[up, down]) error {
	f.dials.Add(1)
	f.mutex.Lock()
	if len(f.refusals) > 0 {
		refusal := f.refusals[0]
		f.refusals = f.refusals[1:]
		f.mutex.Unlock()
		return refusal
	}
	f.mutex.Unlock()
	if !f.lateHeaders.Load() {
		if err := stream.SendHeader(nil); err != nil {
			return err
		}
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetHello() == nil {
		f.t.Errorf("the first frame is no Hello: %v", first)
	}
	headers, _ := metadata.FromIncomingContext(stream.Context())
	s := &scripted{
		t: f.t, hello: first.GetHello(), headers: headers, stream: stream,
		up: make(chan *up, 65_536), ended: make(chan error, 1),
	}
	s.answers.Store(true)
	go s.read()
	f.sessions <- s
	select {
	case err := <-s.ended:
		return err
	case <-f.life.Done():
		return f.life.Err()
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// scripted is one session as the scheduler sees it. Heartbeats are acknowledged unless told
// otherwise.
type scripted struct {
	t       *testing.T
	hello   *clawjobpb.Hello
	headers metadata.MD
	stream  grpc.BidiStreamingServer[up, down]
	sending sync.Mutex
	up      chan *up
	answers atomic.Bool
	ended   chan error
}

func (s *scripted) read() {
	defer close(s.up)
	for {
		frame, err := s.stream.Recv()
		if err != nil {
			return
		}
		if beat := frame.GetHeartbeat(); beat != nil && s.answers.Load() {
			ack := &clawjobpb.HeartbeatAck{Seq: beat.GetSeq()}
			s.try(&down{Frame: &clawjobpb.SessionResponse_HeartbeatAck{HeartbeatAck: ack}})
		}
		s.up <- frame
	}
}

func (s *scripted) try(frame *down) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.stream.Send(frame)
}

func (s *scripted) send(frame *down) {
	s.t.Helper()
	if err := s.try(frame); err != nil {
		s.t.Fatalf("the session is gone: %v", err)
	}
}

func (s *scripted) welcome(w *clawjobpb.Welcome) {
	s.t.Helper()
	s.send(&down{Frame: &clawjobpb.SessionResponse_Welcome{Welcome: w}})
}

func (s *scripted) run(command *clawjobpb.RunCommand) {
	s.t.Helper()
	s.send(&down{Frame: &clawjobpb.SessionResponse_Run{Run: command}})
}

func (s *scripted) kill(run string, fence uint64, grace time.Duration) clawjobpb.KillAck_Status {
	s.t.Helper()
	s.send(&down{Frame: &clawjobpb.SessionResponse_Kill{Kill: &clawjobpb.KillCommand{
		Ref:    ref(run, 1, fence),
		Reason: clawjobpb.KillReason_KILL_REASON_USER,
		Grace:  durationpb.New(grace),
	}}})
	return expect(s, "a KillAck", (*up).GetKillAck).GetStatus()
}

func (s *scripted) ack(result *clawjobpb.RunResult, status clawjobpb.ResultAck_Status) {
	s.t.Helper()
	ack := &clawjobpb.ResultAck{Ref: result.GetRef(), Status: status}
	s.send(&down{Frame: &clawjobpb.SessionResponse_ResultAck{ResultAck: ack}})
}

func (s *scripted) commit(result *clawjobpb.RunResult) {
	s.t.Helper()
	s.ack(result, clawjobpb.ResultAck_STATUS_COMMITTED)
}

func (s *scripted) close(reason clawjobpb.Close_Reason, reconnect bool) {
	s.t.Helper()
	s.send(&down{Frame: &clawjobpb.SessionResponse_Close{Close: &clawjobpb.Close{
		Reason: reason, Message: "by the test", Reconnect: reconnect,
	}}})
}

// end ends the stream with a status; nil ends it in order.
func (s *scripted) end(err error) { s.ended <- err }

// next is the next frame; nil at the end of the stream.
func (s *scripted) next() *up {
	s.t.Helper()
	return receive(s.t, "a frame", s.up)
}

// expect is the next frame of a kind; others are passed over.
func expect[T any](s *scripted, what string, kind func(*up) *T) *T {
	s.t.Helper()
	for {
		frame, open := receiveOpen(s.t, what, s.up)
		if !open {
			s.t.Fatalf("the stream ended before %s", what)
		}
		if found := kind(frame); found != nil {
			return found
		}
	}
}

func (s *scripted) runAck() *clawjobpb.RunAck {
	s.t.Helper()
	return expect(s, "a RunAck", (*up).GetRunAck)
}

func (s *scripted) result() *clawjobpb.RunResult {
	s.t.Helper()
	return expect(s, "a RunResult", (*up).GetResult)
}

func (s *scripted) heartbeat() *clawjobpb.Heartbeat {
	s.t.Helper()
	return expect(s, "a Heartbeat", (*up).GetHeartbeat)
}

func (s *scripted) goodbye() {
	s.t.Helper()
	expect(s, "a Goodbye", (*up).GetGoodbye)
}

// begin starts a run and waits until it was accepted.
func (s *scripted) begin(command *clawjobpb.RunCommand) {
	s.t.Helper()
	s.run(command)
	if got := s.runAck().GetStatus(); got != clawjobpb.RunAck_STATUS_ACCEPTED {
		s.t.Fatalf("the run was not accepted: %v", got)
	}
}

// quiet waits for a heartbeat that lists no attempts.
func (s *scripted) quiet() *clawjobpb.Heartbeat {
	s.t.Helper()
	for {
		if beat := s.heartbeat(); len(beat.GetAttempts()) == 0 {
			return beat
		}
	}
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	value, _ := receiveOpen(t, what, from)
	return value
}

func receiveOpen[T any](t *testing.T, what string, from <-chan T) (T, bool) {
	t.Helper()
	select {
	case value, open := <-from:
		return value, open
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

// impatientWelcome notices within 1.5 s that the scheduler is silent.
func impatientWelcome() *clawjobpb.Welcome {
	w := welcome()
	w.HeartbeatTimeout = durationpb.New(1500 * time.Millisecond)
	return w
}

// welcome has all times at a tenth, but for the patience with a scheduler that is slow to answer: a
// busy machine is no part of most scenarios.
func welcome() *clawjobpb.Welcome {
	return &clawjobpb.Welcome{
		SessionId:         "s",
		SessionEpoch:      1,
		ResumeToken:       "resume",
		NodeId:            "node",
		HeartbeatInterval: durationpb.New(500 * time.Millisecond),
		HeartbeatTimeout:  durationpb.New(15 * time.Second),
		LostAfter:         durationpb.New(6 * time.Second),
		RunAckTimeout:     durationpb.New(500 * time.Millisecond),
		MaxFrameBytes:     1 << 20,
		MaxOutputBytes:    256 << 10,
		MaxLogChunkBytes:  64 << 10,
		LogWindowBytes:    256 << 10,
	}
}

func resumedWelcome() *clawjobpb.Welcome {
	w := welcome()
	w.Resumed = true
	return w
}

// command is for attempt 1 of a run. A handler that obeys has time enough to.
func command(run, handler, params string) *clawjobpb.RunCommand {
	c := &clawjobpb.RunCommand{
		Ref:         ref(run, 1, 1),
		Job:         "apps/demo/jobs/j",
		Run:         "apps/demo/runs/" + run,
		Handler:     handler,
		FireTime:    timestamppb.New(time.Unix(1_700_000_000, 0)),
		KillGrace:   durationpb.New(30 * time.Second),
		MaxAttempts: 3,
	}
	if params != "" {
		c.Params = wire.Payload([]byte(params))
	}
	return c
}

func ref(run string, attempt uint32, fence uint64) *clawjobpb.AttemptRef {
	return &clawjobpb.AttemptRef{RunId: run, Attempt: attempt, Fence: fence}
}

// outcome is a result in short.
func outcome(result *clawjobpb.RunResult) string {
	return result.GetOutcome().String()[len("OUTCOME_"):] + " " + result.GetFailure().GetCode()
}

func wantOutcome(t *testing.T, result *clawjobpb.RunResult, want string) {
	t.Helper()
	if got := outcome(result); got != want {
		t.Errorf("%s, want %s: %v", got, want, result)
	}
}

var errGoingDown = status.Error(14, "going down")

func durations(a, b time.Duration) (*durationpb.Duration, *durationpb.Duration) {
	return durationpb.New(a), durationpb.New(b)
}
