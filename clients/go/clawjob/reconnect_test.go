package clawjob_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestC29C36ARunSurvivesTheDeathOfTheScheduler(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	numbered := command("R1", "gate", "")
	numbered.CommandSeq = 4
	s.begin(numbered)
	instance := s.hello.GetInstanceId()
	f = newFakeAt(t, f.crash())
	s = f.accept()
	hello := s.hello
	if hello.GetInstanceId() != instance || hello.GetResumeToken() != "resume" ||
		hello.GetLastCommandSeq() != 4 || len(hello.GetAttempts()) != 1 ||
		hello.GetAttempts()[0].GetFinished() {
		t.Errorf("%v", hello)
	}
	s.welcome(resumedWelcome())
	r.gate.letThrough()
	wantOutcome(t, s.result(), "SUCCEEDED ")
	if r.gate.counted() != 1 {
		t.Errorf("begun %d times", r.gate.counted())
	}
}

func TestC30KillsOfTheWelcomeStopTheirRuns(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "obedient", ""))
	s.end(errGoingDown)
	s = f.accept()
	kills := welcome()
	kills.Kills = []*clawjobpb.KillCommand{{
		Ref: ref("R1", 1, 1), Reason: clawjobpb.KillReason_KILL_REASON_STALE_ATTEMPT,
	}}
	s.welcome(kills)
	result := s.result()
	wantOutcome(t, result, "CANCELED STOPPED")
	if got := result.GetFailure().GetMessage(); got != "a later attempt took over" {
		t.Errorf("%s", got)
	}
}

func TestC34PermanentCodesEndTheRunWithAnError(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{
		codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument,
		codes.FailedPrecondition, codes.Unimplemented,
	} {
		f := newFake(t)
		f.refuse(status.Error(code, "no"))
		err := start(t, f).end()
		var refused *clawjob.RefusedError
		if !errors.As(err, &refused) || refused.Code != code.String() || f.dials.Load() != 1 {
			t.Errorf("%v: %v after %d dials", code, err, f.dials.Load())
		}
	}
}

func TestC35OtherCodesAreTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.refuse(
		status.Error(codes.Unknown, "?"),
		status.Error(codes.Internal, "!"),
		status.Error(codes.Canceled, "…"),
	)
	start(t, f)
	f.open().heartbeat()
	if got := f.dials.Load(); got != 4 {
		t.Errorf("%d dials", got)
	}
}

func TestC37ASchedulerThatStandsStillIsNoticed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	silent := f.accept()
	silent.answers.Store(false)
	silent.welcome(impatientWelcome())
	f.open().heartbeat()
	if !r.Health().Connected {
		t.Error("it is not connected")
	}
}

func TestC38ADrainingSchedulerIsLeftOnlyWhenTheNextSessionIsOpen(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	old := f.open()
	old.begin(command("R1", "gate", ""))
	old.send(drain(100 * time.Millisecond))
	next := f.accept()
	if len(next.hello.GetAttempts()) != 1 {
		t.Errorf("%v", next.hello)
	}
	// The old session lives while the new one is not welcomed yet.
	old.heartbeat()
	old.heartbeat()
	next.welcome(resumedWelcome())
	old.goodbye()
	if frame := old.next(); frame != nil {
		t.Errorf("%v after the Goodbye", frame)
	}
	r.gate.letThrough()
	wantOutcome(t, next.result(), "SUCCEEDED ")
}

func TestC38TheCloseOfTheOldSessionMayComeBeforeTheNewWelcome(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	old := f.open()
	old.send(drain(time.Millisecond))
	next := f.accept()
	old.close(clawjobpb.Close_REASON_SUPERSEDED, false)
	next.welcome(welcome())
	next.heartbeat()
}

func drain(within time.Duration) *down {
	return &down{Frame: &clawjobpb.SessionResponse_Drain{Drain: &clawjobpb.SchedulerDrain{
		Reason:          clawjobpb.SchedulerDrain_REASON_SHUTDOWN,
		ReconnectWithin: durationpb.New(within),
		ClosesAfter:     durationpb.New(2 * time.Second),
	}}}
}

func TestC39ASupersededExecutorStopsWithoutDialingAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	s.begin(command("R1", "obedient", ""))
	s.close(clawjobpb.Close_REASON_SUPERSEDED, false)
	err := r.end()
	var superseded *clawjob.SupersededError
	if !errors.As(err, &superseded) || f.dials.Load() != 1 {
		t.Errorf("%v after %d dials", err, f.dials.Load())
	}
}

func TestARevokedExecutorStopsAndAnUnresponsiveOneDialsAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	f.open().close(clawjobpb.Close_REASON_UNRESPONSIVE, false)
	f.open().close(clawjobpb.Close_REASON_REVOKED, false)
	var refused *clawjob.RefusedError
	if err := r.end(); !errors.As(err, &refused) {
		t.Error(err)
	}
}

func TestC55C56LossOfContactStopsThoseThatAskForItAndNoOthers(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.accept()
	soon := welcome()
	soon.LostAfter = durationpb.New(3500 * time.Millisecond)
	s.welcome(soon)
	s.begin(command("R1", "gate", ""))
	stops := command("R2", "obedient", "")
	stops.DisconnectPolicy = clawjobpb.DisconnectPolicy_DISCONNECT_POLICY_STOP
	stops.KillGrace = durationpb.New(time.Second)
	s.begin(stops)
	address := f.crash()
	// Long enough for the fence: lost_after less the grace of 1 s and the margin of 2 s.
	for end := time.Now().Add(patience); r.Health().Connected || r.Health().For < 1500*time.Millisecond; {
		if time.Now().After(end) {
			t.Fatal("it does not notice that the scheduler is gone")
		}
		time.Sleep(10 * time.Millisecond)
	}
	f = newFakeAt(t, address)
	s = f.accept()
	attempts := s.hello.GetAttempts()
	if len(attempts) != 2 || attempts[0].GetFinished() || !attempts[1].GetFinished() {
		t.Fatalf("%v", attempts)
	}
	s.welcome(resumedWelcome())
	wantOutcome(t, s.result(), "FAILED DISCONNECTED")
	r.gate.letThrough()
	wantOutcome(t, s.result(), "SUCCEEDED ")
}

func TestC57ASessionIsRenewedBeforeItsCredentialEnds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	f := newFake(t)
	rotating := config(f.url())
	rotating.Token, rotating.TokenFile = "", file
	startWith(t, rotating)
	old := f.accept()
	if got := old.headers.Get("authorization"); got[0] != "Bearer first" {
		t.Errorf("%v", got)
	}
	write("second")
	expiring := welcome()
	// Only the difference counts, not what this machine's clock says.
	expiring.ServerTime = timestamppb.New(time.Unix(1000, 0))
	expiring.AuthExpireTime = timestamppb.New(time.Unix(1001, 0))
	old.welcome(expiring)
	next := f.open()
	if got := next.headers.Get("authorization"); got[0] != "Bearer second" {
		t.Errorf("%v", got)
	}
	next.heartbeat()
}

// gone is an address where nobody listens.
func gone(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestC59AnotherEndpointOfTheListIsTried(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	startWith(t, config("http://"+gone(t), f.url()))
	f.open().heartbeat()
}

func TestAnExecutorWaitsForASchedulerThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	address := gone(t)
	r := startWith(t, config("http://"+address))
	if r.Health().Connected {
		t.Error("it is connected")
	}
	newFakeAt(t, address).open().heartbeat()
}
