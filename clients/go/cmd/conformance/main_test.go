package main

import (
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/clawjobtest"
)

func TestTheFixedHandlersDoWhatTheRunnerExpects(t *testing.T) {
	if got := clawjobtest.Run(t.Context(), fail, nil); got.Failure == nil ||
		got.Failure.Message != "the bank is closed" || got.Stack != "caused by: it is Sunday\n" {
		t.Errorf("fail: %+v", got)
	}
	params := map[string]any{"code": "NO", "retry_after_ms": 9, "non_retryable": true}
	if got := clawjobtest.Run(t.Context(), fail, params).Failure; got.Code != "NO" ||
		got.RetryAfter != 9*time.Millisecond || !got.NonRetryable {
		t.Errorf("fail: %+v", got)
	}
	if got := clawjobtest.Run(t.Context(), sleep, millis{1}).Output; got != "slept" {
		t.Errorf("sleep: %s", got)
	}
	if got := clawjobtest.Run(t.Context(), bigOutput, size{10}).Output; len(got) != 8 {
		t.Errorf("big_output: %s", got)
	}
	logged := clawjobtest.Run(t.Context(), logs, lines{Count: 2, Bytes: 20})
	if len(logged.Logs) != 2 || len(logged.Logs[1].GetMessage()) != 20 {
		t.Errorf("logs: %v", logged.Logs)
	}
	if got := clawjobtest.Run(t.Context(), checkpoint, nil, clawjobtest.Checkpoint(32)); got.Output != 32 {
		t.Errorf("checkpoint: %+v", got)
	}
	now := make(chan struct{})
	close(now)
	told := clawjobtest.Run(t.Context(), progress, count{3}, clawjobtest.StopWhen(now, clawjob.StopUser))
	if told.Outcome != clawjobpb.Outcome_OUTCOME_CANCELED {
		t.Errorf("progress: %+v", told)
	}
	known := clawjobtest.Run(t.Context(), tell, nil, clawjobtest.Shard(1, 3), clawjobtest.Attempt(2))
	if known.Output.ShardTotal != 3 || known.Output.Attempt != 2 {
		t.Errorf("context: %+v", known.Output)
	}
}

func TestSettingsAreScaled(t *testing.T) {
	env := map[string]string{"CLAWJOB_CONFORMANCE_SCALE": "0.5", "CLAWJOB_CONFORMANCE_SLOTS": "7"}
	config, err := settings(func(name string) string { return env[name] })
	if err != nil || config.Slots != 7 || config.Reconnect.Cap != 15*time.Second {
		t.Errorf("%+v, %v", config, err)
	}
	env["CLAWJOB_CONFORMANCE_SCALE"] = "much"
	if _, err := settings(func(name string) string { return env[name] }); err == nil {
		t.Error("no number is a scale")
	}
}
