// Package clawjobtest runs a handler without a scheduler, under the same rules: params, timeout,
// stop, abandonment, panics, bounds.
//
//	func TestItGreets(t *testing.T) {
//		run := clawjobtest.Run(t.Context(), hello, Hello{Name: "Ada"}, clawjobtest.Attempt(2))
//		if run.Output != "Hello, Ada!" || !run.Logged("saying hello") {
//			t.Error(run)
//		}
//	}
package clawjobtest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"clawjob.dev/go/internal/wire"
	"clawjob.dev/go/internal/work"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// name of the handler, the job and the app of a run in the harness.
	name = "test"
	// runID of a run in the harness.
	runID = "01J00000000000000000000000"
)

// Option is a setting of a run.
type Option func(*setup)

type setup struct {
	command *clawjobpb.RunCommand
	faults  []string
	stop    <-chan struct{}
	reason  clawjob.StopReason
}

// Attempt makes it this attempt, from 1.
func Attempt(number uint32) Option {
	return func(s *setup) { s.command.Ref.Attempt = number }
}

// MaxAttempts is how many attempts the job allows.
func MaxAttempts(number uint32) Option {
	return func(s *setup) { s.command.MaxAttempts = number }
}

// FireTime is the instant the schedule named.
func FireTime(at time.Time) Option {
	return func(s *setup) { s.command.FireTime = timestamppb.New(at) }
}

// Shard makes it one share of a sharded run.
func Shard(index, total uint32) Option {
	return func(s *setup) { s.command.ShardIndex, s.command.ShardTotal = index, total }
}

// Label is one of the job's labels.
func Label(key, value string) Option {
	return func(s *setup) { s.command.Labels[key] = value }
}

// Checkpoint is the one that an earlier attempt left.
func Checkpoint(value any) Option {
	return func(s *setup) {
		data, err := json.Marshal(value)
		if err != nil {
			s.faults = append(s.faults, "the checkpoint is no JSON: "+err.Error())
		}
		s.command.Checkpoint = wire.Payload(data)
	}
}

// CausedBy makes it a chained run, started by the end of the run with this name and output.
func CausedBy(run string, output any) Option {
	return func(s *setup) {
		data, err := json.Marshal(output)
		if err != nil {
			s.faults = append(s.faults, "the output is no JSON: "+err.Error())
		}
		s.command.CausedBy, s.command.CausedByOutput = run, wire.Payload(data)
	}
}

// Timeout is the run's time budget.
func Timeout(budget time.Duration) Option {
	return func(s *setup) { s.command.Timeout = durationpb.New(budget) }
}

// KillGrace is how long the handler has to stop; 10 s when not set.
func KillGrace(grace time.Duration) Option {
	return func(s *setup) { s.command.KillGrace = durationpb.New(grace) }
}

// StopWhen tells the handler to stop, for this reason, once the channel is closed.
func StopWhen(when <-chan struct{}, reason clawjob.StopReason) Option {
	return func(s *setup) { s.stop, s.reason = when, reason }
}

// Result is what a run left behind.
type Result[O any] struct {
	// Outcome is how the attempt ended.
	Outcome clawjobpb.Outcome
	// Output is the handler's, having gone through JSON; zero when it left none.
	Output O
	// Failure is why the attempt failed; nil when it did not.
	Failure *clawjob.Failure
	// Stack has the failure's causes, or the stack of a panic.
	Stack string
	// Logs has the run's log, as much of it as the bounds left.
	Logs []*clawjobpb.LogRecord
	// LogsDropped counts the records that the bounds dropped.
	LogsDropped uint64
	// Progress is the newest one: fraction and message.
	Progress float64
	// ProgressMessage goes with it.
	ProgressMessage string

	checkpoint []byte
}

// Logged is true when a log record has this text in its message.
func (r *Result[O]) Logged(text string) bool {
	for _, record := range r.Logs {
		if strings.Contains(record.GetMessage(), text) {
			return true
		}
	}
	return false
}

// Checkpoint reads the newest checkpoint that this attempt saved; false when it saved none.
func (r *Result[O]) Checkpoint(value any) (bool, error) {
	if r.checkpoint == nil {
		return false, nil
	}
	return true, json.Unmarshal(r.checkpoint, value)
}

// Run runs a handler with these params, which go through JSON as they do from a scheduler. When ctx
// ends, the handler is told that its run was canceled. While it runs, slog.Default() is left alone:
// records reach the run's log through [clawjob.LogHandler] or [clawjob.Run.Logger] only.
func Run[P, O any](
	ctx context.Context,
	handler func(context.Context, P) (O, error),
	params any,
	options ...Option,
) *Result[O] {
	s := setup{reason: clawjob.StopUser, command: &clawjobpb.RunCommand{
		Ref:         &clawjobpb.AttemptRef{RunId: runID, Attempt: 1, Fence: 1},
		Job:         "apps/" + name + "/jobs/" + name,
		Run:         "apps/" + name + "/runs/" + runID,
		Handler:     name,
		FireTime:    timestamppb.Now(),
		MaxAttempts: 1,
		Labels:      map[string]string{},
	}}
	for _, option := range options {
		option(&s)
	}
	payload, err := clawjob.Params(params)
	if err != nil {
		s.faults = append(s.faults, err.Error())
	}
	entry := work.NewEntry(name, handler)
	s.faults = append(s.faults, entry.Faults...)
	if len(s.faults) > 0 {
		return refused[O](wire.Failure(wire.CodeInvalidParams, strings.Join(s.faults, "; ")))
	}
	call, refusal := entry.Prepare(payload)
	if refusal != nil {
		return refused[O](refusal)
	}
	r := run{setup: s, table: engine.New(1, map[string]uint32{name: 0}, time.Now())}
	return resultOf[O](r.execute(ctx, call))
}

// run is one run in the harness.
type run struct {
	setup
	table   *engine.Engine
	attempt *work.Attempt
}

// execute drives the table of attempts as a session does.
func (r *run) execute(ctx context.Context, call work.Call) (*clawjobpb.RunResult, *work.Attempt) {
	now := time.Now()
	key, _ := r.table.OnRun(now, r.command, nil)
	r.attempt = work.NewAttempt(ctx, now, r.command, nil)
	ended := make(chan engine.Ending, 1)
	go work.Execute(call, r.attempt, nil, func(ending engine.Ending) { ended <- ending })
	stop, done := r.stop, ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case ending := <-ended:
			r.table.OnEnding(time.Now(), key, ending)
		case <-stop:
			stop = nil
			r.tell(engine.StopReason(r.reason))
		case <-done:
			done = nil
			r.tell(engine.StopUser)
		case <-timer.C:
		}
		r.table.Tick(time.Now())
		for _, action := range r.table.TakeActions() {
			if action.Kind == engine.Stop {
				r.attempt.Stop(action.Reason)
			}
		}
		if result := r.table.Result(key); result != nil {
			r.attempt.End()
			return result, r.attempt
		}
		if wake := r.table.NextWake(); !wake.IsZero() {
			timer.Reset(max(0, time.Until(wake)))
		}
	}
}

func (r *run) tell(reason engine.StopReason) {
	grace, ok := wire.Span(r.command.GetKillGrace())
	if !ok {
		grace = 10 * time.Second
	}
	r.table.StopAll(time.Now(), reason, grace)
}

func refused[O any](failure *clawjobpb.Failure) *Result[O] {
	return &Result[O]{
		Outcome: clawjobpb.Outcome_OUTCOME_FAILED,
		Failure: failureOf(failure),
		Stack:   failure.GetStack(),
	}
}

func resultOf[O any](result *clawjobpb.RunResult, attempt *work.Attempt) *Result[O] {
	r := &Result[O]{Outcome: result.GetOutcome(), checkpoint: attempt.Progress.Saved()}
	if failure := result.GetFailure(); failure != nil {
		r.Failure, r.Stack = failureOf(failure), failure.GetStack()
	}
	if data := result.GetOutput().GetData(); len(data) > 0 {
		if err := json.Unmarshal(data, &r.Output); err != nil {
			text := fmt.Sprintf("the output cannot be read back: %v", err)
			r.Failure = &clawjob.Failure{Code: clawjob.CodeHandlerError, Message: text}
		}
	}
	r.Logs, r.LogsDropped = attempt.Log.Drain()
	if progress, _ := attempt.Progress.Take(time.Now(), true); progress != nil {
		r.Progress, r.ProgressMessage = float64(progress.GetFraction()), progress.GetMessage()
	}
	return r
}

func failureOf(failure *clawjobpb.Failure) *clawjob.Failure {
	wait, _ := wire.Span(failure.GetRetryAfter())
	return &clawjob.Failure{
		Code:         failure.GetCode(),
		Message:      failure.GetMessage(),
		NonRetryable: failure.GetNonRetryable(),
		RetryAfter:   wait,
	}
}

// Logger is a logger whose records land in the log of the run that their context belongs to, for
// handlers that are given one.
func Logger() *slog.Logger {
	return slog.New(clawjob.LogHandler(nil, &clawjob.LogOptions{Level: slog.LevelDebug - 4}))
}
