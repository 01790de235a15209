package work

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"clawjob.dev/go/internal/wire"
)

// causesMax is how far the causes of an error are followed.
const causesMax = 64

// Intercept wraps the call of each handler: it calls next, with a context made from ctx.
type Intercept func(ctx context.Context, next func(context.Context) error) error

// Described is an error that says itself how it is to be reported.
type Described interface {
	error
	// Describe fills in what the error knows: code, non_retryable, retry_after.
	Describe(failure *clawjobpb.Failure)
}

// Execute runs a handler in the calling goroutine and tells its end to done, in whichever way the
// handler ends: by returning, by a panic, or by runtime.Goexit, after which Execute does not return.
func Execute(call Call, attempt *Attempt, intercept Intercept, done func(engine.Ending)) {
	var output *clawjobpb.Payload
	var err error
	returned := false
	defer func() {
		switch recovered := recover(); {
		case !returned:
			done(panicked(recovered))
		case err != nil:
			done(engine.Ending{Failure: FailureOf(err)})
		default:
			done(engine.Ending{Output: output})
		}
	}()
	run := func(ctx context.Context) (err error) {
		output, err = call(ctx)
		return err
	}
	if intercept == nil {
		err = run(attempt.Context())
	} else {
		err = intercept(attempt.Context(), run)
	}
	returned = true
}

// panicked is the end by a panic with this value; a nil one means runtime.Goexit.
func panicked(value any) engine.Ending {
	message := fmt.Sprint(value)
	if value == nil {
		message = "the handler's goroutine ended without returning"
	}
	kind := ""
	if err, ok := value.(error); ok {
		kind = reflect.TypeOf(err).String()
	}
	failure := wire.Bound(&clawjobpb.Failure{
		Code:    wire.CodeHandlerPanic,
		Message: message,
		Type:    kind,
		Stack:   string(debug.Stack()),
	})
	return engine.Ending{Failure: failure, Panicked: true}
}

// FailureOf is an error as the contract says it: its message, its type, the chain of its causes, and
// what an error of the SDK among them adds. An error whose methods panic is told as that.
func FailureOf(err error) (failure *clawjobpb.Failure) {
	defer func() {
		if recovered := recover(); recovered != nil {
			text := fmt.Sprintf("the handler's error cannot be read: %v", recovered)
			failure = wire.Failure(wire.CodeHandlerError, text)
		}
	}()
	failure = &clawjobpb.Failure{
		Code:    wire.CodeHandlerError,
		Message: err.Error(),
		Type:    typeOf(err),
		Stack:   causes(err),
	}
	describe(err, failure, 0)
	return wire.Bound(failure)
}

// describe lets every error of the chain add what it knows, the outermost last.
func describe(err error, failure *clawjobpb.Failure, depth int) {
	if depth == causesMax {
		return
	}
	switch wrapping := err.(type) {
	case interface{ Unwrap() error }:
		if cause := wrapping.Unwrap(); cause != nil {
			describe(cause, failure, depth+1)
		}
	case interface{ Unwrap() []error }:
		for _, cause := range wrapping.Unwrap() {
			describe(cause, failure, depth+1)
		}
	}
	if described, ok := err.(Described); ok {
		described.Describe(failure)
	}
}

// typeOf is the type of the first error in the chain that is more than a text around another one.
func typeOf(err error) string {
	for cause, steps := err, 0; cause != nil && steps < causesMax; steps++ {
		name := reflect.TypeOf(cause).String()
		_, described := cause.(Described)
		if !described && !strings.HasPrefix(name, "*fmt.") && !strings.HasPrefix(name, "*errors.") {
			return name
		}
		cause = errors.Unwrap(cause)
	}
	return ""
}

func causes(err error) string {
	var stack strings.Builder
	cause := errors.Unwrap(err)
	for steps := 0; cause != nil && steps < causesMax; steps++ {
		fmt.Fprintf(&stack, "caused by: %v\n", cause)
		cause = errors.Unwrap(cause)
	}
	return stack.String()
}
