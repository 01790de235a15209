package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/clawjobtest"
	"clawjob.dev/go/internal/testnode"
)

func TestItMakesTheReport(t *testing.T) {
	run := clawjobtest.Run(t.Context(), nightlyReport, Report{Month: "2026-11"},
		clawjobtest.Attempt(2))
	if run.Output != "report for 2026-11 is ready" {
		t.Error(run)
	}
}

// administer is the README's use of the admin client.
func administer(ctx context.Context) error {
	client, err := clawjob.NewClient(clawjob.ClientConfig{App: "billing"})
	if err != nil {
		return err
	}
	defer client.Close()

	run, err := client.Trigger(ctx, "nightly-report", clawjob.TriggerOptions{})
	if errors.Is(err, clawjob.JobNotFound) {
		return errors.New("make the job first")
	} else if err != nil {
		return err
	}
	for record, err := range client.TailLogs(ctx, run.GetName(), clawjob.LogList{}) {
		if err != nil {
			return err
		}
		fmt.Println(record.GetRecord().GetMessage())
	}
	if run, err = client.Wait(ctx, run.GetName()); err != nil {
		return err
	}
	fmt.Println(run.GetState())

	for job, err := range client.Jobs(ctx, clawjob.JobList{Filter: "state = ACTIVE"}) {
		if err != nil {
			return err
		}
		changes, err := client.Apply(ctx, []*clawjobpb.Job{job}, clawjob.ApplyOptions{DryRun: true})
		fmt.Println(changes, err)
	}
	return nil
}

func TestEndToEndTheReadmeLeadsToAFirstRun(t *testing.T) {
	const app = "billing"
	n := testnode.New(t)
	t.Setenv("CLAWJOB_ENDPOINTS", n.URL())
	if err := administer(t.Context()); err == nil {
		t.Error("a stranger was let in")
	}
	x := clawjob.NewExecutor(clawjob.Config{
		App: app, Token: n.ExecutorToken(app), NoSignals: true, ShutdownGrace: time.Second,
	})
	clawjob.Handle(x, "nightly-report", nightlyReport)
	done := make(chan error, 1)
	go func() { done <- x.Run(context.Background()) }()
	job := &clawjobpb.Job{
		Name: "nightly-report", Handler: "nightly-report",
		Params: &clawjobpb.Payload{ContentType: "application/json", Data: []byte(`{"month":"2026-11"}`)},
	}
	if _, err := n.Client(app).CreateJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CLAWJOB_TOKEN_FILE", n.AdminTokenFile())
	if err := administer(t.Context()); err != nil {
		t.Error(err)
	}
	x.Drain()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// words are a text's, so that indentation makes no difference.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestTheReadmeShowsWhatIsTestedHere(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	here := words(read("main.go") + read("main_test.go"))
	blocks := strings.Split(read("../../README.md"), "```go\n")[1:]
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		// What needs OpenTelemetry, which this module does without.
		if !strings.HasPrefix(code, "Intercept:") && !strings.Contains(here, words(code)) {
			t.Errorf("not tested: %s", code)
		}
	}
	if len(blocks) != 4 {
		t.Errorf("%d blocks", len(blocks))
	}
}
