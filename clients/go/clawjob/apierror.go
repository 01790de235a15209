package clawjob

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"clawjob.dev/go/internal/wire"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Reason is the server's stable name for what is wrong. It can be asked for with errors.Is:
//
//	if errors.Is(err, clawjob.JobNotFound) { … }
//
// A server may give reasons that are not among the constants.
type Reason string

// The reasons that programs act on.
const (
	// JobNotFound: there is no such job.
	JobNotFound = Reason("JOB_NOT_FOUND")
	// JobExists: the job's id is taken.
	JobExists = Reason("JOB_EXISTS")
	// RunNotFound: there is no such run.
	RunNotFound = Reason("RUN_NOT_FOUND")
	// RunNotEnded: the run must end first.
	RunNotEnded = Reason("RUN_NOT_ENDED")
	// AppNotFound: there is no such app.
	AppNotFound = Reason("APP_NOT_FOUND")
	// ExecutorNotFound: there is no such executor.
	ExecutorNotFound = Reason("EXECUTOR_NOT_FOUND")
	// EtagMismatch: somebody else has changed the thing meanwhile.
	EtagMismatch = Reason("ETAG_MISMATCH")
	// FieldInvalid: a field of the request is wrong; see [Error.Violations].
	FieldInvalid = Reason("FIELD_INVALID")
	// CronInvalid: a cron expression cannot be read.
	CronInvalid = Reason("CRON_INVALID")
	// ParamsTooLarge: params are larger than the server takes.
	ParamsTooLarge = Reason("PARAMS_TOO_LARGE")
	// FilterInvalid: a filter cannot be read.
	FilterInvalid = Reason("FILTER_INVALID")
	// RequestIDReused: the request id was used for another request.
	RequestIDReused = Reason("REQUEST_ID_REUSED")
	// RoleMissing: the token has not got the role that the call needs.
	RoleMissing = Reason("ROLE_MISSING")
	// TokenInvalid: the token is none of the server's.
	TokenInvalid = Reason("TOKEN_INVALID")
	// TokenExpired: the token's time is over.
	TokenExpired = Reason("TOKEN_EXPIRED")
	// TokenRevoked: the token was revoked.
	TokenRevoked = Reason("TOKEN_REVOKED")
	// NotImplemented: the server does not do this yet.
	NotImplemented = Reason("NOT_IMPLEMENTED")
	// StorageDown: the server's database is out of reach.
	StorageDown = Reason("STORAGE_DOWN")
)

// Error is the reason itself.
func (r Reason) Error() string { return string(r) }

// Violation is one fault of a request.
type Violation struct {
	// Field is a path such as job.schedules[0].cron, or the state that forbids it.
	Field string
	// Description says the fault and the remedy.
	Description string
}

// Error is what the server, or the connection to it, says of a call.
type Error struct {
	// Code of gRPC.
	Code codes.Code
	// Reason is empty for errors of the connection.
	Reason Reason
	// Message is the server's text.
	Message string
	// Violations has all faults of the request at once.
	Violations []Violation
	// Resource is the name of the thing that is missing or taken.
	Resource string
	// RetryAfter is the wait that the server asks for; 0 when it asks for none.
	RetryAfter time.Duration
	// RequestID finds the call in the server's log.
	RequestID string
	// Metadata says more about the reason.
	Metadata map[string]string

	status *status.Status
}

// Error is the message with all violations.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "clawjob: %v", e.Code)
	if e.Reason != "" {
		fmt.Fprintf(&text, " (%s)", e.Reason)
	}
	fmt.Fprintf(&text, ": %s", e.Message)
	for _, violation := range e.Violations {
		if strings.Contains(e.Message, violation.Description) {
			continue
		}
		fmt.Fprintf(&text, "; %s: %s", violation.Field, violation.Description)
	}
	return text.String()
}

// Is compares with a [Reason], and with the context's errors, which a call may end with in gRPC's
// form.
func (e *Error) Is(target error) bool {
	switch {
	case e.Code == codes.DeadlineExceeded && target == context.DeadlineExceeded,
		e.Code == codes.Canceled && target == context.Canceled:
		return true
	}
	reason, ok := target.(Reason)
	return ok && reason == e.Reason
}

// GRPCStatus is the status that was received; status.Code and status.Convert find it.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// errorOf turns the end of a call into an [*Error]; errors of our own stay as they are.
func errorOf(err error) error {
	said, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	e := &Error{Code: said.Code(), Message: said.Message(), status: said}
	for _, detail := range said.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason, e.Metadata = Reason(detail.GetReason()), detail.GetMetadata()
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				e.Violations = append(e.Violations,
					Violation{violation.GetField(), violation.GetDescription()})
			}
		case *errdetails.PreconditionFailure:
			for _, violation := range detail.GetViolations() {
				e.Violations = append(e.Violations,
					Violation{violation.GetType(), violation.GetDescription()})
			}
		case *errdetails.ResourceInfo:
			e.Resource = detail.GetResourceName()
		case *errdetails.RetryInfo:
			e.RetryAfter, _ = wire.Span(detail.GetRetryDelay())
		case *errdetails.RequestInfo:
			e.RequestID = detail.GetRequestId()
		}
	}
	return e
}

// retryAfterOf is the wait that a status asks for; 0 when it asks for none.
func retryAfterOf(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			wait, _ := wire.Span(info.GetRetryDelay())
			return wait
		}
	}
	return 0
}

// giveRequestID sets the request id of a request that takes one and has none. It is false when the
// request takes none.
func giveRequestID(request any) bool {
	message, ok := request.(proto.Message)
	if !ok {
		return false
	}
	fields := message.ProtoReflect()
	id := fields.Descriptor().Fields().ByName("request_id")
	if id == nil || id.Kind() != protoreflect.StringKind {
		return false
	}
	if fields.Get(id).String() == "" {
		fields.Set(id, protoreflect.ValueOfString(rand.Text()))
	}
	return true
}
