// The nightly report: an executor whose one handler tells its progress, goes on from its checkpoint
// after a failure, stops when it is told to, and says when another attempt cannot help.
//
//	CLAWJOB_APP=billing CLAWJOB_TOKEN_FILE=billing.token go run ./examples/nightly-report
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"clawjob.dev/go/clawjob"
)

// Report is what a job asks for.
type Report struct {
	Month string `json:"month" doc:"Which month, such as 2026-11."`
	Rows  int    `json:"rows,omitempty" doc:"How many rows it has." default:"1000" min:"0"`
	// BreaksAt shows what a retry does.
	BreaksAt int `json:"breaks_at,omitempty" doc:"The source breaks down once, at this row."`
	PauseMs  int `json:"pause_ms,omitempty" doc:"How long each hundred rows take." min:"0"`
}

// Summary is what a run leaves behind.
type Summary struct {
	Month string `json:"month"`
	Rows  int    `json:"rows"`
}

// batch is how many rows are read between two checkpoints.
const batch = 100

func nightlyReport(ctx context.Context, params Report) (Summary, error) {
	run := clawjob.FromContext(ctx)
	if params.Rows == 0 {
		return Summary{}, &clawjob.Failure{
			Code: "NO_ROWS", Message: "there is nothing to report", NonRetryable: true,
		}
	}
	done := 0
	if _, err := run.Checkpoint(&done); err != nil {
		return Summary{}, err
	}
	slog.InfoContext(ctx, "making the report",
		"month", params.Month, "attempt", run.Attempt(), "done", done)
	for done < params.Rows {
		next := min(done+batch, params.Rows)
		if err := read(ctx, run, params, done, next); err != nil {
			return Summary{}, err
		}
		done = next
		if err := run.SaveCheckpoint(done); err != nil {
			return Summary{}, err
		}
		run.Progress(float64(done)/float64(params.Rows), fmt.Sprintf("%d rows", done))
	}
	slog.InfoContext(ctx, "the report is ready", "rows", done)
	return Summary{Month: params.Month, Rows: done}, nil
}

// read stands for the work on the rows from first to last.
func read(ctx context.Context, run *clawjob.Run, params Report, first, last int) error {
	if run.Attempt() == 1 && params.BreaksAt > first && params.BreaksAt <= last {
		return &clawjob.Failure{
			Code: "SOURCE_DOWN", Message: fmt.Sprintf("row %d: the source broke down", params.BreaksAt),
			RetryAfter: time.Second,
		}
	}
	select {
	case <-time.After(time.Duration(params.PauseMs) * time.Millisecond):
		return nil
	case <-ctx.Done():
		// Canceled, timed out, or the executor ends: the cause says which.
		return context.Cause(ctx)
	}
}

// executor is what this program runs.
func executor(config clawjob.Config) *clawjob.Executor {
	x := clawjob.NewExecutor(config)
	clawjob.Handle(x, "nightly-report", nightlyReport,
		clawjob.MaxConcurrency(2), clawjob.Description("Makes the report of a month."))
	return x
}

func main() {
	slog.SetDefault(slog.New(clawjob.LogHandler(slog.NewTextHandler(os.Stderr, nil), nil)))
	x := executor(clawjob.Config{Slots: 4})
	if err := x.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
