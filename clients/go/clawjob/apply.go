package clawjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"clawjob.dev/go/clawjobpb"
)

// ChangeKind is what becomes of one job.
type ChangeKind string

// The kinds.
const (
	// ChangeNone: the job is as wanted.
	ChangeNone ChangeKind = "unchanged"
	// ChangeCreate: the job is made.
	ChangeCreate ChangeKind = "create"
	// ChangeUpdate: fields of it are changed, or its state.
	ChangeUpdate ChangeKind = "update"
	// ChangeDelete: the job is deleted.
	ChangeDelete ChangeKind = "delete"
)

// Change is what becomes of one job.
type Change struct {
	// Job is the full name.
	Job string
	// Kind of change.
	Kind ChangeKind
	// Fields that differ, such as "timeout", for an update.
	Fields []string
	// Err is why the change was not made; nil when it was, or was not tried.
	Err error

	wanted *clawjobpb.Job
	etag   string
	state  clawjobpb.Job_State
}

// ApplyOptions are the settings of [Client.Apply].
type ApplyOptions struct {
	// DryRun only tells what would change.
	DryRun bool
	// Prune deletes the jobs that are not wanted, in the apps of the jobs that are.
	Prune bool
}

// Apply makes the jobs of the server as wanted: it creates what is missing, replaces what differs
// and, when asked to, deletes the rest. What a wanted job leaves out goes back to its default; a
// state that it leaves out stays as it is. Nothing is written unless the server finds every wanted
// job valid.
//
// It fails with all errors of jobs at once; those of the second half are in the changes, too.
func (c *Client) Apply(
	ctx context.Context,
	jobs []*clawjobpb.Job,
	options ApplyOptions,
) ([]Change, error) {
	changes, err := c.plan(ctx, jobs, options.Prune)
	if err != nil || options.DryRun {
		return changes, err
	}
	var errs []error
	for i := range changes {
		change := &changes[i]
		if change.Err = c.carryOut(ctx, change); change.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", change.Job, change.Err))
		}
	}
	return changes, errors.Join(errs...)
}

func (c *Client) carryOut(ctx context.Context, change *Change) error {
	switch change.Kind {
	case ChangeCreate:
		_, err := c.createJob(ctx, change.wanted, false)
		return err
	case ChangeDelete:
		return c.DeleteJob(ctx, change.Job, DeleteJobOptions{Etag: change.etag})
	case ChangeUpdate:
		if len(change.Fields) > 0 {
			if _, err := c.updateJob(ctx, change.wanted, false, "*"); err != nil {
				return err
			}
		}
		var err error
		switch change.state {
		case clawjobpb.Job_STATE_PAUSED:
			_, err = c.PauseJob(ctx, change.Job, "", time.Time{})
		case clawjobpb.Job_STATE_ACTIVE:
			_, err = c.ResumeJob(ctx, change.Job)
		}
		return err
	default:
		return nil
	}
}
