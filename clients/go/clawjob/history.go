package clawjob

import (
	"context"
	"iter"
	"time"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// JobRevisions lists the versions of a job, newest first. An error is the last of the sequence.
func (c *Client) JobRevisions(ctx context.Context, name string) iter.Seq2[*clawjobpb.Job, error] {
	name, wrong := c.name("jobs", name)
	return pages(func(token string) ([]*clawjobpb.Job, string, error) {
		if wrong != nil {
			return nil, "", wrong
		}
		page, err := c.jobs.ListJobRevisions(ctx, &clawjobpb.ListJobRevisionsRequest{
			Name: name, PageSize: pageSize, PageToken: token,
		})
		return page.GetJobs(), page.GetNextPageToken(), err
	})
}

// RollbackJob makes an earlier revision of a job current again; whether the job is paused stays as
// it is. A non-empty etag guards against the changes of others.
//
// It fails with [JobNotFound] and [EtagMismatch].
func (c *Client) RollbackJob(
	ctx context.Context,
	name string,
	revision uint64,
	etag string,
) (*clawjobpb.Job, error) {
	name, err := c.name("jobs", name)
	if err != nil {
		return nil, err
	}
	return c.jobs.RollbackJob(ctx, &clawjobpb.RollbackJobRequest{
		Name: name, Revision: revision, Etag: etag,
	})
}

// BackfillOptions are the settings of [Client.Backfill].
type BackfillOptions struct {
	// From and To are the range of fire times.
	From, To time.Time
	// MaxConcurrency is how many of these runs at once; 0 means 1.
	MaxConcurrency uint32
	// DryRun only counts.
	DryRun bool
	// RequestID makes one backfill of calls with the same id; empty makes one up, for the tries of
	// this call alone.
	RequestID string
}

// Backfill makes the runs of the fire times in a past range, each with its own fire time, and counts
// them; those that have a run already are left out.
func (c *Client) Backfill(
	ctx context.Context,
	name string,
	options BackfillOptions,
) (*clawjobpb.BackfillJobResponse, error) {
	name, err := c.name("jobs", name)
	if err != nil {
		return nil, err
	}
	return c.jobs.BackfillJob(ctx, &clawjobpb.BackfillJobRequest{
		Name: name, MaxConcurrency: options.MaxConcurrency, ValidateOnly: options.DryRun,
		StartTime: timestamppb.New(options.From), EndTime: timestamppb.New(options.To),
		RequestId: options.RequestID,
	})
}

// Forecast is the coming fire times of an app's jobs, of the client's app or of all that the caller
// may see when app is empty. An error is the last of the sequence.
func (c *Client) Forecast(
	ctx context.Context,
	app string,
	from, to time.Time,
) iter.Seq2[*clawjobpb.ForecastRunsResponse_Fire, error] {
	return pages(func(token string) ([]*clawjobpb.ForecastRunsResponse_Fire, string, error) {
		page, err := c.jobs.ForecastRuns(ctx, &clawjobpb.ForecastRunsRequest{
			Parent: c.parent(app), PageSize: pageSize, PageToken: token,
			StartTime: timestamppb.New(from), EndTime: timestamppb.New(to),
		})
		return page.GetFires(), page.GetNextPageToken(), err
	})
}
