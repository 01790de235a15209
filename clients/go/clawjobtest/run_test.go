package clawjobtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/clawjobtest"
)

type params struct {
	Name string `json:"name"`
}

func greet(ctx context.Context, p params) (string, error) {
	run := clawjob.FromContext(ctx)
	share, _ := run.Shard()
	run.Log(slog.LevelInfo, "greeting "+p.Name, "shard", share.Index)
	run.Progress(0.25, "greeted")
	return "Hello, " + p.Name + "!", run.SaveCheckpoint(run.Attempt())
}

func obedient(ctx context.Context, _ clawjob.None) (clawjob.None, error) {
	<-ctx.Done()
	return clawjob.None{}, context.Cause(ctx)
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestOutputLogProgressAndCheckpointAreSeen(t *testing.T) {
	run := clawjobtest.Run(t.Context(), greet, params{"Ada"}, clawjobtest.Attempt(3),
		clawjobtest.Shard(1, 4))
	if run.Outcome != clawjobpb.Outcome_OUTCOME_SUCCEEDED || run.Output != "Hello, Ada!" ||
		run.Progress != 0.25 || run.ProgressMessage != "greeted" {
		t.Errorf("%+v", run)
	}
	if !run.Logged("greeting Ada") || run.Logs[0].GetFields()["shard"] != "1" {
		t.Errorf("%v", run.Logs)
	}
	var saved int
	if ok, err := run.Checkpoint(&saved); !ok || err != nil || saved != 3 {
		t.Errorf("%d, %v, %v", saved, ok, err)
	}
}

func TestParamsThatDoNotFitAreRefused(t *testing.T) {
	run := clawjobtest.Run(t.Context(), greet, map[string]int{"name": 1})
	if run.Failure == nil || run.Failure.Code != clawjob.CodeInvalidParams {
		t.Errorf("%+v", run)
	}
}

func TestAChainedRunSeesWhatStartedIt(t *testing.T) {
	follow := func(ctx context.Context, _ clawjob.None) (string, error) {
		run, total := clawjob.FromContext(ctx), 0
		_, err := run.CausedByOutput(&total)
		return fmt.Sprint(run.CausedBy(), " ", total), err
	}
	const before = "apps/test/runs/01J"
	run := clawjobtest.Run(t.Context(), follow, nil, clawjobtest.CausedBy(before, 7))
	if run.Output != before+" 7" {
		t.Errorf("%+v", run)
	}
	if run = clawjobtest.Run(t.Context(), follow, nil); run.Output != " 0" {
		t.Errorf("%+v", run)
	}
	run = clawjobtest.Run(t.Context(), follow, nil, clawjobtest.CausedBy(before, "seven"))
	if run.Failure == nil {
		t.Errorf("%+v", run)
	}
}

func TestTimeoutsAndStopsAreAsWithAScheduler(t *testing.T) {
	const short = 20 * time.Millisecond
	release := make(chan struct{})
	defer close(release)
	deaf := func(context.Context, clawjob.None) (clawjob.None, error) {
		<-release
		return clawjob.None{}, nil
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		result *clawjobtest.Result[clawjob.None]
		want   string
	}{
		"timeout": {clawjobtest.Run(t.Context(), obedient, nil, clawjobtest.Timeout(short)), "TIMED_OUT TIMEOUT"},
		"stop": {clawjobtest.Run(t.Context(), obedient, nil,
			clawjobtest.StopWhen(closed(), clawjob.StopShutdown)), "CANCELED SHUTDOWN"},
		"deaf": {clawjobtest.Run(t.Context(), deaf, nil, clawjobtest.KillGrace(short),
			clawjobtest.StopWhen(closed(), clawjob.StopUser)), "CANCELED ABANDONED"},
		"context": {clawjobtest.Run(canceled, obedient, nil), "CANCELED STOPPED"},
	} {
		got := strings.TrimPrefix(c.result.Outcome.String(), "OUTCOME_") + " " + c.result.Failure.Code
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
