//go:build unix

package clawjob_test

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
)

// childVariable makes the test binary an executor that is configured by its environment alone.
const childVariable = "CLAWJOB_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	x := clawjob.NewExecutor(clawjob.Config{})
	clawjob.Handle(x, "wait", obedient)
	if err := x.Run(context.Background()); err != nil {
		panic(err)
	}
}

// child is a process of its own under signals.
func child(t *testing.T, f *fake) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program)
	c.Env = append(os.Environ(), childVariable+"=1",
		"CLAWJOB_ENDPOINTS="+f.url(), "CLAWJOB_APP=demo", "CLAWJOB_TOKEN=secret")
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

func signal(t *testing.T, c *exec.Cmd, signal os.Signal) {
	t.Helper()
	if err := c.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func ends(t *testing.T, c *exec.Cmd) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	if err := receive(t, "the child's end", done); err != nil {
		t.Error(err)
	}
}

func TestC40C41TheFirstSigtermDrainsAndTheSecondCancels(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := child(t, f)
	s := f.open()
	if len(s.hello.GetExecutorId()) <= 7 {
		t.Errorf("%v", s.hello)
	}
	s.begin(command("R1", "wait", ""))
	signal(t, c, syscall.SIGTERM)
	expect(s, "an ExecutorDrain", (*up).GetDrain)
	if beat := s.heartbeat(); len(beat.GetAttempts()) != 1 {
		t.Errorf("%v", beat)
	}
	signal(t, c, syscall.SIGTERM)
	result := s.result()
	wantOutcome(t, result, "CANCELED SHUTDOWN")
	s.commit(result)
	s.goodbye()
	s.end(nil)
	ends(t, c)
}

func TestSigintEndsAnIdleExecutor(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := child(t, f)
	s := f.open()
	s.heartbeat()
	signal(t, c, os.Interrupt)
	s.goodbye()
	s.end(nil)
	ends(t, c)
}

func TestAKilledExecutorSaysNoGoodbye(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := child(t, f)
	s := f.open()
	s.begin(command("R1", "wait", ""))
	signal(t, c, os.Kill)
	for frame := s.next(); frame != nil; frame = s.next() {
		if goodbye := (*clawjobpb.Goodbye)(frame.GetGoodbye()); goodbye != nil {
			t.Errorf("%v", goodbye)
		}
	}
	_ = c.Wait()
}
