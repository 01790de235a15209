package main

import (
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/clawjobtest"
)

func TestASecondAttemptGoesOnFromTheCheckpointOfTheFirst(t *testing.T) {
	params := Report{Month: "2026-11", Rows: 1000, BreaksAt: 550}
	first := clawjobtest.Run(t.Context(), nightlyReport, params)
	if first.Failure == nil || first.Failure.Message != "row 550: the source broke down" ||
		first.Failure.RetryAfter != time.Second {
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
