package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"clawjob.dev/go/clawjob"
)

type millis struct {
	Ms int64 `json:"ms" default:"0" min:"0"`
}

type size struct {
	Bytes int `json:"bytes" min:"0"`
}

type lines struct {
	Count int `json:"count" min:"0"`
	Bytes int `json:"bytes" default:"0" min:"0"`
}

type count struct {
	Count int `json:"count" min:"0"`
}

// fault is how `fail` fails.
type fault struct {
	Code         string `json:"code,omitempty"`
	Message      string `json:"message" default:"the bank is closed"`
	NonRetryable bool   `json:"non_retryable,omitempty"`
	RetryAfterMs int64  `json:"retry_after_ms,omitempty" min:"0"`
}

// bankClosedError is what `fail` returns without a code.
type bankClosedError struct {
	text string
	why  error
}

func (e *bankClosedError) Error() string { return e.text }
func (e *bankClosedError) Unwrap() error { return e.why }

// known is what `context` returns.
type known struct {
	RunID       string            `json:"run_id"`
	Run         string            `json:"run"`
	Job         string            `json:"job"`
	Attempt     int               `json:"attempt"`
	MaxAttempts int               `json:"max_attempts"`
	FireTime    time.Time         `json:"fire_time"`
	LatenessMs  int64             `json:"lateness_ms"`
	CatchUp     bool              `json:"catch_up"`
	Labels      map[string]string `json:"labels"`
	ShardIndex  int               `json:"shard_index"`
	ShardTotal  int               `json:"shard_total"`
	TraceParent string            `json:"traceparent"`
	TraceState  string            `json:"tracestate"`
}

func offer(x *clawjob.Executor) {
	clawjob.Handle(x, "echo", echo)
	clawjob.Handle(x, "fail", fail)
	clawjob.Handle(x, "panic", panics)
	clawjob.Handle(x, "sleep", sleep)
	clawjob.Handle(x, "spin", spin)
	clawjob.Handle(x, "block", block)
	clawjob.Handle(x, "logs", logs)
	clawjob.Handle(x, "big_output", bigOutput)
	clawjob.Handle(x, "progress", progress)
	clawjob.Handle(x, "checkpoint", checkpoint)
	clawjob.Handle(x, "context", tell)
}

func echo(_ context.Context, params json.RawMessage) (json.RawMessage, error) { return params, nil }

func fail(_ context.Context, p fault) (clawjob.None, error) {
	if p.Code == "" && !p.NonRetryable && p.RetryAfterMs == 0 {
		return clawjob.None{}, &bankClosedError{p.Message, errors.New("it is Sunday")}
	}
	return clawjob.None{}, &clawjob.Failure{
		Code: p.Code, Message: p.Message, NonRetryable: p.NonRetryable,
		RetryAfter: time.Duration(p.RetryAfterMs) * time.Millisecond,
	}
}

func panics(context.Context, clawjob.None) (clawjob.None, error) { panic("out of cheese") }

// sleep ends after its time, or as soon as it is told to.
func sleep(ctx context.Context, p millis) (string, error) {
	select {
	case <-time.After(time.Duration(p.Ms) * time.Millisecond):
		return "slept", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// spin uses the processor, deaf to being told to stop.
func spin(_ context.Context, p millis) (string, error) {
	for end := time.Now().Add(time.Duration(p.Ms) * time.Millisecond); time.Now().Before(end); {
	}
	return "spun", nil
}

// block waits, deaf to being told to stop.
func block(_ context.Context, p millis) (string, error) {
	time.Sleep(time.Duration(p.Ms) * time.Millisecond)
	return "blocked", nil
}

func logs(ctx context.Context, p lines) (clawjob.None, error) {
	run := clawjob.FromContext(ctx)
	for i := range p.Count {
		run.Log(slog.LevelInfo, fmt.Sprintf("%-*s", p.Bytes, fmt.Sprint("line ", i+1)))
	}
	return clawjob.None{}, nil
}

func bigOutput(_ context.Context, p size) (string, error) {
	// The quotes count, too.
	return strings.Repeat("x", max(0, p.Bytes-2)), nil
}

// progress tells its progress count times, then waits until it is told to stop.
func progress(ctx context.Context, p count) (clawjob.None, error) {
	run := clawjob.FromContext(ctx)
	for i := 1; i <= p.Count; i++ {
		run.Progress(float64(i)/float64(p.Count), fmt.Sprint("step ", i))
	}
	<-ctx.Done()
	return clawjob.None{}, context.Cause(ctx)
}

// checkpoint returns the number that was saved before and saves that and ten more.
func checkpoint(ctx context.Context, _ clawjob.None) (int, error) {
	run, done := clawjob.FromContext(ctx), 0
	if _, err := run.Checkpoint(&done); err != nil {
		return 0, err
	}
	return done, run.SaveCheckpoint(done + 10)
}

// tell returns what it knows of its run.
func tell(ctx context.Context, _ clawjob.None) (known, error) {
	run := clawjob.FromContext(ctx)
	shard, _ := run.Shard()
	return known{
		RunID: run.ID(), Run: run.Name(), Job: run.Job(),
		Attempt: run.Attempt(), MaxAttempts: run.MaxAttempts(),
		FireTime: run.FireTime(), LatenessMs: run.Lateness().Milliseconds(), CatchUp: run.CatchUp(),
		Labels: run.Labels(), ShardIndex: shard.Index, ShardTotal: shard.Total,
		TraceParent: run.TraceParent(), TraceState: run.TraceState(),
	}, nil
}
