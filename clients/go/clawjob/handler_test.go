package clawjob_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/clawjobtest"
)

func TestOutsideOfAHandlerWordsGoNowhere(t *testing.T) {
	run := clawjob.FromContext(context.Background())
	run.Progress(0.5, "half")
	run.Log(slog.LevelInfo, "nobody hears")
	if err := run.SaveCheckpoint(7); err != nil {
		t.Error(err)
	}
	var kept int
	if ok, err := clawjob.FromContext(context.Background()).Checkpoint(&kept); ok || err != nil {
		t.Errorf("%d, %v", kept, err)
	}
	if run.ID() != "" || run.Attempt() != 1 || run.MaxAttempts() != 1 || !run.FireTime().IsZero() {
		t.Errorf("%v", run)
	}
}

func TestErrorsAddWhatTheyKnowAlongTheChain(t *testing.T) {
	cause := errors.New("disk full")
	for _, c := range []struct {
		err       error
		code, msg string
		final     bool
		wait      time.Duration
	}{
		{cause, "HANDLER_ERROR", "disk full", false, 0},
		{clawjob.NonRetryable(cause), "HANDLER_ERROR", "disk full", true, 0},
		{clawjob.RetryAfter(clawjob.NonRetryable(cause), time.Second), "HANDLER_ERROR", "disk full", true, time.Second},
		{fmt.Errorf("a: %w", &clawjob.Failure{Code: "no-space", Err: cause}), "NO_SPACE", "a: disk full", false, 0},
		{errors.Join(cause, &clawjob.Failure{Code: "X", Message: "y"}), "X", "disk full\ny", false, 0},
	} {
		fail := func(context.Context, clawjob.None) (clawjob.None, error) { return clawjob.None{}, c.err }
		got := clawjobtest.Run(t.Context(), fail, nil).Failure
		if got.Code != c.code || got.Message != c.msg || got.NonRetryable != c.final || got.RetryAfter != c.wait {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
	if wrapped := clawjob.NonRetryable(cause); !errors.Is(wrapped, cause) {
		t.Error("the cause is lost")
	}
}

func TestSlogRecordsLandInTheRunsLog(t *testing.T) {
	var console bytes.Buffer
	text := slog.NewTextHandler(&console, &slog.HandlerOptions{Level: slog.LevelWarn})
	logger := slog.New(clawjob.LogHandler(text, &clawjob.LogOptions{Level: slog.LevelDebug}))
	talk := func(ctx context.Context, _ clawjob.None) (clawjob.None, error) {
		logger.With("a", 1).WithGroup("g").WarnContext(ctx, "careful", "b", true, slog.Group("h", "c", "x"))
		logger.DebugContext(ctx, "details", "took", time.Second, "err", errors.New("oh"))
		logger.Log(ctx, slog.LevelDebug-4, "too much")
		logger.Info("without a context")
		clawjob.FromContext(ctx).Logger().Error("by its own logger", "k", "v")
		clawjob.FromContext(ctx).Log(slog.LevelInfo, "direct", "n", 5)
		return clawjob.None{}, nil
	}
	result := clawjobtest.Run(t.Context(), talk, nil)
	var got []string
	for _, record := range result.Logs {
		fields, _ := json.Marshal(record.GetFields())
		got = append(got, fmt.Sprint(record.GetLevel(), " ", record.GetMessage(), " ", string(fields)))
	}
	want := []string{
		`LOG_LEVEL_WARN careful {"a":"1","g.b":"true","g.h.c":"x"}`,
		`LOG_LEVEL_DEBUG details {"err":"oh","took":"1s"}`,
		`LOG_LEVEL_ERROR by its own logger {"k":"v"}`,
		`LOG_LEVEL_INFO direct {"n":"5"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("\n%s", strings.Join(got, "\n"))
	}
	if said := console.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "careful a=1 g.b=true") {
		t.Errorf("the next handler got %q", said)
	}
}

func TestARecordIsLoggedOnceThroughTwoHandlers(t *testing.T) {
	twice := slog.New(clawjob.LogHandler(clawjob.LogHandler(nil, nil), nil))
	talk := func(ctx context.Context, _ clawjob.None) (clawjob.None, error) {
		twice.InfoContext(ctx, "once")
		return clawjob.None{}, nil
	}
	if got := clawjobtest.Run(t.Context(), talk, nil).Logs; len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestTheHealthPageTurnsRedAfterAMinute(t *testing.T) {
	for _, c := range []struct {
		health clawjob.Health
		ok     bool
	}{
		{clawjob.Health{For: 59 * time.Second}, true},
		{clawjob.Health{For: time.Minute}, false},
		{clawjob.Health{Connected: true, For: time.Hour}, true},
	} {
		if c.health.OK() != c.ok {
			t.Errorf("%+v", c)
		}
	}
	page := httptest.NewRecorder()
	x := clawjob.NewExecutor(clawjob.Config{App: "demo"})
	x.HealthHandler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), `"connected":false`) {
		t.Errorf("%d %s", page.Code, page.Body)
	}
}

func TestAnInterceptorSeesEveryRun(t *testing.T) {
	f := newFake(t)
	c := config(f.url())
	seen := make(chan string, 1)
	c.Intercept = func(ctx context.Context, next func(context.Context) error) error {
		err := next(ctx)
		seen <- fmt.Sprint(clawjob.FromContext(ctx).Handler(), " ", err)
		return err
	}
	startWith(t, c)
	s := f.open()
	s.begin(command("R1", "fail", ""))
	wantOutcome(t, s.result(), "FAILED HANDLER_ERROR")
	if got := receive(t, "the interceptor", seen); got != "fail the bank is closed" {
		t.Error(got)
	}
}

func TestAHandlerKnowsItsRun(t *testing.T) {
	f := newFake(t)
	x := clawjob.NewExecutor(config(f.url()))
	type known struct {
		ID, Name, Job, Handler string
		Attempt, MaxAttempts   int
		Revision               uint64
		FireTime               time.Time
		Lateness, Timeout      time.Duration
		CatchUp, HasDeadline   bool
		Labels                 map[string]string
	}
	clawjob.Handle(x, "tell", func(ctx context.Context, _ clawjob.None) (known, error) {
		run := clawjob.FromContext(ctx)
		_, deadline := ctx.Deadline()
		return known{
			run.ID(), run.Name(), run.Job(), run.Handler(), run.Attempt(), run.MaxAttempts(),
			run.JobRevision(), run.FireTime(), run.Lateness(), run.Timeout(), run.CatchUp(), deadline,
			run.Labels(),
		}, nil
	})
	done := make(chan error, 1)
	go func() { done <- x.Run(t.Context()) }()
	s := f.open()
	c := command("R1", "tell", "")
	c.Ref.Attempt, c.JobRevision, c.CatchUp = 2, 9, true
	c.Lateness, c.Timeout = durations(2*time.Second, time.Minute)
	c.Labels = map[string]string{"team": "money"}
	s.begin(c)
	result := s.result()
	var got known
	if err := json.Unmarshal(result.GetOutput().GetData(), &got); err != nil {
		t.Fatal(err)
	}
	want := known{
		"R1", "apps/demo/runs/R1", "apps/demo/jobs/j", "tell", 2, 3, 9,
		time.Unix(1_700_000_000, 0).UTC(), 2 * time.Second, time.Minute, true, true,
		map[string]string{"team": "money"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
	s.ack(result, clawjobpb.ResultAck_STATUS_COMMITTED)
	x.Drain()
	s.goodbye()
	s.end(nil)
	if err := receive(t, "the end", done); err != nil {
		t.Error(err)
	}
}
