package engine

import (
	"fmt"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// attempt is one entry of the table: running while stopping is zero and result is nil.
type attempt struct {
	fence     uint64
	handler   string
	killGrace time.Duration
	// timeoutAt is zero when the run has no timeout.
	timeoutAt time.Time
	started   time.Time

	stopOnDisconnect bool
	// lostAfter is the job's own; 0 means the Welcome's.
	lostAfter time.Duration

	// stopping is why the handler was told to stop, and abandonAt when it is waited for no longer.
	stopping  StopReason
	abandonAt time.Time
	// result is what it ended with, without its reference.
	result *clawjobpb.RunResult
}

func newAttempt(now time.Time, command *clawjobpb.RunCommand, fence uint64) *attempt {
	a := &attempt{
		fence:     fence,
		handler:   command.GetHandler(),
		killGrace: killGraceDefault,
		started:   now,
		stopOnDisconnect: command.GetDisconnectPolicy() ==
			clawjobpb.DisconnectPolicy_DISCONNECT_POLICY_STOP,
	}
	if grace, ok := wire.Span(command.GetKillGrace()); ok {
		a.killGrace = grace
	}
	if timeout, ok := wire.Positive(command.GetTimeout()); ok {
		a.timeoutAt = now.Add(timeout)
	}
	if lostAfter, ok := wire.Positive(command.GetLostAfter()); ok {
		a.lostAfter = lostAfter
	}
	return a
}

// stillborn is an attempt that was killed before its command came: it ends without having begun.
func stillborn(now time.Time, command *clawjobpb.RunCommand, fence uint64) *attempt {
	a := newAttempt(now, command, fence)
	failure := wire.Failure(wire.CodeStopped, "the run was killed before it came here")
	a.end(now, clawjobpb.Outcome_OUTCOME_CANCELED, nil, failure)
	return a
}

// remembered is an attempt whose acknowledged result is asked for again.
func remembered(now time.Time, result *clawjobpb.RunResult, fence uint64) *attempt {
	return &attempt{fence: fence, killGrace: killGraceDefault, started: now, result: result}
}

func (a *attempt) status(key Key) *clawjobpb.AttemptStatus {
	return &clawjobpb.AttemptStatus{
		Ref:       key.Ref(a.fence),
		Finished:  a.result != nil,
		StartTime: timestamppb.New(a.started),
	}
}

func (a *attempt) isTimedOut(now time.Time) bool {
	return !a.timeoutAt.IsZero() && !a.timeoutAt.After(now)
}

// nextStep is when the attempt has to be looked at: its timeout, its self-fence, its abandonment.
func (a *attempt) nextStep(contact time.Time, lostAfter time.Duration) time.Time {
	switch {
	case a.result != nil:
		return time.Time{}
	case a.stopping != 0:
		return a.abandonAt
	case !a.stopOnDisconnect:
		return a.timeoutAt
	}
	if a.lostAfter > 0 {
		lostAfter = a.lostAfter
	}
	fence := contact.Add(max(0, lostAfter-a.killGrace-selfFenceMargin))
	if !a.timeoutAt.IsZero() && a.timeoutAt.Before(fence) {
		return a.timeoutAt
	}
	return fence
}

// finish notes that the handler has ended. A success stays one even when it was told to stop; an
// error after that is taken for the effect of having been told. So is an error after the timeout,
// which the handler's context may announce a moment before the table does.
func (a *attempt) finish(now time.Time, ending Ending, outputMax int) {
	reason := a.stopping
	if reason == 0 && a.isTimedOut(now) {
		reason = StopTimeout
	}
	switch {
	case ending.Failure == nil:
		a.succeed(now, ending.Output, outputMax)
	case ending.Panicked || reason == 0:
		a.end(now, clawjobpb.Outcome_OUTCOME_FAILED, nil, ending.Failure)
	default:
		ending.Failure.Code = reason.Code()
		a.end(now, reason.outcome(), nil, ending.Failure)
	}
}

func (a *attempt) succeed(now time.Time, output *clawjobpb.Payload, outputMax int) {
	if size := len(output.GetData()); size > outputMax {
		text := fmt.Sprintf("the output has %d bytes of %d", size, outputMax)
		failure := wire.Failure(wire.CodeOutputTooLarge, text)
		failure.NonRetryable = true
		a.end(now, clawjobpb.Outcome_OUTCOME_FAILED, nil, failure)
		return
	}
	a.end(now, clawjobpb.Outcome_OUTCOME_SUCCEEDED, output, nil)
}

// abandon notes that the handler has not ended in its grace.
func (a *attempt) abandon(now time.Time) {
	code := wire.CodeAbandoned
	// The scheduler runs these again by their code, so it has to stay.
	if a.stopping == StopShutdown || a.stopping == StopDisconnected {
		code = a.stopping.Code()
	}
	text := fmt.Sprintf("the handler did not stop in its grace: %v", a.stopping)
	a.end(now, a.stopping.outcome(), nil, wire.Failure(code, text))
}

func (a *attempt) end(
	now time.Time,
	outcome clawjobpb.Outcome,
	output *clawjobpb.Payload,
	failure *clawjobpb.Failure,
) {
	a.result = &clawjobpb.RunResult{
		Outcome:    outcome,
		Output:     output,
		Failure:    failure,
		StartTime:  timestamppb.New(a.started),
		FinishTime: timestamppb.New(now),
		Duration:   durationpb.New(max(0, now.Sub(a.started))),
	}
}

// copyResult is the result under a reference; what it points to is shared and never changed.
func copyResult(from *clawjobpb.RunResult, ref *clawjobpb.AttemptRef) *clawjobpb.RunResult {
	return &clawjobpb.RunResult{
		Ref:             ref,
		Outcome:         from.GetOutcome(),
		Output:          from.GetOutput(),
		Failure:         from.GetFailure(),
		StartTime:       from.GetStartTime(),
		FinishTime:      from.GetFinishTime(),
		Duration:        from.GetDuration(),
		OutputTruncated: from.GetOutputTruncated(),
	}
}
