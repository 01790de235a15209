package clawjob_test

import (
	"fmt"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
)

func wantKill(t *testing.T, got, want clawjobpb.KillAck_Status) {
	t.Helper()
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestC21AKillCancelsTheContext(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "obedient", ""))
	wantKill(t, s.kill("R1", 1, 30*time.Second), clawjobpb.KillAck_STATUS_SIGNALED)
	result := s.result()
	wantOutcome(t, result, "CANCELED STOPPED")
	if got := result.GetFailure().GetMessage(); got != "the run was canceled" {
		t.Errorf("%s", got)
	}
}

func TestC22AHandlerThatIgnoresItsKillIsAbandonedAfterTheGrace(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	s.begin(command("R1", "gate", ""))
	receive(t, "the handler", r.gate.begin)
	wantKill(t, s.kill("R1", 1, 300*time.Millisecond), clawjobpb.KillAck_STATUS_SIGNALED)
	result := s.result()
	wantOutcome(t, result, "CANCELED ABANDONED")
	s.commit(result)
	// Its slot stays taken until it has really ended.
	beat := s.heartbeat()
	if beat.GetAbandonedHandlers() != 1 || beat.GetFreeSlots() != 3 {
		t.Errorf("%v", beat)
	}
	r.gate.letThrough()
	for beat.GetAbandonedHandlers() > 0 {
		beat = s.heartbeat()
	}
	if beat.GetFreeSlots() != 4 {
		t.Errorf("%v", beat)
	}
}

func TestC23C25AKillBeforeItsRunLeavesATombstone(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	wantKill(t, s.kill("R1", 1, time.Second), clawjobpb.KillAck_STATUS_NOT_FOUND)
	s.begin(command("R1", "gate", ""))
	wantOutcome(t, s.result(), "CANCELED STOPPED")
	if r.gate.counted() != 0 {
		t.Error("the handler was started")
	}
}

func TestC24AKillAfterTheEndIsAnsweredFinished(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "echo", "1"))
	result := s.result()
	wantKill(t, s.kill("R1", 1, time.Second), clawjobpb.KillAck_STATUS_FINISHED)
	s.commit(result)
	wantKill(t, s.kill("R1", 1, time.Second), clawjobpb.KillAck_STATUS_FINISHED)
}

func TestC26KillAndFinishMakeOneResult(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	r.gate.letThrough()
	s := f.open()
	results := map[string]int{}
	note := func(frame *up) {
		if result := frame.GetResult(); result != nil {
			results[result.GetRef().GetRunId()]++
			s.commit(result)
		}
	}
	for i := range 20 {
		run := fmt.Sprint("R", i)
		s.begin(command(run, "gate", ""))
		s.send(&down{Frame: &clawjobpb.SessionResponse_Kill{Kill: &clawjobpb.KillCommand{
			Ref: ref(run, 1, 1),
		}}})
		// Both, in either order: the slot of a killed handler is taken until it has ended, and
		// the next begin passes over a result that is not read here.
		killed := false
		expect(s, "a KillAck and a RunResult", func(frame *up) *up {
			note(frame)
			killed = killed || frame.GetKillAck() != nil
			if killed && results[run] > 0 {
				return frame
			}
			return nil
		})
	}
	// Whatever was left over comes before the beats that list nothing.
	for quiet := 0; quiet < 2; {
		expect(s, "a Heartbeat", func(frame *up) *clawjobpb.Heartbeat {
			note(frame)
			if beat := frame.GetHeartbeat(); beat != nil && len(beat.GetAttempts()) == 0 {
				quiet++
			}
			return frame.GetHeartbeat()
		})
	}
	for i := range 20 {
		if got := results[fmt.Sprint("R", i)]; got != 1 {
			t.Errorf("R%d: %d results", i, got)
		}
	}
}
