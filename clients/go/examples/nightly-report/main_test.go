package main

import (
	"context"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/clawjobtest"
	"clawjob.dev/go/internal/testnode"
)

func TestASecondAttemptGoesOnFromTheCheckpointOfTheFirst(t *testing.T) {
	params := Report{Month: "2026-11", Rows: 1000, BreaksAt: 550}
	first := clawjobtest.Run(t.Context(), nightlyReport, params)
	if first.Failure == nil || first.Failure.Code != "SOURCE_DOWN" ||
		first.Failure.Message != "row 550: the source broke down" || first.Failure.RetryAfter != time.Second {
		t.Fatalf("%+v", first)
	}
	var saved int
	if _, err := first.Checkpoint(&saved); err != nil || saved != 500 {
		t.Fatalf("%d, %v", saved, err)
	}
	second := clawjobtest.Run(t.Context(), nightlyReport, params,
		clawjobtest.Attempt(2), clawjobtest.Checkpoint(saved))
	if second.Output != (Summary{"2026-11", 1000}) || second.Progress != 1 {
		t.Errorf("%+v", second)
	}
}

func TestItStopsWhenItIsToldTo(t *testing.T) {
	now := make(chan struct{})
	close(now)
	run := clawjobtest.Run(t.Context(), nightlyReport, Report{Month: "2026-11", PauseMs: 60_000},
		clawjobtest.StopWhen(now, clawjob.StopUser))
	if run.Outcome != clawjobpb.Outcome_OUTCOME_CANCELED {
		t.Errorf("%+v", run)
	}
}

func TestAnEmptyReportIsNotTriedAgain(t *testing.T) {
	run := clawjobtest.Run(t.Context(), nightlyReport, map[string]any{"month": "2026-11", "rows": 0})
	if run.Failure == nil || !run.Failure.NonRetryable {
		t.Errorf("%+v", run)
	}
}

func TestEndToEndItIsMadeOverARetryAndCanBeKilled(t *testing.T) {
	const app = "billing"
	n := testnode.New(t)
	client := n.Client(app)
	x := executor(clawjob.Config{
		Endpoints: []string{n.URL()}, App: app, Token: n.ExecutorToken(app), NoSignals: true,
		ShutdownGrace: time.Second,
	})
	done := make(chan error, 1)
	go func() { done <- x.Run(context.Background()) }()
	_, err := client.CreateJob(t.Context(), &clawjobpb.Job{
		Name: "nightly", Handler: "nightly-report", Retry: &clawjobpb.RetryPolicy{MaxAttempts: 2},
		Overlap: clawjobpb.OverlapPolicy_OVERLAP_POLICY_ALLOW,
	})
	if err != nil {
		t.Fatal(err)
	}
	trigger := func(params Report) *clawjobpb.Run {
		run, err := client.Trigger(t.Context(), "nightly", clawjob.TriggerOptions{Params: params})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	made := trigger(Report{Month: "2026-11", Rows: 1000, BreaksAt: 550})
	slow := trigger(Report{Month: "2026-12", Rows: 1000, PauseMs: 60_000})
	if _, err := client.Wait(t.Context(), made.GetName()); err != nil {
		t.Fatal(err)
	}
	made, err = client.GetRun(t.Context(), made.GetName())
	if err != nil || made.GetState() != clawjobpb.RunState_RUN_STATE_SUCCEEDED ||
		made.GetAttempt() != 2 || made.GetProgress() != 1 ||
		string(made.GetOutput().GetData()) != `{"month":"2026-11","rows":1000}` {
		t.Errorf("%v, %v", made, err)
	}
	if _, err := client.CancelRun(t.Context(), slow.GetName(), clawjob.CancelOptions{}); err != nil {
		t.Fatal(err)
	}
	slow, err = client.Wait(t.Context(), slow.GetName())
	if err != nil || slow.GetState() != clawjobpb.RunState_RUN_STATE_CANCELED {
		t.Errorf("%v, %v", slow, err)
	}
	x.Drain()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
