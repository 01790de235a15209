// The README's first program.
//
//	CLAWJOB_APP=billing CLAWJOB_TOKEN_FILE=billing.token go run ./examples/first
package main

import (
	"context"
	"log"
	"log/slog"
	"os"

	"clawjob.dev/go/clawjob"
)

type Report struct {
	Month string `json:"month" doc:"Which month, such as 2026-11."`
}

func nightlyReport(ctx context.Context, params Report) (string, error) {
	slog.InfoContext(ctx, "making the report", "month", params.Month)
	return "report for " + params.Month + " is ready", nil
}

func main() {
	// What a handler says through slog goes to the terminal and into its run's log.
	slog.SetDefault(slog.New(clawjob.LogHandler(slog.NewTextHandler(os.Stderr, nil), nil)))
	x := clawjob.NewExecutor(clawjob.Config{Slots: 8})
	clawjob.Handle(x, "nightly-report", nightlyReport)
	if err := x.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
