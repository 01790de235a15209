package clawjob

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"clawjob.dev/go/internal/session"
	"clawjob.dev/go/internal/work"
)

// signalsMax bounds the signals that wait to be read.
const signalsMax = 4

// Executor is a program that offers handlers to an app. It is made by [NewExecutor], given handlers
// by [Handle], and runs once. Its other methods are safe for concurrent use.
type Executor struct {
	config   Config
	registry work.Registry
	handle   *session.Handle
	started  atomic.Bool
}

// NewExecutor makes an executor. What is wrong with its settings or its handlers is told by
// [Executor.Run], or by [Executor.Check] before.
func NewExecutor(config Config) *Executor {
	return &Executor{config: config, handle: session.NewHandle(time.Now())}
}

// None is the params or the output of a handler that has none.
type None = struct{}

// HandlerOption is a setting of one handler beside its function.
type HandlerOption func(*work.Entry)

// MaxConcurrency lets at most so many runs of the handler go on at once in this process. 0 means
// that the slots alone bound it.
func MaxConcurrency(runs uint32) HandlerOption {
	return func(entry *work.Entry) { entry.MaxConcurrency = runs }
}

// Description is a sentence about the handler for the console.
func Description(text string) HandlerOption {
	return func(entry *work.Entry) { entry.Description = text }
}

// Handle offers a handler: a function of a context and of its params. Handlers are given before
// the executor runs.
//
// The params are read from JSON by encoding/json; a run whose params do not fit is refused before
// it starts. Their JSON Schema is made from the type and shown in the console. A field is required
// unless it is a pointer, a slice or a map, has omitempty or omitzero, or has a default. Further
// struct tags: doc:"…" describes a field, enum:"a,b", min:"1" and max:"9" bound it, and default:"5"
// stands in for it.
//
// The output is written as JSON; [None] and nil leave none. An error fails the attempt, and so does
// a panic, unless it is in a goroutine that the handler has started. The context ends when the run
// is canceled, its timeout has passed, or the executor ends; see [StopReasonOf].
func Handle[P, O any](
	x *Executor,
	name string,
	handler func(ctx context.Context, params P) (O, error),
	options ...HandlerOption,
) {
	entry := work.NewEntry(name, handler)
	for _, option := range options {
		option(entry)
	}
	x.registry.Add(entry)
}

// Check is everything that is wrong with the settings and handlers as a [*ConfigError]; nil when
// nothing is.
func (x *Executor) Check() error {
	_, err := x.config.check(os.Getenv, x.registry.Faults())
	return err
}

// Run runs until SIGTERM or SIGINT, or until the context ends. The first of these drains: nothing
// new is taken, running handlers may finish. A second signal tells them to stop at once. Without a
// scheduler it goes on dialing. The values of ctx are those of the handlers' contexts.
//
// The end is bounded: the shutdown grace and 5 s. Handlers that do not stop then go on until the
// process ends.
//
// It fails with a [*ConfigError] for settings that cannot be used, with a [*RefusedError] when the
// scheduler refuses this executor for good, and with a [*SupersededError].
func (x *Executor) Run(ctx context.Context) error {
	settings, err := x.config.check(os.Getenv, x.registry.Faults())
	if err != nil {
		return err
	}
	if x.started.Swap(true) {
		return errors.New("the executor runs already or has ended; make another one")
	}
	stopWatching := context.AfterFunc(ctx, x.Drain)
	defer stopWatching()
	if !x.config.NoSignals {
		defer x.watchSignals()()
	}
	done := make(chan error, 1)
	go func() {
		done <- session.Run(session.Start{
			Settings:  settings,
			Registry:  &x.registry,
			Handle:    x.handle,
			Base:      ctx,
			Intercept: x.config.Intercept,
		})
	}()
	return public(<-done)
}

// watchSignals turns SIGTERM and SIGINT into wishes: the first drains, the next ones cancel. The
// returned function ends it.
func (x *Executor) watchSignals() (stop func()) {
	signals, ended := make(chan os.Signal, signalsMax), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		for {
			select {
			case <-signals:
				x.handle.NextStop()
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}

// Drain takes no new runs, lets running handlers finish within the shutdown grace, then ends.
func (x *Executor) Drain() { x.handle.Ask(session.StopDrain) }

// CancelNow tells running handlers to stop at once, then ends.
func (x *Executor) CancelNow() { x.handle.Ask(session.StopNow) }

// Pause takes no runs of a handler until [Executor.Resume]; running ones go on.
func (x *Executor) Pause(handler string) { x.handle.Pause(handler, true) }

// Resume takes runs of a paused handler again.
func (x *Executor) Resume(handler string) { x.handle.Pause(handler, false) }
