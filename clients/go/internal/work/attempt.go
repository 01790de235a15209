// Package work runs handlers: what is on offer, what a handler and the session share about one
// attempt, and how a handler's end is told.
package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"clawjob.dev/go/internal/logs"
	"clawjob.dev/go/internal/wire"
)

// Stopped is the cause with which a handler's context is canceled.
type Stopped struct {
	// Reason is why.
	Reason engine.StopReason
}

// Error says why in words.
func (s *Stopped) Error() string { return s.Reason.String() }

// Attempt is what a handler's context and the session's goroutine share about one attempt.
type Attempt struct {
	// Command is what was asked for, without its params. It is never changed.
	Command *clawjobpb.RunCommand
	// Started is when the command was accepted.
	Started time.Time
	// Progress is the newest one.
	Progress Progress
	// Log is where its records go.
	Log *logs.Sink

	wake   func(urgent bool)
	ctx    context.Context
	cancel context.CancelCauseFunc
}

type attemptKey struct{}

// errReturned is the cause with which a context ends whose handler has returned.
var errReturned = errors.New("the handler has returned")

// NewAttempt prepares an attempt that starts now. Its context has base's values but not its end,
// and the run's timeout as its deadline. wake is told when there is something to send.
func NewAttempt(
	base context.Context,
	now time.Time,
	command *clawjobpb.RunCommand,
	wake func(urgent bool),
) *Attempt {
	if wake == nil {
		wake = func(bool) {}
	}
	command.Params = nil
	a := &Attempt{Command: command, Started: now, Log: logs.NewSink(wake), wake: wake}
	ctx := context.WithValue(context.WithoutCancel(base), attemptKey{}, a)
	ctx, a.cancel = context.WithCancelCause(ctx)
	a.ctx = ctx
	if timeout, ok := wire.Positive(command.GetTimeout()); ok {
		cause := &Stopped{Reason: engine.StopTimeout}
		limited, free := context.WithDeadlineCause(ctx, now.Add(timeout), cause)
		// The timer goes with the attempt's end, which cancels the context above it.
		context.AfterFunc(ctx, free)
		a.ctx = limited
	}
	return a
}

// AttemptOf is the attempt that a handler's context belongs to; nil when it belongs to none.
func AttemptOf(ctx context.Context) *Attempt {
	attempt, _ := ctx.Value(attemptKey{}).(*Attempt)
	return attempt
}

// Context is the handler's context.
func (a *Attempt) Context() context.Context { return a.ctx }

// Stop tells the handler to stop; the first reason stays.
func (a *Attempt) Stop(reason engine.StopReason) { a.cancel(&Stopped{Reason: reason}) }

// End frees what the context holds: the handler has returned. What it has left running sees its
// context canceled.
func (a *Attempt) End() { a.cancel(errReturned) }

// StopReason is why the handler should stop; zero while it should go on.
func (a *Attempt) StopReason() engine.StopReason {
	if stopped, ok := context.Cause(a.ctx).(*Stopped); ok {
		return stopped.Reason
	}
	return 0
}

// Tell notes how far the run is.
func (a *Attempt) Tell(fraction float64, message string) {
	a.Progress.Set(fraction, message)
	a.wake(false)
}

// Save notes a checkpoint, already in JSON.
//
// It fails when the checkpoint is larger than 64 KiB.
func (a *Attempt) Save(checkpoint []byte) error {
	if len(checkpoint) > CheckpointBytesMax {
		return fmt.Errorf("the checkpoint has %d bytes of %d", len(checkpoint), CheckpointBytesMax)
	}
	a.Progress.Save(checkpoint)
	a.wake(false)
	return nil
}

// Checkpoint is the one that this attempt, or else an earlier one, has saved; empty when none.
func (a *Attempt) Checkpoint() []byte {
	if saved := a.Progress.Saved(); saved != nil {
		return saved
	}
	return a.Command.GetCheckpoint().GetData()
}
