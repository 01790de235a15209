package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Every state of an attempt against every event.

const grace = time.Second

// before is how an attempt stands before the event.
type before int

const (
	unknown before = iota
	running
	stopping
	finished
	abandoned
	recalled
	buried
)

var all = []before{unknown, running, stopping, finished, abandoned, recalled, buried}

func (b before) String() string {
	return [...]string{
		"unknown", "running", "stopping", "finished", "abandoned", "remembered", "buried",
	}[b]
}

type world struct {
	engine *Engine
	now    time.Time
}

var key = Key{RunID: "R", Attempt: 1}

func newWorld() *world {
	now := time.Now()
	limits := map[string]uint32{"h": 0, "one": 1}
	return &world{engine: New(3, limits, now), now: now}
}

// with is attempt 1 of run R under fence 5, brought to this state.
func with(state before) *world {
	w := newWorld()
	switch state {
	case buried:
		w.kill(5)
	case running:
		w.run(1, 5)
	case stopping:
		w.run(1, 5)
		w.kill(5)
	case abandoned:
		w.run(1, 5)
		w.kill(5)
		w.pass(grace)
	case finished, recalled:
		w.run(1, 5)
		w.end(Ending{})
	}
	if state == recalled {
		w.ack(5)
	}
	w.engine.TakeActions()
	return w
}

func command(run, handler string, attempt uint32, fence uint64) *clawjobpb.RunCommand {
	return &clawjobpb.RunCommand{
		Ref:       Key{run, attempt}.Ref(fence),
		Handler:   handler,
		KillGrace: durationpb.New(grace),
	}
}

func (w *world) run(attempt uint32, fence uint64) (bool, []Action) {
	_, started := w.engine.OnRun(w.now, command("R", "h", attempt, fence), nil)
	return started, w.engine.TakeActions()
}

func (w *world) kill(fence uint64) []Action {
	w.engine.OnKill(w.now, &clawjobpb.KillCommand{
		Ref:   key.Ref(fence),
		Grace: durationpb.New(grace),
	})
	return w.engine.TakeActions()
}

func (w *world) end(ending Ending) []Action {
	w.engine.OnEnding(w.now, key, ending)
	return w.engine.TakeActions()
}

func (w *world) ack(fence uint64) []Action {
	w.engine.OnResultAck(w.now, &clawjobpb.ResultAck{
		Ref:    key.Ref(fence),
		Status: clawjobpb.ResultAck_STATUS_COMMITTED,
	})
	return w.engine.TakeActions()
}

func (w *world) pass(span time.Duration) []Action {
	w.now = w.now.Add(span)
	w.engine.Tick(w.now)
	return w.engine.TakeActions()
}

func (w *world) stopAll(reason StopReason, grace time.Duration) []Action {
	w.engine.StopAll(w.now, reason, grace)
	return w.engine.TakeActions()
}

func (w *world) outcome() string {
	result := w.engine.Result(key)
	if result == nil {
		return "none"
	}
	return fmt.Sprintf("%v %s", result.GetOutcome(), result.GetFailure().GetCode())
}

func runAnswer(t *testing.T, actions []Action) clawjobpb.RunAck_Status {
	t.Helper()
	if len(actions) == 0 || actions[0].Frame.GetRunAck() == nil {
		t.Fatalf("%v begins with no RunAck", actions)
	}
	return actions[0].Frame.GetRunAck().GetStatus()
}

func killAnswer(t *testing.T, actions []Action) clawjobpb.KillAck_Status {
	t.Helper()
	for _, action := range actions {
		if ack := action.Frame.GetKillAck(); ack != nil {
			return ack.GetStatus()
		}
	}
	t.Fatalf("no KillAck in %v", actions)
	return 0
}

func has(actions []Action, kind ActionKind) bool {
	return slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == kind && a.Key == key })
}

func failed(text string) Ending {
	return Ending{Failure: wire.Failure(wire.CodeHandlerError, text)}
}

func TestRunInEveryState(t *testing.T) {
	for _, c := range []struct {
		before         before
		status         clawjobpb.RunAck_Status
		starts, result bool
	}{
		{unknown, clawjobpb.RunAck_STATUS_ACCEPTED, true, false},
		{running, clawjobpb.RunAck_STATUS_DUPLICATE, false, false},
		{stopping, clawjobpb.RunAck_STATUS_DUPLICATE, false, false},
		{finished, clawjobpb.RunAck_STATUS_DUPLICATE, false, true},
		{abandoned, clawjobpb.RunAck_STATUS_DUPLICATE, false, true},
		{recalled, clawjobpb.RunAck_STATUS_DUPLICATE, false, true},
		{buried, clawjobpb.RunAck_STATUS_ACCEPTED, false, true},
	} {
		w := with(c.before)
		started, actions := w.run(1, 5)
		if got := runAnswer(t, actions); got != c.status || started != c.starts {
			t.Errorf("%v: %v, started %v", c.before, got, started)
		}
		if has(actions, Result) != c.result {
			t.Errorf("%v: sends its result: %v", c.before, !c.result)
		}
		if fence, _ := w.engine.Fence(key); fence != 5 {
			t.Errorf("%v: fence %d", c.before, fence)
		}
	}
}

func TestRunUnderAHigherFenceInEveryState(t *testing.T) {
	for _, state := range all {
		w := with(state)
		started, _ := w.run(1, 9)
		if fence, _ := w.engine.Fence(key); fence != 9 {
			t.Errorf("%v: fence %d", state, fence)
		}
		// A dispatch made after a kill was decided on after it.
		if started != (state == unknown || state == buried) {
			t.Errorf("%v: started %v", state, started)
		}
	}
}

func TestKillInEveryState(t *testing.T) {
	for _, c := range []struct {
		before before
		status clawjobpb.KillAck_Status
		stops  bool
	}{
		{unknown, clawjobpb.KillAck_STATUS_NOT_FOUND, false},
		{running, clawjobpb.KillAck_STATUS_SIGNALED, true},
		{stopping, clawjobpb.KillAck_STATUS_SIGNALED, false},
		{finished, clawjobpb.KillAck_STATUS_FINISHED, false},
		{abandoned, clawjobpb.KillAck_STATUS_FINISHED, false},
		{recalled, clawjobpb.KillAck_STATUS_FINISHED, false},
		{buried, clawjobpb.KillAck_STATUS_NOT_FOUND, false},
	} {
		actions := with(c.before).kill(5)
		if got := killAnswer(t, actions); got != c.status || has(actions, Stop) != c.stops {
			t.Errorf("%v: %v, stops %v", c.before, got, !c.stops)
		}
	}
}

func TestAKillOfAnEarlierDispatchStopsNothing(t *testing.T) {
	for _, state := range []before{running, stopping, finished} {
		w := with(state)
		if got := killAnswer(t, w.kill(4)); got != clawjobpb.KillAck_STATUS_NOT_FOUND {
			t.Errorf("%v: %v", state, got)
		}
		if _, actions := w.run(1, 5); runAnswer(t, actions) != clawjobpb.RunAck_STATUS_DUPLICATE {
			t.Errorf("%v: the attempt is gone", state)
		}
	}
}

func TestEndInEveryState(t *testing.T) {
	for _, state := range all {
		w := with(state)
		actions := w.end(Ending{})
		live := state == running || state == stopping
		if has(actions, Result) != live {
			t.Errorf("%v: sends a result: %v", state, !live)
		}
		if live && w.outcome() != "OUTCOME_SUCCEEDED " {
			t.Errorf("%v: %v", state, w.outcome())
		}
		// The slot of an abandoned handler is free once it has really ended.
		capacity := len(actions) > 0 && actions[0].Frame.GetCapacity() != nil
		if capacity != (state == abandoned) || w.engine.FreeSlots() != 3 {
			t.Errorf("%v: tells %v, %d free", state, capacity, w.engine.FreeSlots())
		}
	}
}

func TestAckInEveryState(t *testing.T) {
	for _, state := range all {
		w := with(state)
		actions := w.ack(5)
		if forgets := state == finished || state == abandoned; has(actions, Forget) != forgets {
			t.Errorf("%v: %v", state, actions)
		}
		if held := state == running || state == stopping; w.engine.IsEmpty() == held {
			t.Errorf("%v: empty %v", state, !held)
		}
	}
}

func TestAnAckOfALowerFenceLeavesTheResult(t *testing.T) {
	w := with(finished)
	w.run(1, 6)
	if actions := w.ack(5); len(actions) != 0 {
		t.Errorf("the lower fence: %v", actions)
	}
	if actions := w.ack(6); !has(actions, Forget) {
		t.Errorf("the same fence: %v", actions)
	}
}

func TestWelcomeInEveryState(t *testing.T) {
	for _, state := range all {
		for _, c := range []struct{ named, resumed bool }{{false, true}, {true, true}, {false, false}} {
			w := with(state)
			w.engine.lastCommandSeq = 7
			welcome := &clawjobpb.Welcome{Resumed: c.resumed}
			if c.named {
				welcome.KnownResults = append(welcome.KnownResults, key.Ref(5))
			}
			w.engine.OnWelcome(w.now, w.now, welcome)
			actions := w.engine.TakeActions()
			ended := state == finished || state == abandoned
			if has(actions, Result) != (ended && !c.named) || has(actions, Forget) != (ended && c.named) {
				t.Errorf("%v, %+v: %v", state, c, actions)
			}
			if seq := w.engine.LastCommandSeq(); (seq == 7) != c.resumed {
				t.Errorf("%v, %+v: last command %d", state, c, seq)
			}
		}
	}
}

func TestC30KillsOfTheWelcomeAreApplied(t *testing.T) {
	w := with(running)
	w.engine.OnWelcome(w.now, w.now, &clawjobpb.Welcome{
		Resumed: true,
		Kills: []*clawjobpb.KillCommand{{
			Ref:    key.Ref(5),
			Reason: clawjobpb.KillReason_KILL_REASON_STALE_ATTEMPT,
		}},
	})
	actions := w.engine.TakeActions()
	if !slices.Contains(actions, Action{Kind: Stop, Key: key, Reason: StopStaleAttempt}) {
		t.Errorf("%v", actions)
	}
}

func TestOutcomesByEndingAndStopReason(t *testing.T) {
	panicked := Ending{Failure: wire.Failure(wire.CodeHandlerPanic, "x"), Panicked: true}
	for _, c := range []struct {
		reason StopReason
		ending Ending
		want   string
	}{
		{0, Ending{}, "OUTCOME_SUCCEEDED "},
		{0, failed("x"), "OUTCOME_FAILED HANDLER_ERROR"},
		{0, panicked, "OUTCOME_FAILED HANDLER_PANIC"},
		{StopUser, Ending{}, "OUTCOME_SUCCEEDED "},
		{StopUser, failed("x"), "OUTCOME_CANCELED STOPPED"},
		{StopUser, panicked, "OUTCOME_FAILED HANDLER_PANIC"},
		{StopTimeout, Ending{}, "OUTCOME_SUCCEEDED "},
		{StopTimeout, failed("x"), "OUTCOME_TIMED_OUT TIMEOUT"},
		{StopDisconnected, failed("x"), "OUTCOME_FAILED DISCONNECTED"},
		{StopShutdown, failed("x"), "OUTCOME_CANCELED SHUTDOWN"},
	} {
		w := with(running)
		if c.reason != 0 {
			w.stopAll(c.reason, grace)
		}
		w.end(c.ending)
		if got := w.outcome(); got != c.want {
			t.Errorf("%v, %+v: %v, want %v", c.reason, c.ending, got, c.want)
		}
	}
}

func TestC22ADeafHandlerIsAbandonedAfterItsGrace(t *testing.T) {
	for _, c := range []struct {
		reason StopReason
		want   string
	}{
		{StopUser, "OUTCOME_CANCELED ABANDONED"},
		{StopTimeout, "OUTCOME_TIMED_OUT ABANDONED"},
		{StopShutdown, "OUTCOME_CANCELED SHUTDOWN"},
		{StopDisconnected, "OUTCOME_FAILED DISCONNECTED"},
	} {
		w := with(running)
		w.stopAll(c.reason, grace)
		if early := w.pass(grace - time.Millisecond); len(early) != 0 {
			t.Errorf("%v: too early: %v", c.reason, early)
		}
		actions := w.pass(time.Millisecond)
		if !has(actions, Abandon) || !has(actions, Result) || w.outcome() != c.want {
			t.Errorf("%v: %v, %v", c.reason, actions, w.outcome())
		}
		beat := w.engine.Heartbeat()
		if beat.GetAbandonedHandlers() != 1 || beat.GetFreeSlots() != 2 {
			t.Errorf("%v: %v", c.reason, beat)
		}
	}
}

func TestASecondKillCanShortenTheGraceButNotLengthenIt(t *testing.T) {
	w := with(stopping)
	w.stopAll(StopUser, grace*10)
	w.stopAll(StopUser, grace/2)
	if actions := w.pass(grace / 2); !has(actions, Abandon) {
		t.Errorf("%v", actions)
	}
}

func TestC20TheTimeoutRunsOnTheMonotonicClock(t *testing.T) {
	w := newWorld()
	limited := command("R", "h", 1, 5)
	limited.Timeout = durationpb.New(5 * time.Second)
	w.engine.OnRun(w.now, limited, nil)
	w.engine.TakeActions()
	if early := w.pass(4_999 * time.Millisecond); len(early) != 0 {
		t.Errorf("too early: %v", early)
	}
	late := w.pass(time.Millisecond)
	if !slices.Equal(late, []Action{{Kind: Stop, Key: key, Reason: StopTimeout}}) {
		t.Errorf("%v", late)
	}
}

func TestAnErrorAfterTheTimeoutIsTheTimeoutsEffect(t *testing.T) {
	w := newWorld()
	limited := command("R", "h", 1, 5)
	limited.Timeout = durationpb.New(5 * time.Second)
	w.engine.OnRun(w.now, limited, nil)
	w.now = w.now.Add(5 * time.Second)
	w.end(failed("context deadline exceeded"))
	if got := w.outcome(); got != "OUTCOME_TIMED_OUT TIMEOUT" {
		t.Error(got)
	}
}

func TestC55AJobThatStopsOnDisconnectIsFencedBeforeItIsGivenUp(t *testing.T) {
	w := newWorld()
	fenced := command("R", "h", 1, 5)
	fenced.DisconnectPolicy = clawjobpb.DisconnectPolicy_DISCONNECT_POLICY_STOP
	w.engine.OnRun(w.now, fenced, nil)
	w.engine.TakeActions()
	w.pass(40 * time.Second)
	w.engine.OnContact(w.now)
	// lost_after 60 s, less 1 s of grace and the margin of 2 s.
	if early := w.pass(56_999 * time.Millisecond); len(early) != 0 {
		t.Errorf("too early: %v", early)
	}
	late := w.pass(time.Millisecond)
	if !slices.Equal(late, []Action{{Kind: Stop, Key: key, Reason: StopDisconnected}}) {
		t.Errorf("%v", late)
	}
}

func TestC13CapacityIsBoundedBySlotsAndByTheHandler(t *testing.T) {
	w := newWorld()
	for _, c := range []struct {
		run, handler string
		status       clawjobpb.RunAck_Status
	}{
		{"A", "one", clawjobpb.RunAck_STATUS_ACCEPTED},
		{"B", "one", clawjobpb.RunAck_STATUS_BUSY},
		{"C", "h", clawjobpb.RunAck_STATUS_ACCEPTED},
		{"D", "h", clawjobpb.RunAck_STATUS_ACCEPTED},
		{"E", "h", clawjobpb.RunAck_STATUS_BUSY},
	} {
		w.engine.OnRun(w.now, command(c.run, c.handler, 1, 1), nil)
		if got := runAnswer(t, w.engine.TakeActions()); got != c.status {
			t.Errorf("%s: %v", c.run, got)
		}
	}
	if free := w.engine.FreeSlots(); free != 0 {
		t.Errorf("%d free", free)
	}
}

func TestADrainingExecutorTakesNothingNewAndKnowsItsDuplicates(t *testing.T) {
	w := with(running)
	w.engine.Drain()
	if _, actions := w.run(1, 6); runAnswer(t, actions) != clawjobpb.RunAck_STATUS_DUPLICATE {
		t.Errorf("the duplicate: %v", actions)
	}
	_, started := w.engine.OnRun(w.now, command("S", "h", 1, 1), nil)
	got := runAnswer(t, w.engine.TakeActions())
	if started || got != clawjobpb.RunAck_STATUS_DRAINING || w.engine.FreeSlots() != 0 {
		t.Errorf("started %v, %v, %d free", started, got, w.engine.FreeSlots())
	}
}

func TestC54TheAttemptsOfARunTakeTurns(t *testing.T) {
	w := with(running)
	_, actions := w.run(2, 6)
	if actions[0] != (Action{Kind: Stop, Key: key, Reason: StopStaleAttempt}) {
		t.Errorf("%v", actions)
	}
	if got := runAnswer(t, actions[1:]); got != clawjobpb.RunAck_STATUS_BUSY {
		t.Error(got)
	}
	w.end(failed("x"))
	if _, actions := w.run(2, 7); runAnswer(t, actions) != clawjobpb.RunAck_STATUS_ACCEPTED {
		t.Errorf("%v", actions)
	}
	w.ack(5)
	if _, actions := w.run(1, 8); runAnswer(t, actions) != clawjobpb.RunAck_STATUS_DUPLICATE {
		t.Errorf("%v", actions)
	}
	fresh := newWorld()
	fresh.run(2, 1)
	if _, actions := fresh.run(1, 2); runAnswer(t, actions) != clawjobpb.RunAck_STATUS_REJECTED {
		t.Errorf("%v", actions)
	}
}

func TestMemoryAndTombstonesEndWithTheirTime(t *testing.T) {
	w := with(recalled)
	w.pass(3599 * time.Second)
	if _, actions := w.run(1, 5); runAnswer(t, actions) != clawjobpb.RunAck_STATUS_DUPLICATE {
		t.Errorf("%v", actions)
	}
	w.ack(5)
	w.pass(time.Hour)
	if _, actions := w.run(1, 5); runAnswer(t, actions) != clawjobpb.RunAck_STATUS_ACCEPTED {
		t.Errorf("%v", actions)
	}
	w = with(buried)
	w.pass(10 * time.Minute)
	if started, _ := w.run(1, 5); !started {
		t.Error("the tombstone stays")
	}
}

func TestMemoryIsBoundedInNumber(t *testing.T) {
	w := newWorld()
	for i := range rememberedMax + 1 {
		key := Key{fmt.Sprint("R", i), 1}
		w.engine.OnRun(w.now, command(key.RunID, "h", 1, 1), nil)
		w.engine.OnEnding(w.now, key, Ending{})
		w.engine.OnResultAck(w.now, &clawjobpb.ResultAck{Ref: key.Ref(1)})
		w.engine.TakeActions()
	}
	for run, status := range map[string]clawjobpb.RunAck_Status{
		"R0": clawjobpb.RunAck_STATUS_ACCEPTED,
		"R1": clawjobpb.RunAck_STATUS_DUPLICATE,
	} {
		w.engine.OnRun(w.now, command(run, "h", 1, 1), nil)
		if got := runAnswer(t, w.engine.TakeActions()); got != status {
			t.Errorf("%s: %v", run, got)
		}
	}
}

func TestCommandNumbersOnlyGrow(t *testing.T) {
	w := newWorld()
	for _, c := range []struct{ seq, last uint64 }{{3, 3}, {2, 3}, {4, 4}} {
		numbered := command("R", "h", 1, 1)
		numbered.CommandSeq = c.seq
		w.engine.OnRun(w.now, numbered, nil)
		if last := w.engine.LastCommandSeq(); last != c.last {
			t.Errorf("after %d: %d", c.seq, last)
		}
	}
}

func TestC19ALargeOutputIsAFailure(t *testing.T) {
	w := with(running)
	w.end(Ending{Output: wire.Payload(make([]byte, outputBytesMaxDefault+1))})
	if got := w.outcome(); got != "OUTCOME_FAILED OUTPUT_TOO_LARGE" {
		t.Error(got)
	}
}

func TestC14PausedHandlersAreToldAndBusy(t *testing.T) {
	w := newWorld()
	w.engine.Pause("h", true)
	w.engine.Pause("h", true)
	actions := w.engine.TakeActions()
	if len(actions) != 1 || !slices.Equal(actions[0].Frame.GetCapacity().GetPausedHandlers(), []string{"h"}) {
		t.Errorf("%v", actions)
	}
	if _, actions := w.run(1, 5); runAnswer(t, actions) != clawjobpb.RunAck_STATUS_BUSY {
		t.Errorf("%v", actions)
	}
	w.engine.Pause("h", false)
	if told := w.engine.TakeActions(); len(told[0].Frame.GetCapacity().GetPausedHandlers()) != 0 {
		t.Errorf("%v", told)
	}
	if started, _ := w.run(1, 5); !started {
		t.Error("a resumed handler takes nothing")
	}
}
