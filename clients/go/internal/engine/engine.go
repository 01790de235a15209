// Package engine is the executor's table of attempts as a pure machine: an event and the time go
// in, actions come out. No I/O, no clock, no handler runs here.
//
// An attempt is running, stopping (told to stop, with a moment at which it is abandoned) or
// finished (its result waits for the ack). An acknowledged one moves into memory, so that a
// command that comes again is recognised.
package engine

import (
	"slices"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
)

const (
	// killGraceDefault is the grace of a kill when neither the kill nor the job names one.
	killGraceDefault = 10 * time.Second
	// selfFenceMargin is how long before lost_after, and before the grace of the kill, a handler is
	// stopped for loss of contact when its job asks for that.
	selfFenceMargin = 2 * time.Second
	// busyRetryAfter is what a BUSY answer asks the scheduler to wait.
	busyRetryAfter = time.Second
	// lostAfterDefault is lost_after until a Welcome names one.
	lostAfterDefault = 60 * time.Second
	// outputBytesMaxDefault is the largest output until a Welcome names a bound, in bytes.
	outputBytesMaxDefault = 256 << 10
)

// ActionKind says what an [Action] asks for.
type ActionKind int

const (
	// Send asks for a frame to be sent on the current session; without one it is lost, and the next
	// Hello makes up for it.
	Send ActionKind = iota + 1
	// Stop asks to tell the handler to stop.
	Stop
	// Abandon says that the handler ignored its kill and is waited for no longer.
	Abandon
	// Result says that the attempt's result can be sent, after what it logged.
	Result
	// Forget says that the attempt's result is acknowledged; nothing of it is needed any more.
	Forget
)

// Action is something the caller has to do. Actions are carried out in their order.
type Action struct {
	Kind ActionKind
	// Key is the attempt, for all kinds but Send.
	Key Key
	// Frame is what to send, for Send.
	Frame *clawjobpb.SessionRequest
	// Reason is why to stop, for Stop.
	Reason StopReason
}

// Ending is how a handler ended.
type Ending struct {
	// Output is what it returned; nil when nothing.
	Output *clawjobpb.Payload
	// Failure is why it failed; nil when it did not.
	Failure *clawjobpb.Failure
	// Panicked says that the failure is a panic, which is told even of a handler that was stopped.
	Panicked bool
}

// Engine is the table. It is not safe for concurrent use: the session's goroutine owns it.
type Engine struct {
	slots uint32
	// limits has the handlers on offer and how many of each may run; 0 means no bound of its own.
	limits   map[string]uint32
	paused   map[string]bool
	attempts table
	memory   memory
	// abandoned has attempts reported as abandoned whose handler still runs, with its name.
	abandoned map[Key]string
	// used counts running, stopping and abandoned handlers.
	used           uint32
	usedBy         map[string]uint32
	lastCommandSeq uint64
	draining       bool
	// contact is when the last frame was sent that the scheduler has acknowledged.
	contact   time.Time
	lostAfter time.Duration
	outputMax int
	// wake is not later than the next moment at which Tick has something to do; zero means never.
	wake    time.Time
	actions []Action
}

// New is an empty table for so many slots and these handlers with their own bounds.
func New(slots uint32, limits map[string]uint32, now time.Time) *Engine {
	return &Engine{
		slots:     slots,
		limits:    limits,
		paused:    map[string]bool{},
		attempts:  table{},
		memory:    newMemory(),
		abandoned: map[Key]string{},
		usedBy:    map[string]uint32{},
		contact:   now,
		lostAfter: lostAfterDefault,
		outputMax: outputBytesMaxDefault,
	}
}

// TakeActions is what the events so far ask for.
func (e *Engine) TakeActions() []Action {
	actions := e.actions
	e.actions = nil
	return actions
}

// NextWake is when to call [Engine.Tick] next; zero means never.
func (e *Engine) NextWake() time.Time { return e.wake }

// LastCommandSeq is the number of the last command read in the current line of sessions.
func (e *Engine) LastCommandSeq() uint64 { return e.lastCommandSeq }

// Statuses lists every attempt held: running ones and those whose result is not acknowledged.
func (e *Engine) Statuses() []*clawjobpb.AttemptStatus {
	keys := e.attempts.keys()
	statuses := make([]*clawjobpb.AttemptStatus, 0, len(keys))
	for _, key := range keys {
		statuses = append(statuses, e.attempts.get(key).status(key))
	}
	return statuses
}

// Heartbeat has the fields of a Heartbeat that the table knows.
func (e *Engine) Heartbeat() *clawjobpb.Heartbeat {
	return &clawjobpb.Heartbeat{
		Attempts:          e.Statuses(),
		FreeSlots:         e.FreeSlots(),
		LastCommandSeq:    e.lastCommandSeq,
		AbandonedHandlers: uint32(len(e.abandoned)),
	}
}

// FreeSlots is how many runs would be taken now; none while draining.
func (e *Engine) FreeSlots() uint32 {
	if e.draining || e.used >= e.slots {
		return 0
	}
	return e.slots - e.used
}

// IsIdle is true when no handler runs that has not been abandoned.
func (e *Engine) IsIdle() bool {
	for _, attempts := range e.attempts {
		for _, attempt := range attempts {
			if attempt.result == nil {
				return false
			}
		}
	}
	return true
}

// IsEmpty is true when no attempt is held, not even for its result.
func (e *Engine) IsEmpty() bool { return len(e.attempts) == 0 }

// Fence is the fence under which the attempt is spoken of; false when it is not held.
func (e *Engine) Fence(key Key) (uint64, bool) {
	attempt := e.attempts.get(key)
	if attempt == nil {
		return 0, false
	}
	return attempt.fence, true
}

// Result is the attempt's result as it is to be sent, without the number of its last log record;
// nil when it has none. The message is the caller's own.
func (e *Engine) Result(key Key) *clawjobpb.RunResult {
	attempt := e.attempts.get(key)
	if attempt == nil || attempt.result == nil {
		return nil
	}
	return copyResult(attempt.result, key.Ref(attempt.fence))
}

// HasResult is true when the attempt has ended and its result is not acknowledged.
func (e *Engine) HasResult(key Key) bool {
	attempt := e.attempts.get(key)
	return attempt != nil && attempt.result != nil
}

// OnWelcome notes that a session has begun. helloSent is when its Hello was sent.
func (e *Engine) OnWelcome(now, helloSent time.Time, welcome *clawjobpb.Welcome) {
	e.OnContact(helloSent)
	e.lostAfter = lostAfterDefault
	if lostAfter, ok := wire.Positive(welcome.GetLostAfter()); ok {
		e.lostAfter = lostAfter
	}
	if welcome.GetMaxOutputBytes() > 0 {
		e.outputMax = int(welcome.GetMaxOutputBytes())
	}
	if !welcome.GetResumed() {
		e.lastCommandSeq = 0
	}
	for _, known := range welcome.GetKnownResults() {
		e.acknowledge(now, known)
	}
	for _, kill := range welcome.GetKills() {
		e.OnKill(now, kill)
	}
	for _, key := range e.attempts.keys() {
		if e.HasResult(key) {
			e.do(Action{Kind: Result, Key: key})
		}
	}
	if len(e.paused) > 0 {
		e.reportCapacity("paused")
	}
	e.wake = now
}

// OnContact notes that the scheduler has acknowledged a frame that was sent then.
func (e *Engine) OnContact(sent time.Time) {
	if sent.After(e.contact) {
		e.contact = sent
	}
}

// OnResultAck notes that the scheduler has the result, or does not want it.
func (e *Engine) OnResultAck(now time.Time, ack *clawjobpb.ResultAck) {
	if ack.GetRef() != nil {
		e.acknowledge(now, ack.GetRef())
	}
}

func (e *Engine) acknowledge(now time.Time, acked *clawjobpb.AttemptRef) {
	key := KeyOf(acked)
	attempt := e.attempts.get(key)
	// An answer to a lower fence leaves open what becomes of the result under the higher one.
	if attempt == nil || attempt.result == nil || acked.GetFence() < attempt.fence {
		return
	}
	e.attempts.remove(key)
	e.memory.remember(now, key, attempt)
	e.do(Action{Kind: Forget, Key: key})
	e.wakeAt(e.memory.nextExpiry())
}

// OnEnding notes that a handler has ended, whether its end is still of interest or not.
func (e *Engine) OnEnding(now time.Time, key Key, ending Ending) {
	if handler, ok := e.abandoned[key]; ok {
		delete(e.abandoned, key)
		e.release(handler)
		e.reportCapacity("an abandoned handler has ended")
		return
	}
	attempt := e.attempts.get(key)
	if attempt == nil || attempt.result != nil {
		return
	}
	attempt.finish(now, ending, e.outputMax)
	e.release(attempt.handler)
	e.do(Action{Kind: Result, Key: key})
}

// Drain takes nothing new from now on.
func (e *Engine) Drain() { e.draining = true }

// StopAll tells every running handler to stop; those that do not are abandoned after grace.
func (e *Engine) StopAll(now time.Time, reason StopReason, grace time.Duration) {
	for _, key := range e.attempts.keys() {
		e.stop(now, key, reason, &grace)
	}
}

// Pause takes no runs of this handler until it is resumed.
func (e *Engine) Pause(handler string, paused bool) {
	if e.paused[handler] == paused {
		return
	}
	reason := "resumed"
	if paused {
		e.paused[handler] = true
		reason = "paused"
	} else {
		delete(e.paused, handler)
	}
	e.reportCapacity(reason)
}

// Tick does what is due now: timeouts, self-fences, abandonments, expiry.
func (e *Engine) Tick(now time.Time) {
	if e.wake.IsZero() || e.wake.After(now) {
		return
	}
	e.wake = time.Time{}
	e.memory.expire(now)
	for _, key := range e.attempts.keys() {
		attempt := e.attempts.get(key)
		if at := attempt.nextStep(e.contact, e.lostAfter); !at.IsZero() && !at.After(now) {
			e.step(now, key, attempt)
		}
		e.wakeAt(attempt.nextStep(e.contact, e.lostAfter))
	}
	e.wakeAt(e.memory.nextExpiry())
}

func (e *Engine) step(now time.Time, key Key, attempt *attempt) {
	if attempt.stopping == 0 {
		reason := StopDisconnected
		if attempt.isTimedOut(now) {
			reason = StopTimeout
		}
		e.stop(now, key, reason, nil)
		return
	}
	attempt.abandon(now)
	e.abandoned[key] = attempt.handler
	e.do(Action{Kind: Abandon, Key: key})
	e.do(Action{Kind: Result, Key: key})
}

// stop is true when the attempt runs (and has been told to stop now, if not before).
func (e *Engine) stop(now time.Time, key Key, reason StopReason, grace *time.Duration) bool {
	attempt := e.attempts.get(key)
	if attempt == nil || attempt.result != nil {
		return false
	}
	abandonAt := now.Add(attempt.killGrace)
	if grace != nil {
		abandonAt = now.Add(*grace)
	}
	if attempt.stopping == 0 {
		attempt.stopping, attempt.abandonAt = reason, abandonAt
		e.do(Action{Kind: Stop, Key: key, Reason: reason})
	} else if abandonAt.Before(attempt.abandonAt) {
		attempt.abandonAt = abandonAt
	}
	e.wakeAt(attempt.abandonAt)
	return true
}

func (e *Engine) occupy(handler string) {
	e.used++
	e.usedBy[handler]++
}

func (e *Engine) release(handler string) {
	if e.used > 0 {
		e.used--
	}
	if e.usedBy[handler] > 0 {
		e.usedBy[handler]--
	}
}

func (e *Engine) reportCapacity(reason string) {
	paused := make([]string, 0, len(e.paused))
	for handler := range e.paused {
		paused = append(paused, handler)
	}
	slices.Sort(paused)
	e.send(&clawjobpb.SessionRequest{Frame: &clawjobpb.SessionRequest_Capacity{
		Capacity: &clawjobpb.Capacity{
			FreeSlots:      e.FreeSlots(),
			PausedHandlers: paused,
			Reason:         reason,
		},
	}})
}

func (e *Engine) send(frame *clawjobpb.SessionRequest) {
	e.do(Action{Kind: Send, Frame: frame})
}

func (e *Engine) do(action Action) {
	e.actions = append(e.actions, action)
}

func (e *Engine) wakeAt(at time.Time) {
	if !at.IsZero() && (e.wake.IsZero() || at.Before(e.wake)) {
		e.wake = at
	}
}
