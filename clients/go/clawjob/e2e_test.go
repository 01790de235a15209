package clawjob_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/testnode"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Against a real scheduler.

const app = "demo"

// serving is an executor with the fixed handlers and more, serving the scheduler.
func serving(t *testing.T, n *testnode.Node, slots int) *runningExecutor {
	t.Helper()
	c := config(n.URL())
	c.Token, c.ShutdownGrace, c.Slots = n.ExecutorToken(app), time.Second, slots
	r := &runningExecutor{
		Executor: clawjob.NewExecutor(c), t: t, gate: newGate(), done: make(chan error, 1),
	}
	offer(r.Executor, r.gate)
	clawjob.Handle(r.Executor, "halves", halves)
	r.serve()
	return r
}

// halves does one half in its first attempt, and the other in its second.
func halves(ctx context.Context, _ clawjob.None) (string, error) {
	run, done := clawjob.FromContext(ctx), ""
	if _, err := run.Checkpoint(&done); err != nil {
		return "", err
	}
	run.Logger().InfoContext(ctx, "attempt begins", "attempt", run.Attempt(), "done", done)
	if done == "" {
		run.Progress(0.5, "half")
		if err := run.SaveCheckpoint("first half"); err != nil {
			return "", err
		}
		return "", clawjob.RetryAfter(errors.New("the source broke down"), 50*time.Millisecond)
	}
	run.Progress(1, "whole")
	return done + " and second half", nil
}

func job(handler string) *clawjobpb.Job {
	return &clawjobpb.Job{
		Name: app + "/" + handler, Handler: handler, Timeout: durationpb.New(time.Hour),
		Retry:   &clawjobpb.RetryPolicy{MaxAttempts: 3},
		Overlap: clawjobpb.OverlapPolicy_OVERLAP_POLICY_ALLOW,
	}
}

// begin makes a job for a handler and triggers it.
func begin(t *testing.T, client *clawjob.Client, handler string, params any) *clawjobpb.Run {
	t.Helper()
	_, err := client.CreateJob(t.Context(), job(handler))
	if err != nil && !errors.Is(err, clawjob.JobExists) {
		t.Fatal(err)
	}
	run, err := client.Trigger(t.Context(), handler, clawjob.TriggerOptions{Params: params})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// waitFor waits for the end of a run.
func waitFor(t *testing.T, client *clawjob.Client, run *clawjobpb.Run) *clawjobpb.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if _, err := client.Wait(ctx, run.GetName()); err != nil {
		t.Fatal(err)
	}
	ended, err := client.GetRun(ctx, run.GetName())
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

func TestEndToEndARetryGoesOnFromItsCheckpoint(t *testing.T) {
	t.Parallel()
	n := testnode.New(t)
	client := n.Client(app)
	serving(t, n, 4)
	run := begin(t, client, "halves", nil)
	var said []string
	for record, err := range client.TailLogs(t.Context(), run.GetName(), clawjob.LogList{}) {
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, record.GetRecord().GetMessage()+" "+record.GetRecord().GetFields()["done"])
	}
	if got := strings.Join(said, ", "); got != "attempt begins , attempt begins first half" {
		t.Errorf("tailed: %s", got)
	}
	ended := waitFor(t, client, run)
	if ended.GetState() != clawjobpb.RunState_RUN_STATE_SUCCEEDED || ended.GetAttempt() != 2 ||
		string(ended.GetOutput().GetData()) != `"first half and second half"` ||
		ended.GetProgressMessage() != "whole" || len(ended.GetAttempts()) != 2 {
		t.Errorf("%v", ended)
	}
	stored := 0
	for record, err := range client.Logs(t.Context(), run.GetName(), clawjob.LogList{Attempt: 1}) {
		if stored++; err != nil || record.GetAttempt() != 1 {
			t.Errorf("%v, %v", record, err)
		}
	}
	if stored != 1 {
		t.Errorf("%d records of attempt 1", stored)
	}
}

func TestEndToEndAKillStopsTheHandler(t *testing.T) {
	t.Parallel()
	n := testnode.New(t)
	client := n.Client(app)
	serving(t, n, 4)
	run := begin(t, client, "progress", count{1})
	for event, err := range client.Watch(t.Context(), clawjob.RunList{}, "") {
		if err != nil {
			t.Fatal(err)
		}
		if event.GetRun().GetState() == clawjobpb.RunState_RUN_STATE_RUNNING {
			break
		}
	}
	if _, err := client.CancelRun(t.Context(), run.GetName(), clawjob.CancelOptions{Reason: "by the test"}); err != nil {
		t.Fatal(err)
	}
	ended := waitFor(t, client, run)
	if ended.GetState() != clawjobpb.RunState_RUN_STATE_CANCELED ||
		ended.GetFailure().GetCode() != clawjob.CodeStopped {
		t.Errorf("%v", ended)
	}
}

func TestEndToEndFailuresAreShownAsTheHandlerSaidThem(t *testing.T) {
	t.Parallel()
	n := testnode.New(t)
	client := n.Client(app)
	serving(t, n, 4)
	for handler, code := range map[string]string{
		"fail_for_good": "NO_SUCH_CUSTOMER", "big_output": clawjob.CodeOutputTooLarge,
	} {
		ended := waitFor(t, client, begin(t, client, handler, count{300_000}))
		if ended.GetState() != clawjobpb.RunState_RUN_STATE_FAILED || ended.GetAttempt() != 1 ||
			ended.GetFailure().GetCode() != code {
			t.Errorf("%s: %v", handler, ended)
		}
	}
	params := map[string]string{"ms": "soon"}
	ended := waitFor(t, client, begin(t, client, "block", params))
	if ended.GetFailure().GetCode() != clawjob.CodeInvalidParams {
		t.Errorf("%v", ended)
	}
}

func TestEndToEndNoResultIsLostWhenTheSchedulerIsKilled(t *testing.T) {
	t.Parallel()
	n := testnode.New(t)
	client := n.Client(app)
	const inFlight = 50
	r := serving(t, n, inFlight)
	var runs []*clawjobpb.Run
	for range inFlight {
		runs = append(runs, begin(t, client, "gate", nil))
	}
	for range inFlight {
		receive(t, "the handlers", r.gate.begin)
	}
	n.Kill()
	r.gate.letThrough()
	n.Start()
	for _, run := range runs {
		ended := waitFor(t, client, run)
		if ended.GetState() != clawjobpb.RunState_RUN_STATE_SUCCEEDED || ended.GetAttempt() != 1 {
			t.Errorf("%v", ended)
		}
	}
	if r.gate.counted() != inFlight {
		t.Errorf("the handlers began %d times", r.gate.counted())
	}
}

func TestEndToEndARollingRestartOfTheSchedulerIsNotFelt(t *testing.T) {
	t.Parallel()
	n := testnode.New(t)
	client := n.Client(app)
	r := serving(t, n, 4)
	run := begin(t, client, "gate", nil)
	receive(t, "the handler", r.gate.begin)
	states := make(chan clawjobpb.RunState, 64)
	go func() {
		defer close(states)
		for event, err := range client.Watch(t.Context(), clawjob.RunList{}, "") {
			if err != nil {
				t.Error(err)
				return
			}
			if event.GetRun() == nil {
				continue
			}
			states <- event.GetRun().GetState()
			if clawjob.IsFinal(event.GetRun().GetState()) {
				return
			}
		}
	}()
	if got := receive(t, "the run's state", states); clawjob.IsFinal(got) {
		t.Errorf("%v", got)
	}
	n.Terminate()
	n.Start()
	r.gate.letThrough()
	ended := waitFor(t, client, run)
	if ended.GetState() != clawjobpb.RunState_RUN_STATE_SUCCEEDED || ended.GetAttempt() != 1 ||
		r.gate.counted() != 1 {
		t.Errorf("begun %d times: %v", r.gate.counted(), ended)
	}
	for last, open := receiveOpen(t, "the run's end", states); open; {
		var next clawjobpb.RunState
		if next, open = receiveOpen(t, "the run's end", states); !open &&
			last != clawjobpb.RunState_RUN_STATE_SUCCEEDED {
			t.Errorf("the watch ended with %v", last)
		}
		last = next
	}
}

func TestEndToEndApplyMakesItSo(t *testing.T) {
	t.Parallel()
	n := testnode.New(t)
	client := n.Client(app)
	apply := func(options clawjob.ApplyOptions, jobs ...*clawjobpb.Job) string {
		t.Helper()
		changes, err := client.Apply(t.Context(), jobs, options)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, change := range changes {
			text = append(text, fmt.Sprint(change.Kind, change.Fields))
		}
		return strings.Join(text, " ")
	}
	longer := job("b")
	longer.Timeout = durationpb.New(2 * time.Hour)
	paused := job("b")
	paused.Timeout, paused.State = longer.Timeout, clawjobpb.Job_STATE_PAUSED
	for i, c := range []struct {
		options clawjob.ApplyOptions
		jobs    []*clawjobpb.Job
		want    string
	}{
		{clawjob.ApplyOptions{DryRun: true}, []*clawjobpb.Job{job("a")}, "create[]"},
		{clawjob.ApplyOptions{}, []*clawjobpb.Job{job("a"), job("b")}, "create[] create[]"},
		{clawjob.ApplyOptions{}, []*clawjobpb.Job{job("a"), job("b")}, "unchanged[] unchanged[]"},
		{clawjob.ApplyOptions{}, []*clawjobpb.Job{longer}, "update[timeout]"},
		{clawjob.ApplyOptions{}, []*clawjobpb.Job{paused}, "update[]"},
		{clawjob.ApplyOptions{Prune: true}, []*clawjobpb.Job{paused}, "unchanged[] delete[]"},
	} {
		if got := apply(c.options, c.jobs...); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
	var left []string
	for job, err := range client.Jobs(t.Context(), clawjob.JobList{}) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, fmt.Sprint(job.GetName(), " ", job.GetState()))
	}
	if got := strings.Join(left, ","); got != "apps/demo/jobs/b STATE_PAUSED" {
		t.Errorf("left: %s", got)
	}
	revisions := 0
	for revision, err := range client.JobRevisions(t.Context(), "b") {
		if err != nil {
			t.Fatal(err)
		}
		if revisions++; revision.GetRevision() == 0 {
			t.Errorf("%v", revision)
		}
	}
	if revisions < 2 {
		t.Errorf("%d revisions", revisions)
	}
	back, err := client.RollbackJob(t.Context(), "b", 1, "")
	if err != nil || back.GetTimeout().AsDuration() != time.Hour {
		t.Errorf("%v, %v", back, err)
	}
	first, then, again := job("e"), job("f"), job("f")
	first.OnSuccess, again.OnFailure = []string{"f"}, []string{"demo/e"}
	if got := apply(clawjob.ApplyOptions{}, first, then); got != "create[] create[]" {
		t.Errorf("chained: %s", got)
	}
	if got := apply(clawjob.ApplyOptions{}, first, then); got != "unchanged[] unchanged[]" {
		t.Errorf("chained: %s", got)
	}
	if _, err := client.Apply(t.Context(), []*clawjobpb.Job{first, again}, clawjob.ApplyOptions{}); err == nil {
		t.Error("a circle was taken")
	}
	bad := job("c")
	bad.Schedules = []*clawjobpb.Schedule{{Trigger: &clawjobpb.Schedule_Cron{Cron: "61 * * * *"}}}
	var refused *clawjob.Error
	_, err = client.Apply(t.Context(), []*clawjobpb.Job{job("d"), bad}, clawjob.ApplyOptions{})
	if !errors.As(err, &refused) || len(refused.Violations) == 0 || !errors.Is(err, clawjob.CronInvalid) {
		t.Errorf("%v", err)
	}
	if _, err := client.GetJob(t.Context(), "d"); !errors.Is(err, clawjob.JobNotFound) {
		t.Errorf("d was written: %v", err)
	}
}

func TestEndToEndPastFireTimesAreMadeUpAndComingOnesForetold(t *testing.T) {
	t.Parallel()
	n := testnode.New(t)
	client := n.Client(app)
	hourly := job("echo")
	hourly.Schedules = []*clawjobpb.Schedule{{Trigger: &clawjobpb.Schedule_Cron{Cron: "30 * * * *"}}}
	if _, err := client.CreateJob(t.Context(), hourly); err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Truncate(time.Hour)
	options := clawjob.BackfillOptions{From: hour.Add(-3 * time.Hour), To: hour}
	for _, want := range []uint32{3, 0} {
		made, err := client.Backfill(t.Context(), "echo", options)
		if err != nil || made.GetRunCount() != want {
			t.Errorf("%v, %v, want %d", made, err, want)
		}
	}
	fires := 0
	from := hour.Add(time.Hour)
	for fire, err := range client.Forecast(t.Context(), "", from, from.Add(5*time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		if fires++; fire.GetJob() != "apps/demo/jobs/echo" {
			t.Errorf("%v", fire)
		}
	}
	if fires != 5 {
		t.Errorf("%d fires", fires)
	}
}
