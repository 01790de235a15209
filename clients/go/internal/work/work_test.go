package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestC47OnlyTheNewestProgressIsToldAndOnceASecond(t *testing.T) {
	var p Progress
	now := time.Now()
	if frame, next := p.Take(now, false); frame != nil || !next.IsZero() {
		t.Errorf("nothing yet: %v, %v", frame, next)
	}
	p.Set(0.1, "one")
	if frame, _ := p.Take(now, false); frame.GetMessage() != "one" {
		t.Errorf("%v", frame)
	}
	p.Set(0.2, "two")
	p.Set(7, "three")
	if frame, next := p.Take(now, false); frame != nil || !next.Equal(now.Add(ProgressEvery)) {
		t.Errorf("%v, %v", frame, next)
	}
	frame, _ := p.Take(now.Add(ProgressEvery), false)
	if frame.GetMessage() != "three" || frame.GetFraction() != 1 {
		t.Errorf("%v", frame)
	}
	p.Set(math.NaN(), "last")
	if frame, _ := p.Take(now.Add(ProgressEvery), true); frame == nil || frame.Fraction != nil {
		t.Errorf("%v", frame)
	}
	p.TellAgain()
	if frame, _ := p.Take(now.Add(ProgressEvery), false); frame.GetMessage() != "last" {
		t.Errorf("%v", frame)
	}
}

func TestAWakerListsItsAttemptOnce(t *testing.T) {
	wake := NewWake()
	waker := wake.Waker(engine.Key{RunID: "R", Attempt: 1})
	waker(false)
	waker(false)
	<-wake.C()
	if keys, urgent := wake.Take(); len(keys) != 1 || urgent {
		t.Errorf("%v, %v", keys, urgent)
	}
	waker(false)
	waker(true)
	if keys, urgent := wake.Take(); len(keys) != 1 || !urgent {
		t.Errorf("%v, %v", keys, urgent)
	}
}

func attempt(timeout time.Duration) *Attempt {
	command := &clawjobpb.RunCommand{}
	if timeout > 0 {
		command.Timeout = durationpb.New(timeout)
	}
	return NewAttempt(context.Background(), time.Now(), command, nil)
}

func TestTheFirstReasonToStopStays(t *testing.T) {
	a := attempt(time.Hour)
	if a.StopReason() != 0 {
		t.Error("it was not stopped")
	}
	a.Stop(engine.StopShutdown)
	a.Stop(engine.StopUser)
	<-a.Context().Done()
	if a.StopReason() != engine.StopShutdown {
		t.Error(a.StopReason())
	}
	var stopped *Stopped
	if !errors.As(context.Cause(a.Context()), &stopped) || stopped.Reason != engine.StopShutdown {
		t.Error(context.Cause(a.Context()))
	}
}

func TestTheTimeoutIsTheContextsDeadline(t *testing.T) {
	a := attempt(time.Millisecond)
	if deadline, ok := a.Context().Deadline(); !ok || !deadline.Equal(a.Started.Add(time.Millisecond)) {
		t.Error(deadline, ok)
	}
	<-a.Context().Done()
	if a.StopReason() != engine.StopTimeout || a.Context().Err() != context.DeadlineExceeded {
		t.Error(a.StopReason(), a.Context().Err())
	}
}

func TestAHandlerIsNotStoppedByTheEndOfTheExecutorsContext(t *testing.T) {
	base, cancel := context.WithCancel(context.Background())
	a := NewAttempt(base, time.Now(), &clawjobpb.RunCommand{}, nil)
	cancel()
	if a.Context().Err() != nil {
		t.Error("it was")
	}
}

func execute(call func(context.Context) error) engine.Ending {
	ending := make(chan engine.Ending, 1)
	full := func(ctx context.Context) (*clawjobpb.Payload, error) { return nil, call(ctx) }
	go Execute(full, attempt(0), nil, func(end engine.Ending) { ending <- end })
	return <-ending
}

func TestC17EveryWayToEndIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		call     func(context.Context) error
		panicked bool
		want     string
	}{
		"return": {func(context.Context) error { return nil }, false, ""},
		"error":  {func(context.Context) error { return errors.New("no") }, false, "HANDLER_ERROR no"},
		"panic":  {func(context.Context) error { panic("out of cheese") }, true, "HANDLER_PANIC out of cheese"},
		"nil":    {func(context.Context) error { panic(nil) }, true, "HANDLER_PANIC panic called with nil"},
		"goexit": {func(context.Context) error { runtime.Goexit(); return nil }, true, "HANDLER_PANIC the handler's"},
	} {
		got, text := execute(c.call), ""
		if got.Failure != nil {
			text = got.Failure.GetCode() + " " + got.Failure.GetMessage()
		}
		if got.Panicked != c.panicked || !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: %q, panicked %v", name, text, got.Panicked)
		}
		if c.panicked && !strings.Contains(got.Failure.GetStack(), "work_test.go") {
			t.Errorf("%s: the stack is %q", name, got.Failure.GetStack())
		}
	}
}

func TestC16AnErrorKeepsItsTypeMessageAndCauses(t *testing.T) {
	_, missing := fs.Stat(emptyFS{}, "report.csv")
	failure := FailureOf(fmt.Errorf("cannot send the report: %w", missing))
	if failure.GetType() != "*fs.PathError" || !strings.HasPrefix(failure.GetMessage(), "cannot send") {
		t.Errorf("%v", failure)
	}
	if !strings.Contains(failure.GetStack(), "caused by: stat report.csv") {
		t.Errorf("%q", failure.GetStack())
	}
	if plain := FailureOf(errors.New("plain")); plain.GetType() != "" || plain.GetStack() != "" {
		t.Errorf("%v", plain)
	}
}

type emptyFS struct{}

func (emptyFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

type broken struct{}

func (*broken) Error() string { panic("oh") }

func TestAnErrorThatCannotBeReadIsToldAsThat(t *testing.T) {
	if failure := FailureOf((*broken)(nil)); !strings.Contains(failure.GetMessage(), "cannot be read") {
		t.Errorf("%v", failure)
	}
}

func TestBadAndDoubleNamesAreFaults(t *testing.T) {
	var r Registry
	if len(r.Faults()) != 1 {
		t.Errorf("an empty registry: %v", r.Faults())
	}
	r.Add(&Entry{Name: "count"})
	r.Add(&Entry{Name: "count"})
	r.Add(&Entry{Name: "no spaces"})
	r.Add(&Entry{Name: ""})
	r.Add(NewEntry[struct{}, struct{}]("nil", nil))
	if len(r.Faults()) != 4 {
		t.Errorf("%v", r.Faults())
	}
	if _, failure := r.Prepare("other", nil); failure.GetCode() != wire.CodeUnknownHandler {
		t.Errorf("%v", failure)
	}
}

func TestC12ParamsAreCheckedBeforeTheCall(t *testing.T) {
	entry := &Entry{Name: "x", Decode: func(params []byte) (Call, error) {
		if string(params) == "panic" {
			panic("in the decoder")
		}
		if string(params) == "bad" {
			return nil, errors.New("bad")
		}
		return func(context.Context) (*clawjobpb.Payload, error) { return nil, nil }, nil
	}}
	for _, c := range []struct {
		kind, data string
		ok         bool
	}{
		{"", "", true},
		{"application/json; charset=utf-8", "1", true},
		{"text/plain", "1", false},
		{wire.JSON, "bad", false},
		{wire.JSON, "panic", false},
	} {
		_, failure := entry.Prepare(&clawjobpb.Payload{ContentType: c.kind, Data: []byte(c.data)})
		if (failure == nil) != c.ok || (!c.ok && failure.GetCode() != wire.CodeInvalidParams) {
			t.Errorf("%+v: %v", c, failure)
		}
	}
}

func TestAnInterceptorWrapsTheCall(t *testing.T) {
	type mark struct{}
	seen := false
	call := func(ctx context.Context) (*clawjobpb.Payload, error) {
		seen = ctx.Value(mark{}) == true
		return wire.Payload([]byte("1")), nil
	}
	var ending engine.Ending
	intercept := func(ctx context.Context, next func(context.Context) error) error {
		return next(context.WithValue(ctx, mark{}, true))
	}
	Execute(call, attempt(0), intercept, func(end engine.Ending) { ending = end })
	if !seen || string(ending.Output.GetData()) != "1" {
		t.Errorf("%v, %v", seen, ending)
	}
}
