package engine

import (
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/types/known/durationpb"
)

// OnRun takes a command to run something. refused is why it cannot be, when its handler is not here
// or its params do not fit. It is true when the attempt is to be started; its RunAck is among the
// actions, so it leaves first.
func (e *Engine) OnRun(
	now time.Time,
	command *clawjobpb.RunCommand,
	refused *clawjobpb.Failure,
) (Key, bool) {
	e.noteSeq(command.GetCommandSeq())
	if command.GetRef() == nil {
		return Key{}, false
	}
	key, fence := KeyOf(command.GetRef()), command.GetRef().GetFence()
	if e.again(now, key, fence) {
		return key, false
	}
	if e.memory.exhume(key, fence) {
		e.answer(key, fence, &clawjobpb.RunAck{Status: clawjobpb.RunAck_STATUS_ACCEPTED})
		e.attempts.put(key, stillborn(now, command, fence))
		e.do(Action{Kind: Result, Key: key})
		return key, false
	}
	if refusal := e.refusal(now, key, command, refused); refusal != nil {
		e.answer(key, fence, refusal)
		return key, false
	}
	e.answer(key, fence, &clawjobpb.RunAck{Status: clawjobpb.RunAck_STATUS_ACCEPTED})
	attempt := newAttempt(now, command, fence)
	e.wakeAt(attempt.nextStep(e.contact, e.lostAfter))
	e.attempts.put(key, attempt)
	e.occupy(command.GetHandler())
	return key, true
}

// again takes a command for an attempt that was here before: it is not started again, its result is
// sent again, and from now on it is spoken of under the higher fence.
func (e *Engine) again(now time.Time, key Key, fence uint64) bool {
	attempt := e.attempts.get(key)
	if attempt == nil {
		result, known, ok := e.memory.recall(key)
		if !ok {
			return false
		}
		attempt = remembered(now, result, known)
		e.attempts.put(key, attempt)
	}
	attempt.fence = max(attempt.fence, fence)
	e.answer(key, attempt.fence, &clawjobpb.RunAck{Status: clawjobpb.RunAck_STATUS_DUPLICATE})
	if attempt.result != nil {
		e.do(Action{Kind: Result, Key: key})
	}
	return true
}

func (e *Engine) refusal(
	now time.Time,
	key Key,
	command *clawjobpb.RunCommand,
	refused *clawjobpb.Failure,
) *clawjobpb.RunAck {
	if refusal := e.displace(now, key); refusal != nil {
		return refusal
	}
	if e.draining {
		return &clawjobpb.RunAck{Status: clawjobpb.RunAck_STATUS_DRAINING}
	}
	if refused != nil {
		return rejection(refused)
	}
	handler := command.GetHandler()
	limit := e.limits[handler]
	if e.used >= e.slots || (limit > 0 && e.usedBy[handler] >= limit) || e.paused[handler] {
		return busy()
	}
	return nil
}

// displace sees to it that only the highest attempt of a run goes on here: a lower one is told to
// stop and the higher one has to wait for that.
func (e *Engine) displace(now time.Time, key Key) *clawjobpb.RunAck {
	others := e.attempts.of(key.RunID)
	for _, other := range others {
		if other.Attempt > key.Attempt {
			text := "a later attempt of the run is known here"
			return rejection(wire.Failure(wire.CodeStaleAttempt, text))
		}
	}
	waits := false
	for _, other := range others {
		if e.stop(now, other, StopStaleAttempt, nil) {
			waits = true
		}
	}
	if waits {
		return busy()
	}
	return nil
}

// OnKill takes a command to stop something.
func (e *Engine) OnKill(now time.Time, kill *clawjobpb.KillCommand) {
	e.noteSeq(kill.GetCommandSeq())
	if kill.GetRef() == nil {
		return
	}
	e.send(&clawjobpb.SessionRequest{Frame: &clawjobpb.SessionRequest_KillAck{
		KillAck: &clawjobpb.KillAck{Ref: kill.GetRef(), Status: e.kill(now, kill)},
	}})
}

func (e *Engine) kill(now time.Time, kill *clawjobpb.KillCommand) clawjobpb.KillAck_Status {
	key, fence := KeyOf(kill.GetRef()), kill.GetRef().GetFence()
	attempt := e.attempts.get(key)
	switch {
	case attempt != nil && fence != 0 && fence < attempt.fence:
		// Meant for an earlier dispatch, which a later one has replaced.
		return clawjobpb.KillAck_STATUS_NOT_FOUND
	case attempt != nil:
		attempt.fence = max(attempt.fence, fence)
		var grace *time.Duration
		if named, ok := wire.Span(kill.GetGrace()); ok {
			grace = &named
		}
		if e.stop(now, key, reasonOf(kill.GetReason()), grace) {
			return clawjobpb.KillAck_STATUS_SIGNALED
		}
		return clawjobpb.KillAck_STATUS_FINISHED
	case e.memory.knows(key):
		return clawjobpb.KillAck_STATUS_FINISHED
	default:
		e.memory.bury(now, key, fence)
		e.wakeAt(e.memory.nextExpiry())
		return clawjobpb.KillAck_STATUS_NOT_FOUND
	}
}

func (e *Engine) noteSeq(seq uint64) {
	e.lastCommandSeq = max(e.lastCommandSeq, seq)
}

func (e *Engine) answer(key Key, fence uint64, answer *clawjobpb.RunAck) {
	answer.Ref = key.Ref(fence)
	e.send(&clawjobpb.SessionRequest{Frame: &clawjobpb.SessionRequest_RunAck{RunAck: answer}})
}

// rejection is a command that cannot be carried out, as the answer says it.
func rejection(failure *clawjobpb.Failure) *clawjobpb.RunAck {
	return &clawjobpb.RunAck{Status: clawjobpb.RunAck_STATUS_REJECTED, Failure: failure}
}

func busy() *clawjobpb.RunAck {
	return &clawjobpb.RunAck{
		Status:     clawjobpb.RunAck_STATUS_BUSY,
		RetryAfter: durationpb.New(busyRetryAfter),
	}
}
