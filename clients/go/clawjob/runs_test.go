package clawjob_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestC08C15ARunIsAcknowledgedThenSucceedsWithItsOutput(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "echo", `{"a":1,"b":"<&>"}`))
	result := s.result()
	wantOutcome(t, result, "SUCCEEDED ")
	if output := result.GetOutput(); string(output.GetData()) != `{"a":1,"b":"<&>"}` ||
		output.GetContentType() != wire.JSON {
		t.Errorf("%v", output)
	}
	if !proto.Equal(result.GetRef(), ref("R1", 1, 1)) || !result.GetStartTime().IsValid() ||
		!result.GetFinishTime().IsValid() || !result.GetDuration().IsValid() {
		t.Errorf("%v", result)
	}
}

func TestC09ARunSentTwiceIsStartedOnceAndAdoptsTheHigherFence(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	s.begin(command("R1", "gate", ""))
	receive(t, "the handler", r.gate.begin)
	again := command("R1", "gate", "")
	again.Ref.Fence = 7
	s.run(again)
	if got := s.runAck(); got.GetStatus() != clawjobpb.RunAck_STATUS_DUPLICATE {
		t.Errorf("%v", got)
	}
	r.gate.letThrough()
	if got := s.result().GetRef().GetFence(); got != 7 || r.gate.counted() != 1 {
		t.Errorf("fence %d, begun %d", got, r.gate.counted())
	}
}

func TestC10ARunSentAgainAfterItsEndGetsItsResultAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	r.gate.letThrough()
	s := f.open()
	s.begin(command("R1", "gate", ""))
	result := s.result()
	s.commit(result)
	again := command("R1", "gate", "")
	again.Ref.Fence = 2
	s.run(again)
	if got := s.runAck(); got.GetStatus() != clawjobpb.RunAck_STATUS_DUPLICATE {
		t.Errorf("%v", got)
	}
	second := s.result()
	if !proto.Equal(second.GetOutput(), result.GetOutput()) || second.GetRef().GetFence() != 2 ||
		r.gate.counted() != 1 {
		t.Errorf("%v, begun %d", second, r.gate.counted())
	}
}

func TestC11C12WhatCannotBeRunIsRejected(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	for i, c := range []struct{ handler, params, code string }{
		{"nobody", "", "UNKNOWN_HANDLER"},
		{"block", `{"ms":"soon"}`, "INVALID_PARAMS"},
		{"block", `{"ms":null}`, "INVALID_PARAMS"},
		{"block", "", "INVALID_PARAMS"},
		{"block", "{", "INVALID_PARAMS"},
	} {
		s.run(command(fmt.Sprint("R", i), c.handler, c.params))
		ack := s.runAck()
		if ack.GetStatus() != clawjobpb.RunAck_STATUS_REJECTED || ack.GetFailure().GetCode() != c.code {
			t.Errorf("%+v: %v", c, ack)
		}
	}
	if beat := s.heartbeat(); len(beat.GetAttempts()) != 0 {
		t.Errorf("%v", beat)
	}
}

func TestC13C14AFullOrPausedExecutorIsBusy(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	for i := range 4 {
		s.begin(command(fmt.Sprint("R", i), "gate", ""))
	}
	s.run(command("R5", "echo", "1"))
	if ack := s.runAck(); ack.GetStatus() != clawjobpb.RunAck_STATUS_BUSY || ack.GetRetryAfter() == nil {
		t.Errorf("%v", ack)
	}
	r.gate.letThrough()
	for range 4 {
		s.result()
	}
	r.Pause("echo")
	capacity := expect(s, "a Capacity", (*up).GetCapacity)
	if !slices.Equal(capacity.GetPausedHandlers(), []string{"echo"}) {
		t.Errorf("%v", capacity)
	}
	s.run(command("R6", "echo", "1"))
	if ack := s.runAck(); ack.GetStatus() != clawjobpb.RunAck_STATUS_BUSY {
		t.Errorf("%v", ack)
	}
	r.Resume("echo")
	for len(expect(s, "an empty Capacity", (*up).GetCapacity).GetPausedHandlers()) > 0 {
	}
	s.begin(command("R6", "echo", "1"))
}

func TestC16AnErrorCarriesItsTypeAndCauses(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "fail", ""))
	result := s.result()
	wantOutcome(t, result, "FAILED HANDLER_ERROR")
	failure := result.GetFailure()
	if failure.GetMessage() != "the bank is closed" || failure.GetType() != "*clawjob_test.bankClosed" ||
		!strings.Contains(failure.GetStack(), "it is Sunday") || failure.GetNonRetryable() {
		t.Errorf("%v", failure)
	}
}

func TestC17APanicIsAFailureAndTheExecutorLives(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "panic", ""))
	result := s.result()
	wantOutcome(t, result, "FAILED HANDLER_PANIC")
	if failure := result.GetFailure(); failure.GetMessage() != "out of cheese" ||
		!strings.Contains(failure.GetStack(), "handlers_test.go") {
		t.Errorf("%v", failure)
	}
	s.begin(command("R2", "echo", "1"))
	wantOutcome(t, s.result(), "SUCCEEDED ")
}

func TestC18WhatTheHandlerSaysAboutRetriesIsCarried(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "fail_for_good", ""))
	failure := s.result().GetFailure()
	if failure.GetCode() != "NO_SUCH_CUSTOMER" || failure.GetMessage() != "looking up: gone" ||
		!failure.GetNonRetryable() || failure.GetRetryAfter().AsDuration() != 9*time.Second {
		t.Errorf("%v", failure)
	}
}

func TestC19AnOutputThatIsTooLargeIsAFailureNotADisconnect(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "big_output", `{"count":300000}`))
	wantOutcome(t, s.result(), "FAILED OUTPUT_TOO_LARGE")
	s.begin(command("R2", "echo", "1"))
	wantOutcome(t, s.result(), "SUCCEEDED ")
}

func TestC20TheTimeoutIsKeptHereWhateverTheSchedulersClockSays(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	limited := command("R1", "obedient", "")
	limited.Timeout = durationpb.New(300 * time.Millisecond)
	limited.Deadline = timestamppb.New(time.Now().Add(-time.Hour))
	s.begin(limited)
	result := s.result()
	wantOutcome(t, result, "TIMED_OUT TIMEOUT")
	if ran := result.GetDuration().AsDuration(); ran < 300*time.Millisecond {
		t.Errorf("it ran %v", ran)
	}
}

func TestC48CheckpointsGoRound(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	resumed := command("R1", "checkpoint", "")
	resumed.Checkpoint = wire.Payload([]byte("42"))
	s.begin(resumed)
	told := expect(s, "a Progress", func(frame *up) *clawjobpb.Progress {
		if frame.GetResult() != nil {
			t.Error("the result overtook its checkpoint")
		}
		return frame.GetProgress()
	})
	if string(told.GetCheckpoint().GetData()) != "52" || told.GetFraction() != 0.5 ||
		told.GetMessage() != "half" {
		t.Errorf("%v", told)
	}
	if got := string(s.result().GetOutput().GetData()); got != "42" {
		t.Errorf("%s", got)
	}
}

func TestC49AHandlerSeesItsShard(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	sharded := command("R1", "shard", "")
	sharded.ShardIndex, sharded.ShardTotal = 2, 5
	s.begin(sharded)
	if got := string(s.result().GetOutput().GetData()); got != "[2,5]" {
		t.Errorf("%s", got)
	}
	s.begin(command("R2", "shard", ""))
	if got := s.result().GetOutput(); got != nil {
		t.Errorf("%v", got)
	}
}

func TestC50AHandlerSeesItsTrace(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	f := newFake(t)
	start(t, f)
	s := f.open()
	traced := command("R1", "trace", "")
	traced.Traceparent, traced.Tracestate = parent, "a=b"
	s.begin(traced)
	want := `{"traceparent":"` + parent + `","tracestate":"a=b"}`
	if got := string(s.result().GetOutput().GetData()); got != want {
		t.Errorf("%s", got)
	}
}

func TestC52UnknownEnumValuesFallBack(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	odd := command("R1", "obedient", "")
	odd.DisconnectPolicy = 99
	s.begin(odd)
	s.send(&down{Frame: &clawjobpb.SessionResponse_Kill{Kill: &clawjobpb.KillCommand{
		Ref: ref("R1", 1, 1), Reason: 99,
	}}})
	result := s.result()
	wantOutcome(t, result, "CANCELED STOPPED")
	if got := result.GetFailure().GetMessage(); got != "the run was canceled" {
		t.Errorf("%s", got)
	}
}

func TestC54AHigherAttemptReplacesTheRunningOne(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "obedient", ""))
	second := command("R1", "echo", "1")
	second.Ref = ref("R1", 2, 2)
	s.run(second)
	if ack := s.runAck(); ack.GetStatus() != clawjobpb.RunAck_STATUS_BUSY {
		t.Errorf("%v", ack)
	}
	first := s.result()
	wantOutcome(t, first, "CANCELED STOPPED")
	if first.GetRef().GetAttempt() != 1 {
		t.Errorf("%v", first)
	}
	s.begin(second)
	if got := s.result().GetRef().GetAttempt(); got != 2 {
		t.Errorf("attempt %d", got)
	}
}
