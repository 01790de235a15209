package clawjob_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
)

func TestC40ADrainLetsHandlersFinishAndSaysGoodbye(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	s.begin(command("R1", "gate", ""))
	r.Drain()
	expect(s, "an ExecutorDrain", (*up).GetDrain)
	s.run(command("R2", "echo", "1"))
	if ack := s.runAck(); ack.GetStatus() != clawjobpb.RunAck_STATUS_DRAINING {
		t.Errorf("%v", ack)
	}
	r.gate.letThrough()
	result := s.result()
	wantOutcome(t, result, "SUCCEEDED ")
	s.commit(result)
	s.goodbye()
	if frame := s.next(); frame != nil {
		t.Errorf("%v after the Goodbye", frame)
	}
	s.end(nil)
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestC41ASecondSignalCancelsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	s := f.open()
	s.begin(command("R1", "obedient", ""))
	r.Drain()
	r.CancelNow()
	result := s.result()
	wantOutcome(t, result, "CANCELED SHUTDOWN")
	s.commit(result)
	s.goodbye()
	s.end(nil)
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestC42WhatRunsAtTheEndOfTheGraceIsReportedAsShutDown(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	short := config(f.url())
	short.ShutdownGrace = 200 * time.Millisecond
	r := startWith(t, short)
	s := f.open()
	// Deaf to being told to stop.
	s.begin(command("R1", "gate", ""))
	r.Drain()
	result := s.result()
	wantOutcome(t, result, "CANCELED SHUTDOWN")
	s.commit(result)
	s.goodbye()
	s.end(nil)
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestASchedulerThatIsGoneDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := start(t, f)
	f.open().heartbeat()
	f.crash()
	r.Drain()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestTheEndOfTheContextDrains(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	x := clawjob.NewExecutor(config(f.url()))
	g := newGate()
	offer(x, g)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	s := f.open()
	s.begin(command("R1", "gate", ""))
	cancel()
	expect(s, "an ExecutorDrain", (*up).GetDrain)
	g.letThrough()
	result := s.result()
	wantOutcome(t, result, "SUCCEEDED ")
	s.commit(result)
	s.goodbye()
	s.end(nil)
	if err := receive(t, "the end", done); err != nil {
		t.Error(err)
	}
	if err := x.Run(context.Background()); err == nil {
		t.Error("it ran twice")
	}
}

// Not parallel, so that no other executor runs meanwhile.
func TestNothingIsLeftRunningAfterTheEnd(t *testing.T) {
	f := newFake(t)
	x := clawjob.NewExecutor(config(f.url()))
	offer(x, newGate())
	done := make(chan error, 1)
	go func() { done <- x.Run(context.Background()) }()
	s := f.open()
	s.begin(command("R1", "logs", `{"count":10}`))
	s.commit(s.result())
	s.send(drain(time.Millisecond))
	next := f.open()
	s.goodbye()
	next.begin(command("R2", "obedient", ""))
	x.CancelNow()
	next.commit(next.result())
	next.goodbye()
	if err := receive(t, "the end", done); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !strings.Contains(string(stacks), "clawjob.dev/go/internal/") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s", stacks)
		}
	}
}
