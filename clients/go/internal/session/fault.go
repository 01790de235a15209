package session

import (
	"fmt"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// versionUnsupported is the reason of a refusal for a protocol version that is not spoken.
const versionUnsupported = "PROTOCOL_VERSION_UNSUPPORTED"

// fault is why a dial came to nothing, or a session ended.
type fault struct {
	message string
	// permanent is set when trying again cannot help.
	permanent error
	// retryAfter is the wait that the scheduler asks for.
	retryAfter time.Duration
}

func transient(format string, args ...any) *fault {
	return &fault{message: fmt.Sprintf(format, args...)}
}

// faultOf judges the end of a call: five codes are for good, everything else may pass.
func faultOf(err error) *fault {
	said := status.Convert(err)
	reason, retryAfter := "", time.Duration(0)
	for _, detail := range said.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			reason = detail.GetReason()
		case *errdetails.RetryInfo:
			retryAfter, _ = wire.Span(detail.GetRetryDelay())
		}
	}
	hint := ""
	switch said.Code() {
	case codes.Unauthenticated:
		hint = "check CLAWJOB_TOKEN or CLAWJOB_TOKEN_FILE"
	case codes.PermissionDenied:
		hint = "the token is not for this app, executor id or handler"
	case codes.InvalidArgument:
		hint = "the settings of the executor are not accepted"
	case codes.Unimplemented:
		hint = "the address answers, but is no ClawJob scheduler"
	case codes.FailedPrecondition:
		if reason == "" || reason == versionUnsupported {
			hint = "update the executor or the scheduler"
		}
	}
	if hint == "" {
		text := fmt.Sprintf("%v: %s", said.Code(), said.Message())
		return &fault{message: text, retryAfter: retryAfter}
	}
	refused := &Refused{Code: said.Code().String(), Message: said.Message(), Hint: hint}
	return &fault{message: refused.Error(), permanent: refused}
}

// faultOfClose judges a Close frame. Errors and a peer that found this one unresponsive may pass
// whatever the frame says; the other reasons are for good unless it says otherwise.
func faultOfClose(frame *clawjobpb.Close) *fault {
	f := transient("closed by the scheduler (%v): %s", frame.GetReason(), frame.GetMessage())
	if frame.GetReconnect() {
		return f
	}
	switch frame.GetReason() {
	case clawjobpb.Close_REASON_SUPERSEDED:
		f.permanent = &Superseded{Message: frame.GetMessage()}
	case clawjobpb.Close_REASON_REVOKED:
		f.permanent = &Refused{Code: "Revoked", Message: frame.GetMessage()}
	case clawjobpb.Close_REASON_PROTOCOL:
		f.permanent = &Refused{Code: "Protocol", Message: frame.GetMessage()}
	}
	return f
}
