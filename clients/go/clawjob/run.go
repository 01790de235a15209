package clawjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"clawjob.dev/go/internal/wire"
	"clawjob.dev/go/internal/work"
)

// Run is a handler's view of its run: what is known of it, and what can be said about it. It is safe
// for concurrent use.
type Run struct {
	attempt *work.Attempt
}

// FromContext is the run that a handler's context belongs to. For another context it is a run
// without properties whose words go nowhere, so that code shared with handlers works outside too.
func FromContext(ctx context.Context) *Run {
	if attempt := work.AttemptOf(ctx); attempt != nil {
		return &Run{attempt}
	}
	command := &clawjobpb.RunCommand{Ref: &clawjobpb.AttemptRef{Attempt: 1}}
	attempt := work.NewAttempt(context.Background(), time.Now(), command, nil)
	attempt.Log.Close()
	attempt.End()
	return &Run{attempt}
}

// Shard is which share of a sharded run this is.
type Shard struct {
	// Index is 0 to Total-1.
	Index int
	// Total is at least 1.
	Total int
}

// ID is the run's ULID. Together with [Run.Attempt] it identifies this execution.
func (r *Run) ID() string { return r.attempt.Command.GetRef().GetRunId() }

// Name is the run's resource name, apps/{app}/runs/{ulid}.
func (r *Run) Name() string { return r.attempt.Command.GetRun() }

// Job is the job's resource name, apps/{app}/jobs/{job}.
func (r *Run) Job() string { return r.attempt.Command.GetJob() }

// JobRevision is the revision of the job that the run was planned with.
func (r *Run) JobRevision() uint64 { return r.attempt.Command.GetJobRevision() }

// Handler is the handler's name.
func (r *Run) Handler() string { return r.attempt.Command.GetHandler() }

// Attempt is the number of this attempt, from 1.
func (r *Run) Attempt() int { return int(r.attempt.Command.GetRef().GetAttempt()) }

// MaxAttempts is how many attempts the job allows, at least 1.
func (r *Run) MaxAttempts() int { return int(max(1, r.attempt.Command.GetMaxAttempts())) }

// FireTime is the instant the schedule named, not the time of the start; zero when the scheduler
// named none.
func (r *Run) FireTime() time.Time {
	if at := r.attempt.Command.GetFireTime(); at.IsValid() {
		return at.AsTime()
	}
	return time.Time{}
}

// Lateness is how late the scheduler was with this run.
func (r *Run) Lateness() time.Duration {
	lateness, _ := wire.Span(r.attempt.Command.GetLateness())
	return lateness
}

// CatchUp is whether the run makes up for a fire time that passed unserved.
func (r *Run) CatchUp() bool { return r.attempt.Command.GetCatchUp() }

// Timeout is the run's time budget, counted from the start of this attempt; 0 means none. The
// deadline of the handler's context is its end.
func (r *Run) Timeout() time.Duration {
	timeout, _ := wire.Positive(r.attempt.Command.GetTimeout())
	return timeout
}

// Deadline is the end of the budget on the scheduler's clock, for showing only; zero means none.
// What counts is the deadline of the handler's context.
func (r *Run) Deadline() time.Time {
	if at := r.attempt.Command.GetDeadline(); at.IsValid() {
		return at.AsTime()
	}
	return time.Time{}
}

// Shard is the share of a sharded run; false when the run is not sharded.
func (r *Run) Shard() (Shard, bool) {
	index, total := r.attempt.Command.GetShardIndex(), r.attempt.Command.GetShardTotal()
	return Shard{Index: int(index), Total: int(total)}, total > 0
}

// CausedBy is the resource name of the run whose end started this one; empty when the run is not
// chained.
func (r *Run) CausedBy() string { return r.attempt.Command.GetCausedBy() }

// CausedByOutput reads what the run that started this one has returned. It is false when that
// returned nothing, or is not kept any more; then value is left alone.
//
// It fails when the output does not fit the value.
func (r *Run) CausedByOutput(value any) (bool, error) {
	data := r.attempt.Command.GetCausedByOutput().GetData()
	if len(data) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(data, value); err != nil {
		return false, fmt.Errorf("the output of %s cannot be read: %w", r.CausedBy(), err)
	}
	return true, nil
}

// Labels are the job's labels.
func (r *Run) Labels() map[string]string { return maps.Clone(r.attempt.Command.GetLabels()) }

// TraceParent is the W3C trace context of the dispatch; empty when the run is not traced.
func (r *Run) TraceParent() string { return r.attempt.Command.GetTraceparent() }

// TraceState is the vendor part of the trace context.
func (r *Run) TraceState() string { return r.attempt.Command.GetTracestate() }

// TraceCarrier has the trace context under its header names, as OpenTelemetry's
// propagation.MapCarrier takes it.
func (r *Run) TraceCarrier() map[string]string {
	return map[string]string{"traceparent": r.TraceParent(), "tracestate": r.TraceState()}
}

// Progress tells how far the run is: fraction in 0 to 1, and a message of at most 1 KiB. Only the
// newest counts, at most one a second is sent; calling it often is cheap.
func (r *Run) Progress(fraction float64, message string) { r.attempt.Tell(fraction, message) }

// Checkpoint reads the checkpoint that this attempt, or else an earlier one, has saved. It is false
// when there is none; then value is left alone.
//
// It fails when the checkpoint does not fit the value.
func (r *Run) Checkpoint(value any) (bool, error) {
	data := r.attempt.Checkpoint()
	if len(data) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(data, value); err != nil {
		return false, fmt.Errorf("the checkpoint cannot be read: %w", err)
	}
	return true, nil
}

// SaveCheckpoint saves a checkpoint for the next attempt, as JSON of at most 64 KiB. It travels with
// the progress: the newest counts, and the last one leaves before the result does.
//
// It fails with a [*Failure] for a value that is no JSON or too large.
func (r *Run) SaveCheckpoint(value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return &Failure{Message: "the checkpoint is no JSON", Err: err, NonRetryable: true}
	}
	if err := r.attempt.Save(data); err != nil {
		return &Failure{Code: CodeCheckpointTooLarge, Err: err}
	}
	return nil
}

// Log writes a record into the run's log, with arguments as slog takes them. A message over 16 KiB
// is cut; more than 1,000 records a second or 10 MiB in all are dropped and counted.
func (r *Run) Log(level slog.Level, message string, args ...any) {
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.Add(args...)
	push(r.attempt.Log, record, nil)
}

// Logger writes into the run's log and to slog.Default(), also where no context is at hand.
func (r *Run) Logger() *slog.Logger {
	return slog.New(&logHandler{next: defaultHandler{}, sink: r.attempt.Log, level: slog.LevelInfo})
}

// StopReason is why a handler is told to stop. Zero means that it is not.
type StopReason int

// The reasons.
const (
	// StopUser: somebody canceled the run.
	StopUser = StopReason(engine.StopUser)
	// StopTimeout: the run's timeout has passed.
	StopTimeout = StopReason(engine.StopTimeout)
	// StopStaleAttempt: a later attempt of the run took over.
	StopStaleAttempt = StopReason(engine.StopStaleAttempt)
	// StopReplaced: a newer run of the job takes its place.
	StopReplaced = StopReason(engine.StopReplaced)
	// StopJobDeleted: the job was deleted.
	StopJobDeleted = StopReason(engine.StopJobDeleted)
	// StopNodePolicy: the scheduler's node asks for it.
	StopNodePolicy = StopReason(engine.StopNodePolicy)
	// StopShutdown: this executor shuts down.
	StopShutdown = StopReason(engine.StopShutdown)
	// StopDisconnected: contact with the scheduler is lost and the job asks for a stop then.
	StopDisconnected = StopReason(engine.StopDisconnected)
)

// String says the reason in words.
func (r StopReason) String() string { return engine.StopReason(r).String() }

// StopReasonOf is why the handler of this context was told to stop; zero when it was not. The words
// of context.Cause(ctx) are those of the reason.
func StopReasonOf(ctx context.Context) StopReason {
	var stopped *work.Stopped
	if errors.As(context.Cause(ctx), &stopped) {
		return StopReason(stopped.Reason)
	}
	return 0
}
