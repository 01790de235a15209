// The program that a black-box runner drives: fixed handlers, settings from the environment.
//
// Beside what every executor takes (CLAWJOB_ENDPOINTS, CLAWJOB_TOKEN or CLAWJOB_TOKEN_FILE,
// CLAWJOB_APP, CLAWJOB_EXECUTOR_ID, CLAWJOB_CA_FILE) it reads
//
//	CLAWJOB_CONFORMANCE_SCALE        what waits are multiplied by; 0.1
//	CLAWJOB_CONFORMANCE_SLOTS        4
//	CLAWJOB_CONFORMANCE_CLIENT_CERT  PEM of a client certificate, with
//	CLAWJOB_CONFORMANCE_CLIENT_KEY   its key
//
// It announces the label zone=a. SIGUSR1 pauses the handler echo, SIGUSR2 resumes it. It exits with 0
// after a drain, with 1 and the error on standard error when the scheduler refuses it.
//
//	echo        anything                                              returns them
//	fail        {code?, message?, non_retryable?, retry_after_ms?}    fails
//	panic                                                             panics: "out of cheese"
//	sleep       {ms}                                                  sleeps, ends at once when told to
//	spin        {ms}                                                  works, deaf to being told to stop
//	block       {ms}                                                  blocks, deaf to being told to stop
//	logs        {count, bytes?}                                       writes records "line N"
//	big_output  {bytes}                                               returns so many bytes
//	progress    {count}                                               tells "step N", then waits
//	checkpoint                                                        returns the earlier one, saves +10
//	context                                                           returns what it knows of its run
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"clawjob.dev/go/clawjob"
)

func main() {
	slog.SetDefault(slog.New(clawjob.LogHandler(slog.NewTextHandler(os.Stderr, nil), nil)))
	config, err := settings(os.Getenv)
	if err == nil {
		x := clawjob.NewExecutor(config)
		offer(x)
		watchPauses(x)
		err = x.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func settings(getenv func(string) string) (clawjob.Config, error) {
	slots, scale := 4, 0.1
	var err error
	if text := getenv("CLAWJOB_CONFORMANCE_SLOTS"); text != "" {
		if slots, err = strconv.Atoi(text); err != nil {
			return clawjob.Config{}, fmt.Errorf("CLAWJOB_CONFORMANCE_SLOTS: %w", err)
		}
	}
	if text := getenv("CLAWJOB_CONFORMANCE_SCALE"); text != "" {
		if scale, err = strconv.ParseFloat(text, 64); err != nil {
			return clawjob.Config{}, fmt.Errorf("CLAWJOB_CONFORMANCE_SCALE: %w", err)
		}
	}
	scaled := func(span time.Duration) time.Duration { return time.Duration(float64(span) * scale) }
	config := clawjob.Config{
		Slots:         slots,
		Labels:        map[string]string{"zone": "a"},
		ShutdownGrace: scaled(25 * time.Second),
		Reconnect: clawjob.Reconnect{
			First: scaled(2 * time.Second), Base: scaled(500 * time.Millisecond),
			Cap: scaled(30 * time.Second), HealthyAfter: scaled(60 * time.Second),
		},
	}
	if certificate := getenv("CLAWJOB_CONFORMANCE_CLIENT_CERT"); certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, getenv("CLAWJOB_CONFORMANCE_CLIENT_KEY"))
		if err != nil {
			return clawjob.Config{}, fmt.Errorf("CLAWJOB_CONFORMANCE_CLIENT_CERT: %w", err)
		}
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	}
	return config, nil
}
