package session

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/endpoint"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var defaults = Reconnect{
	First: 2 * time.Second, Base: 500 * time.Millisecond, Cap: 30 * time.Second,
	HealthyAfter: time.Minute,
}

func TestC33WaitsAreSpreadAndCapped(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7)).Float64
	const rounds = 400
	var sums [20]time.Duration
	for range rounds {
		b := backoff{reconnect: defaults, random: random}
		for n := range sums {
			bound := 2 * time.Second
			if n > 0 {
				bound = time.Duration(min(0.5*math.Pow(2, float64(n-1)), 30) * float64(time.Second))
			}
			wait := b.next(0)
			if wait > bound {
				t.Fatalf("dial %d waited %v of %v", n, wait, bound)
			}
			sums[n] += wait
		}
	}
	// Full jitter: half of the bound on average, for the cap as for the first.
	for n, half := range map[int]float64{0: 1, 1: 0.25, 4: 2, 19: 15} {
		if mean := sums[n].Seconds() / rounds; math.Abs(mean/half-1) > 0.15 {
			t.Errorf("dial %d: mean %v s, expected %v s", n, mean, half)
		}
	}
}

func TestOnlyAHealthySessionMakesTheNextWaitAFirstOne(t *testing.T) {
	reconnect := defaults
	reconnect.First = 0
	b := backoff{reconnect: reconnect, random: func() float64 { return 0.5 }}
	if wait := b.next(0); wait != 0 {
		t.Errorf("first: %v", wait)
	}
	b.onSessionEnd(59 * time.Second)
	if wait := b.next(0); wait == 0 {
		t.Error("a short session counts as healthy")
	}
	b.onSessionEnd(time.Minute)
	if wait := b.next(9 * time.Second); wait != 9*time.Second {
		t.Errorf("after a healthy one: %v", wait)
	}
}

func frame(beat uint64) *clawjobpb.SessionRequest {
	return &clawjobpb.SessionRequest{Frame: &clawjobpb.SessionRequest_Heartbeat{
		Heartbeat: &clawjobpb.Heartbeat{Seq: beat},
	}}
}

func TestControlGoesAheadOfDataAndTheLastFrameComesLast(t *testing.T) {
	space := make(chan struct{}, 1)
	o := newOutbox(space)
	o.putData(frame(2))
	o.putControl(frame(1))
	o.close(frame(3))
	for want := uint64(1); want <= 3; want++ {
		got, ok := o.next(context.Background())
		if !ok || got.GetHeartbeat().GetSeq() != want {
			t.Errorf("%v, want %d", got, want)
		}
	}
	if got, ok := o.next(context.Background()); ok {
		t.Errorf("%v behind the end", got)
	}
	if len(space) != 1 {
		t.Error("nobody was told of the space")
	}
}

func TestBothLanesAreBounded(t *testing.T) {
	o := newOutbox(make(chan struct{}, 1))
	for i := range controlFramesMax {
		if !o.putControl(frame(uint64(i))) {
			t.Fatalf("%d is full", i)
		}
	}
	if o.putControl(frame(0)) {
		t.Error("the control lane has no end")
	}
	for range dataFramesMax {
		if !o.hasSpace() {
			t.Fatal("the data lane is full")
		}
		o.putData(frame(0))
	}
	if o.hasSpace() {
		t.Error("the data lane has no end")
	}
}

func said(t *testing.T, code codes.Code, details ...protoadapt.MessageV1) error {
	t.Helper()
	s, err := status.New(code, "x").WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func TestC34C35OnlyTheNamedCodesAreForGood(t *testing.T) {
	permanent := []codes.Code{
		codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument,
		codes.FailedPrecondition, codes.Unimplemented,
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		f := faultOf(status.Error(code, "x"))
		if (f.permanent != nil) != slices.Contains(permanent, code) {
			t.Errorf("%v: %v", code, f.permanent)
		}
	}
}

func TestAFailedPreconditionOfAnotherReasonMayPass(t *testing.T) {
	for reason, permanent := range map[string]bool{versionUnsupported: true, "NODE_NOT_READY": false} {
		info := &errdetails.ErrorInfo{Reason: reason, Domain: "clawjob.dev"}
		f := faultOf(said(t, codes.FailedPrecondition, info))
		if (f.permanent != nil) != permanent {
			t.Errorf("%s: %v", reason, f.permanent)
		}
	}
}

func TestTheWaitThatTheSchedulerAsksForIsKept(t *testing.T) {
	info := &errdetails.RetryInfo{RetryDelay: durationpb.New(4 * time.Second)}
	if f := faultOf(said(t, codes.ResourceExhausted, info)); f.retryAfter != 4*time.Second {
		t.Errorf("%+v", f)
	}
}

func TestClosesAreForGoodByReason(t *testing.T) {
	for _, c := range []struct {
		reason    clawjobpb.Close_Reason
		reconnect bool
		permanent bool
	}{
		{clawjobpb.Close_REASON_ERROR, false, false},
		{clawjobpb.Close_REASON_UNRESPONSIVE, false, false},
		{clawjobpb.Close_REASON_SUPERSEDED, false, true},
		{clawjobpb.Close_REASON_SUPERSEDED, true, false},
		{clawjobpb.Close_REASON_REVOKED, false, true},
		{clawjobpb.Close_REASON_PROTOCOL, false, true},
		{99, false, false},
	} {
		f := faultOfClose(&clawjobpb.Close{Reason: c.reason, Reconnect: c.reconnect})
		if (f.permanent != nil) != c.permanent {
			t.Errorf("%+v: %v", c, f.permanent)
		}
	}
}

func redialOf(urls ...string) *redial {
	settings := &Settings{
		Endpoints: urls, Reconnect: defaults, Log: slog.New(slog.DiscardHandler),
	}
	return newRedial(context.Background(), settings, nil, time.Now(), rand.Float64)
}

func TestC59AfterAFailureAnotherEndpointOfOurOwnIsDialed(t *testing.T) {
	r := redialOf("http://a:1", "http://b:1")
	r.knowPeers([]string{"http://peer:1"})
	r.lastFailed = "http://a:1"
	for range 20 {
		if got := r.pick(); got != "http://b:1" {
			t.Fatal(got)
		}
	}
	r.lastFailed = ""
	picked := map[string]bool{}
	for range 200 {
		picked[r.pick()] = true
	}
	if len(picked) != 3 {
		t.Errorf("%v", picked)
	}
}

func TestAfterASilenceAnotherEndpointIsDialedAtOnce(t *testing.T) {
	now := time.Now()
	r := redialOf("http://a:1", "http://b:1")
	r.knowPeers([]string{"http://peer:1"})
	r.at, r.opened = time.Time{}, "http://a:1"
	r.onSilence()
	r.onSessionEnd(now, time.Minute, 0)
	if !r.at.Equal(now) {
		t.Errorf("dialed after %v", r.at.Sub(now))
	}
	for range 20 {
		if got := r.pick(); got != "http://b:1" {
			t.Fatal(got)
		}
	}
	r.onSessionEnd(now, 0, 0)
	if !r.at.After(now) {
		t.Error("a session that breaks again is followed by the next at once")
	}
	r = redialOf("http://a:1")
	r.knowPeers([]string{"http://peer:1"})
	r.opened = "http://a:1"
	r.onSilence()
	picked := map[string]bool{}
	for range 100 {
		picked[r.pick()] = true
	}
	if len(picked) != 2 {
		t.Errorf("who has one endpoint dials %v", picked)
	}
}

func TestPeersWithoutOurSchemeAreNotTrusted(t *testing.T) {
	r := redialOf("https://a:1")
	r.knowPeers([]string{"http://b:1", "https://c:1", "nonsense"})
	if !slices.Equal(r.peers, []string{"https://c:1"}) {
		t.Errorf("%v", r.peers)
	}
}

func TestAFaultThatGoesOnIsToldOnceAMinute(t *testing.T) {
	var told told
	now := time.Now()
	for _, c := range []struct {
		message string
		after   time.Duration
		news    bool
	}{
		{"no file", 0, true}, {"no file", tellAgainAfter / 2, false},
		{"empty", tellAgainAfter / 2, true}, {"empty", tellAgainAfter * 2, true},
	} {
		if told.isNews(c.message, now.Add(c.after)) != c.news {
			t.Errorf("%+v", c)
		}
	}
}

func TestWithoutAUsableTokenNothingIsDialedAndTheFileIsGivenTime(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	file := filepath.Join(t.TempDir(), "token")
	settings := &Settings{Token: endpoint.Token("", file)}
	for _, want := range []string{"cannot be read", "is empty"} {
		_, f := connect(t.Context(), settings, "http://"+listener.Addr().String())
		if f == nil || f.permanent != nil || f.retryAfter != tokenWait ||
			!strings.Contains(f.message, want) || !strings.Contains(f.message, file) {
			t.Errorf("%s: %+v", want, f)
		}
		if err := os.WriteFile(file, []byte(" \n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = listener.(*net.TCPListener).SetDeadline(time.Now())
	if conn, err := listener.Accept(); err == nil {
		t.Errorf("%v dialed", conn.RemoteAddr())
	}
}

func TestClocksAreComparedFairly(t *testing.T) {
	for _, c := range []struct {
		trip, offset time.Duration
		warns        int
	}{
		{0, time.Second, 0}, {0, 3 * time.Second, 1}, {0, -3 * time.Second, 1},
		// Half of the way may have taken all the time.
		{4 * time.Second, -3 * time.Second, 0}, {4 * time.Second, 9 * time.Second, 1},
	} {
		var said bytes.Buffer
		d := &driver{settings: &Settings{Log: slog.New(slog.NewTextHandler(&said, nil))}}
		now := time.Now()
		theirs := timestamppb.New(now.Add(-c.trip / 2).Add(-c.offset))
		for range 2 {
			d.compareClocks(now, now.Add(-c.trip), theirs)
		}
		if got := strings.Count(said.String(), "clock differs"); got != c.warns {
			t.Errorf("%+v: %q", c, said.String())
		}
	}
}

func TestHeartbeatsAreSpreadAndLagIsTold(t *testing.T) {
	now := time.Now()
	l := newLink(1, nil, &opened{welcome: &clawjobpb.Welcome{
		HeartbeatInterval: durationpb.New(time.Second),
	}}, now)
	if beat := l.beat(now, func() float64 { return 1 }); beat.GetLag().AsDuration() != 0 {
		t.Errorf("first: %v", beat)
	}
	if want := now.Add(1100 * time.Millisecond); !l.nextBeat.Equal(want) {
		t.Errorf("next at %v", l.nextBeat.Sub(now))
	}
	late := l.beat(now.Add(2*time.Second), func() float64 { return 0 })
	if got := late.GetLag().AsDuration(); got != 900*time.Millisecond {
		t.Errorf("lag %v", got)
	}
	if sent, ok := l.onAck(now.Add(3*time.Second), 1); !ok || !sent.Equal(now) {
		t.Errorf("%v, %v", sent, ok)
	}
	if l.isDead(now.Add(17*time.Second)) || !l.isDead(now.Add(18*time.Second)) {
		t.Error("it dies at another time than 15 s after it was heard")
	}
}
