package clawjob_test

import (
	"fmt"
	"testing"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestC27AResultIsKeptAcrossAReconnectUntilItsAck(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "echo", "1"))
	first := s.result()
	s.end(errGoingDown)
	s = f.open()
	if listed := s.hello.GetAttempts(); len(listed) != 1 || !listed[0].GetFinished() ||
		!proto.Equal(listed[0].GetRef(), ref("R1", 1, 1)) {
		t.Errorf("%v", listed)
	}
	second := s.result()
	if !proto.Equal(second, first) {
		t.Errorf("%v is not %v", second, first)
	}
	s.commit(second)
	s.quiet()
}

func TestC28AStaleAckMakesItForgetTheResult(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "echo", "1"))
	s.ack(s.result(), clawjobpb.ResultAck_STATUS_STALE)
	s.quiet()
}

func TestC31ResultsTheSchedulerKnowsAreNotSentAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "echo", "1"))
	s.result()
	s.end(status.Error(codes.Internal, "oops"))
	s = f.accept()
	known := resumedWelcome()
	known.KnownResults = []*clawjobpb.AttemptRef{ref("R1", 1, 1)}
	s.welcome(known)
	expect(s, "two heartbeats", func(frame *up) *clawjobpb.Heartbeat {
		if frame.GetResult() != nil {
			t.Errorf("%v", frame)
		}
		beat := frame.GetHeartbeat()
		if beat != nil && len(beat.GetAttempts()) != 0 {
			t.Errorf("%v", beat)
		}
		if beat.GetSeq() < 2 {
			return nil
		}
		return beat
	})
}

func TestC60AHelloWithAThousandAttemptsStaysSmall(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	many := config(f.url())
	many.Slots = 1000
	startWith(t, many)
	s := f.open()
	for i := range 1000 {
		s.run(command(fmt.Sprintf("01J%023d", i), "gate", ""))
	}
	for range 1000 {
		if got := s.runAck().GetStatus(); got != clawjobpb.RunAck_STATUS_ACCEPTED {
			t.Fatal(got)
		}
	}
	s.end(errGoingDown)
	s = f.accept()
	if size := proto.Size(s.hello); len(s.hello.GetAttempts()) != 1000 || size > 128<<10 {
		t.Errorf("%d attempts, %d bytes", len(s.hello.GetAttempts()), size)
	}
}

func TestResultsOfRunsThatEndedInBetweenComeWithTheNextSession(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	s.begin(command("R1", "gate", ""))
	receive(t, "the handler", r.gate.begin)
	s.end(errGoingDown)
	r.gate.letThrough()
	s = f.open()
	wantOutcome(t, s.result(), "SUCCEEDED ")
}
