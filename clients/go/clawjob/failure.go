package clawjob

import (
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Failure codes that the SDK itself gives.
const (
	// CodeHandlerError: a handler returned an error that carries no code of its own.
	CodeHandlerError = wire.CodeHandlerError
	// CodeHandlerPanic: a handler panicked; the process lives on.
	CodeHandlerPanic = wire.CodeHandlerPanic
	// CodeUnknownHandler: a command named a handler that this executor does not offer.
	CodeUnknownHandler = wire.CodeUnknownHandler
	// CodeInvalidParams: the params do not fit the handler's type.
	CodeInvalidParams = wire.CodeInvalidParams
	// CodeOutputTooLarge: the output is larger than the scheduler takes.
	CodeOutputTooLarge = wire.CodeOutputTooLarge
	// CodeCheckpointTooLarge: a checkpoint is larger than the scheduler takes.
	CodeCheckpointTooLarge = wire.CodeCheckpointTooLarge
	// CodeAbandoned: the handler did not return in time after it was told to stop.
	CodeAbandoned = wire.CodeAbandoned
	// CodeShutdown: the executor shut down before the handler was done; no attempt is used up.
	CodeShutdown = wire.CodeShutdown
	// CodeStopped: the handler was told to stop.
	CodeStopped = wire.CodeStopped
	// CodeDisconnected: contact with the scheduler was lost, and the job asks for a stop then.
	CodeDisconnected = wire.CodeDisconnected
	// CodeTimeout: the timeout of the run passed.
	CodeTimeout = wire.CodeTimeout
	// CodeStaleAttempt: a later attempt of the same run is known here.
	CodeStaleAttempt = wire.CodeStaleAttempt
)

// Failure is an error that says more about an attempt's end than its text. Any error fails an
// attempt: its type, its message and its chain of causes are kept. A Failure anywhere in the chain
// adds what it knows.
type Failure struct {
	// Code is a code of the handler's own in UPPER_SNAKE, at most 63 bytes; empty leaves the code of
	// the errors it wraps, else HANDLER_ERROR.
	Code string
	// Message is the text; 4 KiB are kept.
	Message string
	// Err is the error behind it; may be nil.
	Err error
	// NonRetryable says that another attempt cannot help: the run ends, whatever its attempts.
	NonRetryable bool
	// RetryAfter asks for this wait before the next attempt, in place of the job's backoff; 0 asks
	// for none.
	RetryAfter time.Duration
}

// NonRetryable wraps an error to say that another attempt cannot help.
func NonRetryable(err error) error { return &Failure{Err: err, NonRetryable: true} }

// RetryAfter wraps an error to ask for this wait before the next attempt.
func RetryAfter(err error, wait time.Duration) error { return &Failure{Err: err, RetryAfter: wait} }

// Error is the message and that of the error behind it.
func (f *Failure) Error() string {
	switch {
	case f.Err == nil && f.Message == "":
		return f.Code
	case f.Err == nil:
		return f.Message
	case f.Message == "":
		return f.Err.Error()
	default:
		return f.Message + ": " + f.Err.Error()
	}
}

// Unwrap is the error behind it.
func (f *Failure) Unwrap() error { return f.Err }

// Describe adds what the failure knows to its form on the wire. The SDK calls it on every error of
// a chain that has such a method, so error types of your own can carry a code, too.
func (f *Failure) Describe(failure *clawjobpb.Failure) {
	if f.Code != "" {
		failure.Code = f.Code
	}
	failure.NonRetryable = failure.NonRetryable || f.NonRetryable
	if f.RetryAfter > 0 {
		failure.RetryAfter = durationpb.New(f.RetryAfter)
	}
}
