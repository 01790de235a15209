package clawjob_test

import (
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestC01C03HelloComesFirstAndAnnouncesEverything(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.accept()
	hello := s.hello
	if hello.GetProtocolMajor() != 1 || hello.GetApp() != "demo" ||
		hello.GetExecutorId() != "tester" || hello.GetSlots() != 4 ||
		hello.GetResumeToken() != "" || hello.GetInstanceId() == "" ||
		hello.GetLabels()["zone"] != "a" || hello.GetSdk().GetLanguage() != "go" ||
		!hello.GetProcessStartTime().IsValid() {
		t.Errorf("%v", hello)
	}
	if got := s.headers.Get("authorization"); len(got) != 1 || got[0] != "Bearer secret" {
		t.Errorf("authorization: %v", got)
	}
	if got := s.headers.Get("clawjob-client"); len(got) != 1 || !strings.HasPrefix(got[0], "go/") {
		t.Errorf("clawjob-client: %v", got)
	}
	for _, handler := range hello.GetHandlers() {
		switch handler.GetName() {
		case "block":
			if !strings.Contains(handler.GetParamsSchema(), `"required":["ms"]`) {
				t.Errorf("block: %s", handler.GetParamsSchema())
			}
		case "gate":
			if handler.GetDescription() != "waits to be let through" {
				t.Errorf("gate: %s", handler.GetDescription())
			}
		}
	}
	if len(hello.GetHandlers()) != 13 {
		t.Errorf("%d handlers", len(hello.GetHandlers()))
	}
}

func TestC02HelloDoesNotWaitForHeaders(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.lateHeaders.Store(true)
	start(t, f)
	f.open().heartbeat()
}

func TestC04TheHeartbeatIntervalOfTheWelcomeIsKept(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.accept()
	quick := welcome()
	quick.HeartbeatInterval = durationpb.New(100 * time.Millisecond)
	began := time.Now()
	s.welcome(quick)
	for seq := uint64(1); seq <= 11; seq++ {
		if got := s.heartbeat().GetSeq(); got != seq {
			t.Errorf("heartbeat %d, want %d", got, seq)
		}
	}
	// Less a tenth at least, and far less than ten of the contract's 5 s.
	if took := time.Since(began); took < 850*time.Millisecond || took > 30*time.Second {
		t.Errorf("10 intervals of 100 ms took %v", took)
	}
}

func TestC05HeartbeatsListRunningAndFinishedAttempts(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	s.begin(command("R1", "gate", ""))
	s.begin(command("R2", "echo", "1"))
	result := s.result()
	beat := s.heartbeat()
	if len(beat.GetAttempts()) != 2 || beat.GetFreeSlots() != 3 {
		t.Fatalf("%v", beat)
	}
	for i, want := range []struct {
		run      string
		finished bool
	}{{"R1", false}, {"R2", true}} {
		got := beat.GetAttempts()[i]
		if got.GetRef().GetRunId() != want.run || got.GetFinished() != want.finished {
			t.Errorf("%v, want %v", got, want)
		}
	}
	s.commit(result)
	r.gate.letThrough()
	s.commit(s.result())
	if free := s.quiet().GetFreeSlots(); free != 4 {
		t.Errorf("%d free", free)
	}
}

func TestC06HeartbeatsAndAnswersGoOnWhileAHandlerBlocks(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	s.begin(command("R1", "gate", ""))
	receive(t, "the handler", r.gate.begin)
	for range 3 {
		if beat := s.heartbeat(); len(beat.GetAttempts()) != 1 {
			t.Errorf("%v", beat)
		}
	}
	s.begin(command("R2", "echo", "1"))
	result := s.result()
	if got := result.GetRef().GetRunId(); got != "R2" {
		t.Errorf("the result of %s", got)
	}
	s.commit(result)
	r.gate.letThrough()
	s.commit(s.result())
}

func TestC07AMissingHeartbeatAckMakesItReconnect(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.accept()
	s.answers.Store(false)
	s.welcome(impatientWelcome())
	again := f.open()
	if again.hello.GetInstanceId() != s.hello.GetInstanceId() ||
		again.hello.GetResumeToken() != "resume" {
		t.Errorf("%v", again.hello)
	}
}

func TestC32EachExecutorHasAnInstanceIDOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	first := f.accept()
	start(t, f)
	second := f.accept()
	if first.hello.GetInstanceId() == second.hello.GetInstanceId() {
		t.Error("they are the same")
	}
}

// unknownFrame is a frame of a kind that nobody knows.
func unknownFrame() *down {
	frame := &down{}
	unknown := protowire.AppendTag(nil, 999, protowire.BytesType)
	frame.ProtoReflect().SetUnknown(protowire.AppendBytes(unknown, []byte("later")))
	return frame
}

func TestC51C53FramesAndFieldsOfALaterContractArePassedOver(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.accept()
	s.send(unknownFrame())
	w := welcome()
	w.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 7))
	w.Features = []string{"log", "telepathy"}
	s.welcome(w)
	s.send(unknownFrame())
	s.begin(command("R1", "echo", "1"))
	wantOutcome(t, s.result(), "SUCCEEDED ")
}

func TestASecondWelcomeHasNoEffect(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "obedient", ""))
	s.welcome(&clawjobpb.Welcome{KnownResults: []*clawjobpb.AttemptRef{ref("R1", 1, 1)}})
	if beat := s.heartbeat(); len(beat.GetAttempts()) != 1 {
		t.Errorf("%v", beat)
	}
}

func TestOddFramesDoNotEndTheSession(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.accept()
	eternal := &durationpb.Duration{Seconds: 315_576_000_000}
	negative := &durationpb.Duration{Seconds: -1}
	malformed := &durationpb.Duration{Seconds: 1, Nanos: -5}
	s.welcome(&clawjobpb.Welcome{
		HeartbeatInterval: negative, HeartbeatTimeout: malformed, LostAfter: eternal,
		AuthExpireTime: &timestamppb.Timestamp{Seconds: -1, Nanos: -1},
		PeerEndpoints:  []string{"", "http://", "ftp://x", "\x00"},
		Kills:          []*clawjobpb.KillCommand{nil, {}}, KnownResults: []*clawjobpb.AttemptRef{nil, {}},
	})
	for _, frame := range []*down{
		{},
		{Frame: &clawjobpb.SessionResponse_Run{Run: &clawjobpb.RunCommand{}}},
		{Frame: &clawjobpb.SessionResponse_Run{Run: &clawjobpb.RunCommand{
			Ref: &clawjobpb.AttemptRef{}, Handler: strings.Repeat("x", 1000), CommandSeq: 1 << 63,
		}}},
		{Frame: &clawjobpb.SessionResponse_Kill{Kill: &clawjobpb.KillCommand{}}},
		{Frame: &clawjobpb.SessionResponse_Kill{Kill: &clawjobpb.KillCommand{
			Ref: &clawjobpb.AttemptRef{Fence: 1 << 63}, Grace: negative, Reason: -7,
		}}},
		{Frame: &clawjobpb.SessionResponse_LogAck{LogAck: &clawjobpb.LogAck{}}},
		{Frame: &clawjobpb.SessionResponse_LogAck{LogAck: &clawjobpb.LogAck{
			Ref: ref("R1", 1, 1), ThroughSeq: 1 << 63,
		}}},
		{Frame: &clawjobpb.SessionResponse_ResultAck{ResultAck: &clawjobpb.ResultAck{}}},
		{Frame: &clawjobpb.SessionResponse_ResultAck{ResultAck: &clawjobpb.ResultAck{
			Ref: ref("R1", 1, 1), Status: 77,
		}}},
		{Frame: &clawjobpb.SessionResponse_HeartbeatAck{HeartbeatAck: &clawjobpb.HeartbeatAck{}}},
		{Frame: &clawjobpb.SessionResponse_Drain{Drain: &clawjobpb.SchedulerDrain{
			Reason: 55, ReconnectWithin: eternal, ClosesAfter: negative,
		}}},
	} {
		s.send(frame)
	}
	for range 3 {
		// Those with a reference are answered; the first two have none.
		if frame := s.next(); frame.GetRunAck().GetStatus() == clawjobpb.RunAck_STATUS_ACCEPTED {
			t.Errorf("%v", frame)
		}
	}
	odd := command("R1", "echo", `"ok"`)
	odd.Timeout, odd.KillGrace, odd.LostAfter, odd.Lateness = eternal, eternal, eternal, malformed
	odd.DisconnectPolicy = clawjobpb.DisconnectPolicy_DISCONNECT_POLICY_STOP
	odd.FireTime = &timestamppb.Timestamp{Seconds: 1 << 60}
	odd.Traceparent, odd.Tracestate = strings.Repeat("z", 10_000), "="
	s.begin(odd)
	wantOutcome(t, s.result(), "SUCCEEDED ")
}
