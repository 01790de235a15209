// Package wire builds the contract's messages: within their bounds, and with text that protobuf
// takes whatever a handler said.
package wire

import (
	"strings"
	"time"
	"unicode/utf8"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// JSON is the media type of params, outputs and checkpoints.
const JSON = "application/json"

// Failure codes that the SDK itself gives.
const (
	CodeHandlerError       = "HANDLER_ERROR"
	CodeHandlerPanic       = "HANDLER_PANIC"
	CodeUnknownHandler     = "UNKNOWN_HANDLER"
	CodeInvalidParams      = "INVALID_PARAMS"
	CodeOutputTooLarge     = "OUTPUT_TOO_LARGE"
	CodeCheckpointTooLarge = "CHECKPOINT_TOO_LARGE"
	CodeAbandoned          = "ABANDONED"
	CodeShutdown           = "SHUTDOWN"
	CodeStopped            = "STOPPED"
	CodeDisconnected       = "DISCONNECTED"
	CodeTimeout            = "TIMEOUT"
	CodeStaleAttempt       = "STALE_ATTEMPT"
)

const (
	// codeBytesMax is the longest failure code, in bytes.
	codeBytesMax = 63
	// failureMessageBytesMax is the longest failure message, in bytes.
	failureMessageBytesMax = 4 << 10
	// failureTypeBytesMax is the longest error type, in bytes.
	failureTypeBytesMax = 256
	// stackBytesMax is the longest stack, in bytes.
	stackBytesMax = 16 << 10
)

// spanMax is the longest span that is taken from a peer: longer ones are as good as for ever, and sums
// of a few of these still fit into a time.Duration.
const spanMax = 100 * 365 * 24 * time.Hour

// cutMark stands where a text was cut.
const cutMark = "\n… cut …\n"

// Failure is a failure with a code and a message, both within their bounds.
func Failure(code, message string) *clawjobpb.Failure {
	return Bound(&clawjobpb.Failure{Code: code, Message: message})
}

// Bound brings a failure's fields into their bounds, in place, and returns it.
func Bound(failure *clawjobpb.Failure) *clawjobpb.Failure {
	failure.Code = UpperSnake(failure.Code)
	failure.Message = Cut(failure.Message, failureMessageBytesMax)
	failure.Type = Cut(failure.Type, failureTypeBytesMax)
	failure.Stack = Cut(failure.Stack, stackBytesMax)
	return failure
}

// Payload is a JSON document as the contract carries it.
func Payload(data []byte) *clawjobpb.Payload {
	return &clawjobpb.Payload{ContentType: JSON, Data: data}
}

// Text makes a text valid UTF-8: protobuf refuses to send anything else.
func Text(text string) string {
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Cut keeps the two ends of a text that is longer than limit bytes.
func Cut(text string, limit int) string {
	text = Text(text)
	if len(text) <= limit {
		return text
	}
	half := max(0, (limit-len(cutMark))/2)
	head, tail := half, len(text)-half
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + cutMark + text[tail:]
}

// UpperSnake brings a failure code into UPPER_SNAKE and cuts it to 63 bytes. An empty one becomes
// HANDLER_ERROR.
func UpperSnake(code string) string {
	var out strings.Builder
	for _, c := range code {
		if out.Len() == codeBytesMax {
			break
		}
		switch {
		case c >= 'a' && c <= 'z':
			out.WriteRune(c - 'a' + 'A')
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			out.WriteRune(c)
		default:
			out.WriteByte('_')
		}
	}
	if out.Len() == 0 {
		return CodeHandlerError
	}
	return out.String()
}

// Span is the contract's duration as Go's, at most a hundred years; false for absent, negative and
// malformed ones.
func Span(span *durationpb.Duration) (time.Duration, bool) {
	if span == nil || span.CheckValid() != nil {
		return 0, false
	}
	d := min(span.AsDuration(), spanMax)
	return d, d >= 0
}

// Positive is as [Span], with zero counting as absent.
func Positive(span *durationpb.Duration) (time.Duration, bool) {
	d, ok := Span(span)
	return d, ok && d > 0
}
