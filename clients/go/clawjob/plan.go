package clawjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// serverFields are written by the server alone, or by calls of their own.
var serverFields = []protoreflect.Name{
	"name", "state", "etag", "revision", "create_time", "update_time", "next_fire_time", "last_run",
	"pause_until_time", "problem", "update_by",
}

func (c *Client) plan(ctx context.Context, jobs []*clawjobpb.Job, prune bool) ([]Change, error) {
	wanted, err := c.named(jobs)
	if err == nil {
		wanted, err = inOrder(wanted)
	}
	if err != nil {
		return nil, err
	}
	var changes []Change
	var errs []error
	toBeMade := map[string]bool{}
	for _, job := range wanted {
		change, err := c.compare(ctx, job, toBeMade)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", job.GetName(), err))
			continue
		}
		if change.Kind == ChangeCreate {
			toBeMade[change.Job] = true
		}
		changes = append(changes, change)
	}
	if len(errs) > 0 || !prune {
		return changes, errors.Join(errs...)
	}
	surplus, err := c.surplus(ctx, wanted)
	return append(changes, surplus...), err
}

// named are copies of the jobs under their full names.
func (c *Client) named(jobs []*clawjobpb.Job) ([]*clawjobpb.Job, error) {
	var named []*clawjobpb.Job
	var errs []error
	seen := map[string]bool{}
	for _, job := range jobs {
		full := proto.CloneOf(job)
		var err error
		if full.Name, err = c.name("jobs", job.GetName()); err == nil && seen[full.Name] {
			err = errors.New("the job is given twice")
		}
		for _, links := range [][]string{full.GetOnSuccess(), full.GetOnFailure()} {
			for i := range links {
				if err == nil {
					links[i], err = c.name("jobs", links[i])
				}
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", job.GetName(), err))
			continue
		}
		seen[full.Name] = true
		named = append(named, full)
	}
	return named, errors.Join(errs...)
}

// inOrder are the jobs so that each comes after those of them that it starts; otherwise in their
// own order.
//
// It fails with the jobs that start themselves again.
func inOrder(jobs []*clawjobpb.Job) ([]*clawjobpb.Job, error) {
	byName := map[string]*clawjobpb.Job{}
	for _, job := range jobs {
		byName[job.GetName()] = job
	}
	var ordered []*clawjobpb.Job
	var errs []error
	// A job that is begun and not done stands on the way that led here.
	begun, done := map[string]bool{}, map[string]bool{}
	var visit func(job *clawjobpb.Job)
	visit = func(job *clawjobpb.Job) {
		begun[job.GetName()] = true
		for _, name := range slices.Concat(job.GetOnSuccess(), job.GetOnFailure()) {
			follower := byName[name]
			switch {
			case follower == nil || done[name]:
			case begun[name]:
				errs = append(errs, fmt.Errorf(
					"%s: starts %s, by which it is started itself; take one link away",
					job.GetName(), name))
			default:
				visit(follower)
			}
		}
		done[job.GetName()] = true
		ordered = append(ordered, job)
	}
	for _, job := range jobs {
		if !begun[job.GetName()] {
			visit(job)
		}
	}
	return ordered, errors.Join(errs...)
}

// surplus are the jobs that are not wanted, in the apps of those that are.
func (c *Client) surplus(ctx context.Context, wanted []*clawjobpb.Job) ([]Change, error) {
	kept, apps := map[string]bool{}, map[string]bool{}
	for _, job := range wanted {
		app, _, _ := strings.Cut(job.GetName(), "/jobs/")
		kept[job.GetName()], apps[app] = true, true
	}
	var changes []Change
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		for job, err := range c.Jobs(ctx, JobList{App: app}) {
			if errors.Is(err, AppNotFound) {
				// It comes into being with its first job: so far it has none too many.
				break
			}
			if err != nil {
				return changes, err
			}
			if !kept[job.GetName()] {
				changes = append(changes,
					Change{Job: job.GetName(), Kind: ChangeDelete, etag: job.GetEtag()})
			}
		}
	}
	return changes, nil
}

// compare is what becomes of a wanted job. Links to jobs that are still to be made are kept from the
// server, which can't know them yet.
func (c *Client) compare(
	ctx context.Context,
	wanted *clawjobpb.Job,
	toBeMade map[string]bool,
) (Change, error) {
	change := Change{Job: wanted.GetName(), wanted: wanted}
	current, err := c.jobs.GetJob(ctx, &clawjobpb.GetJobRequest{Name: wanted.GetName()})
	if status.Code(err) == codes.NotFound {
		change.Kind = ChangeCreate
		_, err = c.createJob(ctx, without(wanted, toBeMade), true)
		return change, err
	}
	if err != nil {
		return change, err
	}
	change.state = stateChange(current, wanted)
	wanted.Etag, change.etag = current.GetEtag(), current.GetEtag()
	// An update leaves the state alone; calls of its own change it.
	wanted.State = current.GetState()
	// The server's answer has its defaults filled in as the current job has them: only that makes the
	// comparison fair.
	checked, err := c.updateJob(ctx, without(wanted, toBeMade), true, "*")
	if err != nil {
		return change, err
	}
	checked.OnSuccess, checked.OnFailure = wanted.GetOnSuccess(), wanted.GetOnFailure()
	change.Fields = differences(current, checked)
	change.Kind = ChangeNone
	if len(change.Fields) > 0 || change.state != 0 {
		change.Kind = ChangeUpdate
	}
	return change, nil
}

// without is the job without its links to jobs that are still to be made.
func without(job *clawjobpb.Job, toBeMade map[string]bool) *clawjobpb.Job {
	job = proto.CloneOf(job)
	made := func(name string) bool { return toBeMade[name] }
	job.OnSuccess = slices.DeleteFunc(job.GetOnSuccess(), made)
	job.OnFailure = slices.DeleteFunc(job.GetOnFailure(), made)
	return job
}

func stateChange(current, wanted *clawjobpb.Job) clawjobpb.Job_State {
	paused := current.GetState() == clawjobpb.Job_STATE_PAUSED
	switch {
	case wanted.GetState() == clawjobpb.Job_STATE_PAUSED && !paused,
		wanted.GetState() == clawjobpb.Job_STATE_ACTIVE && paused:
		return wanted.GetState()
	default:
		return 0
	}
}

// differences are the fields in which two jobs differ, but for those that the server alone writes.
func differences(a, b *clawjobpb.Job) []string {
	var differ []string
	left, right := a.ProtoReflect(), b.ProtoReflect()
	fields := left.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if slices.Contains(serverFields, field.Name()) {
			continue
		}
		if left.Has(field) != right.Has(field) || !left.Get(field).Equal(right.Get(field)) {
			differ = append(differ, string(field.Name()))
		}
	}
	return differ
}
