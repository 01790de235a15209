// Package clawjob is the Go SDK of ClawJob: executors, and a client for jobs and runs.
//
// An executor is a program that offers named handlers to one app. It dials the scheduler, keeps one
// session open and runs what it is sent; it listens on no port.
//
//	type Report struct {
//		Month string `json:"month" doc:"Which month, such as 2026-11."`
//	}
//
//	func nightlyReport(ctx context.Context, params Report) (string, error) {
//		slog.InfoContext(ctx, "making the report", "month", params.Month)
//		return "report for " + params.Month + " is ready", nil
//	}
//
//	func main() {
//		slog.SetDefault(slog.New(clawjob.LogHandler(slog.NewTextHandler(os.Stderr, nil), nil)))
//		x := clawjob.NewExecutor(clawjob.Config{App: "billing"})
//		clawjob.Handle(x, "nightly-report", nightlyReport)
//		if err := x.Run(context.Background()); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// Where things are: [Executor] holds the settings and runs, [FromContext] gives a handler what it
// knows of its run, [Failure] is how it fails with a code of its own, [LogHandler] brings log/slog
// records into the run's log, and package clawjobtest runs a handler without a scheduler. [Client]
// is the other side: jobs, runs, logs.
package clawjob
