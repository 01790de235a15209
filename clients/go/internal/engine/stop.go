package engine

import (
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
)

// StopReason is why a handler is told to stop. Zero means that it is not.
type StopReason int

const (
	// StopUser: somebody canceled the run.
	StopUser StopReason = iota + 1
	// StopTimeout: the run's timeout has passed.
	StopTimeout
	// StopStaleAttempt: a later attempt of the run took over.
	StopStaleAttempt
	// StopReplaced: a newer run of the job takes its place.
	StopReplaced
	// StopJobDeleted: the job was deleted.
	StopJobDeleted
	// StopNodePolicy: the scheduler's node asks for it.
	StopNodePolicy
	// StopShutdown: this executor shuts down.
	StopShutdown
	// StopDisconnected: contact with the scheduler is lost and the job asks for a stop then.
	StopDisconnected
)

// reasonOf reads the contract's reason; one that this build does not know counts as StopUser.
func reasonOf(reason clawjobpb.KillReason) StopReason {
	switch reason {
	case clawjobpb.KillReason_KILL_REASON_TIMEOUT:
		return StopTimeout
	case clawjobpb.KillReason_KILL_REASON_STALE_ATTEMPT:
		return StopStaleAttempt
	case clawjobpb.KillReason_KILL_REASON_REPLACED:
		return StopReplaced
	case clawjobpb.KillReason_KILL_REASON_JOB_DELETED:
		return StopJobDeleted
	case clawjobpb.KillReason_KILL_REASON_NODE_POLICY:
		return StopNodePolicy
	default:
		return StopUser
	}
}

// String says the reason in words.
func (r StopReason) String() string {
	switch r {
	case 0:
		return "it was not told to stop"
	case StopTimeout:
		return "the run's timeout passed"
	case StopStaleAttempt:
		return "a later attempt took over"
	case StopReplaced:
		return "a newer run takes its place"
	case StopJobDeleted:
		return "the job was deleted"
	case StopNodePolicy:
		return "the scheduler's node asked for it"
	case StopShutdown:
		return "the executor shuts down"
	case StopDisconnected:
		return "contact with the scheduler was lost"
	default:
		return "the run was canceled"
	}
}

// Code is the failure code of an attempt that was stopped for this reason.
func (r StopReason) Code() string {
	switch r {
	case StopTimeout:
		return wire.CodeTimeout
	case StopShutdown:
		return wire.CodeShutdown
	case StopDisconnected:
		return wire.CodeDisconnected
	default:
		return wire.CodeStopped
	}
}

// outcome of an attempt that stopped for this reason. One that was stopped for loss of contact has
// failed rather than been canceled: nobody asked for its end, and another attempt may serve it.
func (r StopReason) outcome() clawjobpb.Outcome {
	switch r {
	case StopTimeout:
		return clawjobpb.Outcome_OUTCOME_TIMED_OUT
	case StopDisconnected:
		return clawjobpb.Outcome_OUTCOME_FAILED
	default:
		return clawjobpb.Outcome_OUTCOME_CANCELED
	}
}
