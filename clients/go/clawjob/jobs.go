package clawjob

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Params is a value as JSON, for jobs' params and the like.
func Params(value any) (*clawjobpb.Payload, error) {
	if value == nil {
		return nil, nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("the params are no JSON: %w", err)
	}
	return wire.Payload(data), nil
}

// CreateJob makes a job; job.Name says where, see [Client] for names.
//
// It fails with [JobExists] when the id is taken.
func (c *Client) CreateJob(ctx context.Context, job *clawjobpb.Job) (*clawjobpb.Job, error) {
	return c.createJob(ctx, job, false)
}

func (c *Client) createJob(
	ctx context.Context,
	job *clawjobpb.Job,
	only bool,
) (*clawjobpb.Job, error) {
	name, err := c.name("jobs", job.GetName())
	if err != nil {
		return nil, err
	}
	parent, id, _ := strings.Cut(name, "/jobs/")
	job = proto.CloneOf(job)
	job.Name = name
	return c.jobs.CreateJob(ctx, &clawjobpb.CreateJobRequest{
		Parent: parent, JobId: id, Job: job, ValidateOnly: only,
	})
}

// GetJob reads a job.
//
// It fails with [JobNotFound].
func (c *Client) GetJob(ctx context.Context, name string) (*clawjobpb.Job, error) {
	name, err := c.name("jobs", name)
	if err != nil {
		return nil, err
	}
	return c.jobs.GetJob(ctx, &clawjobpb.GetJobRequest{Name: name})
}

// JobList says which jobs to list.
type JobList struct {
	// App whose jobs; empty means the client's, or all that the caller may see.
	App string
	// Filter such as `state = PAUSED`; empty means all.
	Filter string
	// OrderBy such as "next_fire_time"; empty means by name.
	OrderBy string
}

// Jobs lists jobs, page by page as the loop goes on. An error is the last of the sequence.
func (c *Client) Jobs(ctx context.Context, list JobList) iter.Seq2[*clawjobpb.Job, error] {
	return pages(func(token string) ([]*clawjobpb.Job, string, error) {
		page, err := c.jobs.ListJobs(ctx, &clawjobpb.ListJobsRequest{
			Parent: c.parent(list.App), Filter: list.Filter, OrderBy: list.OrderBy,
			PageSize: pageSize, PageToken: token,
		})
		return page.GetJobs(), page.GetNextPageToken(), err
	})
}

// UpdateJob changes the named fields of a job, such as "timeout" or "retry.max_attempts"; without
// paths all that are set, with "*" the whole job. An etag in the job guards against the changes of
// others.
//
// It fails with [JobNotFound] and [EtagMismatch].
func (c *Client) UpdateJob(
	ctx context.Context,
	job *clawjobpb.Job,
	paths ...string,
) (*clawjobpb.Job, error) {
	return c.updateJob(ctx, job, false, paths...)
}

func (c *Client) updateJob(
	ctx context.Context,
	job *clawjobpb.Job,
	only bool,
	paths ...string,
) (*clawjobpb.Job, error) {
	name, err := c.name("jobs", job.GetName())
	if err != nil {
		return nil, err
	}
	job = proto.CloneOf(job)
	job.Name = name
	request := &clawjobpb.UpdateJobRequest{Job: job, ValidateOnly: only}
	if len(paths) > 0 {
		request.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
	}
	return c.jobs.UpdateJob(ctx, request)
}

// DeleteJobOptions are the settings of [Client.DeleteJob].
type DeleteJobOptions struct {
	// Etag deletes the job only as it was read.
	Etag string
	// Force kills the runs in flight, rather than to let them finish.
	Force bool
}

// DeleteJob deletes a job. It fails with [JobNotFound] and [EtagMismatch].
func (c *Client) DeleteJob(ctx context.Context, name string, options DeleteJobOptions) error {
	name, err := c.name("jobs", name)
	if err != nil {
		return err
	}
	_, err = c.jobs.DeleteJob(ctx, &clawjobpb.DeleteJobRequest{
		Name: name, Etag: options.Etag, Force: options.Force,
	})
	return err
}

// PauseJob stops the schedule of a job; it can still be triggered. A zero until means until
// [Client.ResumeJob].
func (c *Client) PauseJob(
	ctx context.Context,
	name, reason string,
	until time.Time,
) (*clawjobpb.Job, error) {
	name, err := c.name("jobs", name)
	if err != nil {
		return nil, err
	}
	request := &clawjobpb.PauseJobRequest{Name: name, Reason: reason}
	if !until.IsZero() {
		request.UntilTime = timestamppb.New(until)
	}
	return c.jobs.PauseJob(ctx, request)
}

// ResumeJob undoes [Client.PauseJob].
func (c *Client) ResumeJob(ctx context.Context, name string) (*clawjobpb.Job, error) {
	name, err := c.name("jobs", name)
	if err != nil {
		return nil, err
	}
	return c.jobs.ResumeJob(ctx, &clawjobpb.ResumeJobRequest{Name: name})
}

// TriggerOptions are the settings of [Client.Trigger].
type TriggerOptions struct {
	// Params replace the job's; nil keeps them.
	Params any
	// At is when; zero means now.
	At time.Time
	// Labels of the run.
	Labels map[string]string
	// Executor is the full name of the only executor that may take it; empty means any.
	Executor string
	// RequestID makes one run of calls with the same id; empty makes one up, for the tries of this
	// call alone.
	RequestID string
}

// Trigger starts one run of a job. It fails with [JobNotFound].
func (c *Client) Trigger(
	ctx context.Context,
	name string,
	options TriggerOptions,
) (*clawjobpb.Run, error) {
	name, err := c.name("jobs", name)
	if err != nil {
		return nil, err
	}
	params, err := Params(options.Params)
	if err != nil {
		return nil, err
	}
	request := &clawjobpb.TriggerJobRequest{
		Name: name, Params: params, Labels: options.Labels,
		Executor: options.Executor, RequestId: options.RequestID,
	}
	if !options.At.IsZero() {
		request.RunTime = timestamppb.New(options.At)
	}
	return c.jobs.TriggerJob(ctx, request)
}

// PreviewSchedule is the next count fire times of a schedule, saved or not, with remarks.
func (c *Client) PreviewSchedule(
	ctx context.Context,
	schedule *clawjobpb.Schedule,
	count int,
) (*clawjobpb.PreviewScheduleResponse, error) {
	return c.jobs.PreviewSchedule(ctx, &clawjobpb.PreviewScheduleRequest{
		Parent: c.parent(""), Schedule: schedule, Count: int32(count),
	})
}
