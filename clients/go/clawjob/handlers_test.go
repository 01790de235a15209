package clawjob_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
)

// The fixed handlers that scenarios run, and the executor that offers them.

type millis struct {
	Ms int64 `json:"ms"`
}

type count struct {
	Count int `json:"count"`
}

// gate is what a gate handler waits for, and how many have begun.
type gate struct {
	mutex sync.Mutex
	count int
	begin chan struct{}
	open  chan struct{}
	once  sync.Once
}

func newGate() *gate {
	return &gate{begin: make(chan struct{}, 4096), open: make(chan struct{})}
}

func (g *gate) wait(context.Context, clawjob.None) (string, error) {
	g.mutex.Lock()
	g.count++
	g.mutex.Unlock()
	g.begin <- struct{}{}
	<-g.open
	return "through", nil
}

func (g *gate) letThrough() { g.once.Do(func() { close(g.open) }) }

func (g *gate) counted() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.count
}

// bankClosed is an error type of the user's own.
type bankClosed struct{ why error }

func (b *bankClosed) Error() string { return "the bank is closed" }
func (b *bankClosed) Unwrap() error { return b.why }

func echo(_ context.Context, params json.RawMessage) (json.RawMessage, error) { return params, nil }

func fail(context.Context, clawjob.None) (clawjob.None, error) {
	return clawjob.None{}, &bankClosed{errors.New("it is Sunday")}
}

func failForGood(context.Context, clawjob.None) (clawjob.None, error) {
	failure := &clawjob.Failure{
		Code: "NO_SUCH_CUSTOMER", Message: "gone", NonRetryable: true, RetryAfter: 9 * time.Second,
	}
	return clawjob.None{}, fmt.Errorf("looking up: %w", failure)
}

func panics(context.Context, clawjob.None) (clawjob.None, error) { panic("out of cheese") }

// obedient stops as soon as it is told to.
func obedient(ctx context.Context, _ clawjob.None) (clawjob.None, error) {
	<-ctx.Done()
	return clawjob.None{}, context.Cause(ctx)
}

// block blocks, deaf to everything.
func block(_ context.Context, params millis) (clawjob.None, error) {
	time.Sleep(time.Duration(params.Ms) * time.Millisecond)
	return clawjob.None{}, nil
}

func bigOutput(_ context.Context, params count) (string, error) {
	return strings.Repeat("x", params.Count), nil
}

func logLines(ctx context.Context, params count) (clawjob.None, error) {
	for i := range params.Count {
		clawjob.FromContext(ctx).Log(slog.LevelInfo, fmt.Sprint("line ", i+1))
	}
	return clawjob.None{}, nil
}

func checkpoint(ctx context.Context, _ clawjob.None) (int, error) {
	run, done := clawjob.FromContext(ctx), 0
	if _, err := run.Checkpoint(&done); err != nil {
		return 0, err
	}
	run.Progress(0.5, "half")
	return done, run.SaveCheckpoint(done + 10)
}

// progress tells its progress count times, then waits until it is told to stop.
func progress(ctx context.Context, params count) (clawjob.None, error) {
	run := clawjob.FromContext(ctx)
	for i := 1; i <= params.Count; i++ {
		run.Progress(float64(i)/float64(params.Count), fmt.Sprint("step ", i))
	}
	return obedient(ctx, clawjob.None{})
}

func shard(ctx context.Context, _ clawjob.None) (*[2]int, error) {
	share, ok := clawjob.FromContext(ctx).Shard()
	if !ok {
		return nil, nil
	}
	return &[2]int{share.Index, share.Total}, nil
}

func trace(ctx context.Context, _ clawjob.None) (map[string]string, error) {
	return clawjob.FromContext(ctx).TraceCarrier(), nil
}

// config dials these, with its waits between dials at a tenth.
func config(urls ...string) clawjob.Config {
	return clawjob.Config{
		Endpoints:     urls,
		App:           "demo",
		ExecutorID:    "tester",
		Token:         "secret",
		Slots:         4,
		Labels:        map[string]string{"zone": "a"},
		ShutdownGrace: 25 * time.Second,
		Reconnect: clawjob.Reconnect{
			First:        200 * time.Millisecond,
			Base:         50 * time.Millisecond,
			Cap:          3 * time.Second,
			HealthyAfter: 6 * time.Second,
		},
		NoSignals: true,
		Logger:    slog.New(slog.DiscardHandler),
	}
}

func offer(x *clawjob.Executor, g *gate) {
	clawjob.Handle(x, "echo", echo)
	clawjob.Handle(x, "fail", fail)
	clawjob.Handle(x, "fail_for_good", failForGood)
	clawjob.Handle(x, "panic", panics)
	clawjob.Handle(x, "obedient", obedient)
	clawjob.Handle(x, "block", block)
	clawjob.Handle(x, "big_output", bigOutput)
	clawjob.Handle(x, "logs", logLines)
	clawjob.Handle(x, "checkpoint", checkpoint)
	clawjob.Handle(x, "progress", progress)
	clawjob.Handle(x, "shard", shard)
	clawjob.Handle(x, "trace", trace)
	clawjob.Handle(x, "gate", g.wait, clawjob.Description("waits to be let through"))
}

// runningExecutor is an executor under test. It ends with the test.
type runningExecutor struct {
	*clawjob.Executor
	t    *testing.T
	gate *gate
	done chan error
}

// startWith runs an executor with the fixed handlers.
func startWith(t *testing.T, config clawjob.Config) *runningExecutor {
	t.Helper()
	r := &runningExecutor{
		Executor: clawjob.NewExecutor(config), t: t, gate: newGate(), done: make(chan error, 1),
	}
	offer(r.Executor, r.gate)
	r.serve()
	return r
}

func (r *runningExecutor) serve() {
	ended := make(chan struct{})
	go func() {
		r.done <- r.Run(context.Background())
		close(ended)
	}()
	r.t.Cleanup(func() {
		r.gate.letThrough()
		r.CancelNow()
		receive(r.t, "the end of the executor", ended)
	})
}

func start(t *testing.T, f *fake) *runningExecutor {
	t.Helper()
	return startWith(t, config(f.url()))
}

// end is how it ended.
func (r *runningExecutor) end() error {
	r.t.Helper()
	return receive(r.t, "the end of the executor", r.done)
}
