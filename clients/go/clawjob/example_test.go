package clawjob_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"

	"clawjob.dev/go/clawjob"
)

// Report is what a job asks for.
type Report struct {
	Month string `json:"month" doc:"Which month, such as 2026-11."`
}

func nightlyReport(ctx context.Context, params Report) (string, error) {
	slog.InfoContext(ctx, "making the report", "month", params.Month)
	return "report for " + params.Month + " is ready", nil
}

// A whole executor.
func Example() {
	slog.SetDefault(slog.New(clawjob.LogHandler(slog.NewTextHandler(os.Stderr, nil), nil)))
	x := clawjob.NewExecutor(clawjob.Config{Slots: 8})
	clawjob.Handle(x, "nightly-report", nightlyReport)
	if err := x.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// A liveness page beside the executor.
func ExampleExecutor_HealthHandler() {
	x := clawjob.NewExecutor(clawjob.Config{})
	clawjob.Handle(x, "nightly-report", nightlyReport)
	http.Handle("/healthz", x.HealthHandler())
	go func() { log.Println(http.ListenAndServe(":8080", nil)) }()
	log.Println(x.Run(context.Background()))
}

// A run from its start to its end.
func ExampleClient() {
	ctx := context.Background()
	client, err := clawjob.NewClient(clawjob.ClientConfig{App: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	run, err := client.Trigger(ctx, "nightly-report", clawjob.TriggerOptions{
		Params: Report{Month: "2026-11"},
	})
	if errors.Is(err, clawjob.JobNotFound) {
		log.Fatal("make the job first")
	} else if err != nil {
		log.Fatal(err)
	}
	for record, err := range client.TailLogs(ctx, run.GetName(), clawjob.LogList{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(record.GetRecord().GetMessage())
	}
	run, err = client.Wait(ctx, run.GetName())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.GetState())
}
