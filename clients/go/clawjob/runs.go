package clawjob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// waitSlice is how long one WaitRun may take; the contract allows 60 s.
	waitSlice = 30 * time.Second
	// nextAttemptPoll is how often a run that waits for its next attempt is looked at.
	nextAttemptPoll = time.Second
	// followWaitFirst bounds the first wait after a lost stream; it doubles up to followWaitMax.
	followWaitFirst = 250 * time.Millisecond
	// followWaitMax bounds every such wait.
	followWaitMax = 10 * time.Second
)

// IsFinal is whether a run in this state has ended.
func IsFinal(state clawjobpb.RunState) bool {
	switch state {
	case clawjobpb.RunState_RUN_STATE_SUCCEEDED, clawjobpb.RunState_RUN_STATE_FAILED,
		clawjobpb.RunState_RUN_STATE_CANCELED, clawjobpb.RunState_RUN_STATE_TIMED_OUT,
		clawjobpb.RunState_RUN_STATE_LOST, clawjobpb.RunState_RUN_STATE_SKIPPED:
		return true
	default:
		return false
	}
}

// GetRun reads a run with its attempts. It fails with [RunNotFound].
func (c *Client) GetRun(ctx context.Context, name string) (*clawjobpb.Run, error) {
	name, err := c.name("runs", name)
	if err != nil {
		return nil, err
	}
	return c.runs.GetRun(ctx, &clawjobpb.GetRunRequest{
		Name: name, View: clawjobpb.RunView_RUN_VIEW_FULL,
	})
}

// RunList says which runs to list or watch.
type RunList struct {
	// App whose runs; empty means the client's, or all that the caller may see.
	App string
	// Filter such as `state = FAILED AND job = "apps/billing/jobs/nightly-report"`; empty means all.
	Filter string
	// OrderBy such as "create_time"; empty means newest first. Not for watching.
	OrderBy string
	// Full adds params, output and attempts.
	Full bool
}

func (l RunList) view() clawjobpb.RunView {
	if l.Full {
		return clawjobpb.RunView_RUN_VIEW_FULL
	}
	return clawjobpb.RunView_RUN_VIEW_BASIC
}

// Runs lists runs, page by page as the loop goes on. An error is the last of the sequence.
func (c *Client) Runs(ctx context.Context, list RunList) iter.Seq2[*clawjobpb.Run, error] {
	return pages(func(token string) ([]*clawjobpb.Run, string, error) {
		page, err := c.runs.ListRuns(ctx, &clawjobpb.ListRunsRequest{
			Parent: c.parent(list.App), Filter: list.Filter, OrderBy: list.OrderBy,
			View: list.view(), PageSize: pageSize, PageToken: token,
		})
		return page.GetRuns(), page.GetNextPageToken(), err
	})
}

// CancelOptions are the settings of [Client.CancelRun].
type CancelOptions struct {
	// Reason in words, for who looks at the run.
	Reason string
	// Grace is how long the handler has to stop; 0 means the job's own.
	Grace time.Duration
}

// CancelRun stops a run; one that has ended is returned as it is.
func (c *Client) CancelRun(
	ctx context.Context,
	name string,
	options CancelOptions,
) (*clawjobpb.Run, error) {
	name, err := c.name("runs", name)
	if err != nil {
		return nil, err
	}
	request := &clawjobpb.CancelRunRequest{Name: name, Reason: options.Reason}
	if options.Grace > 0 {
		request.Grace = durationpb.New(options.Grace)
	}
	return c.runs.CancelRun(ctx, request)
}

// Rerun makes a new run like an ended one. Params replace the old ones; nil keeps them.
//
// It fails with [RunNotFound] and [RunNotEnded].
func (c *Client) Rerun(ctx context.Context, name string, params any) (*clawjobpb.Run, error) {
	name, err := c.name("runs", name)
	if err != nil {
		return nil, err
	}
	payload, err := Params(params)
	if err != nil {
		return nil, err
	}
	return c.runs.RerunRun(ctx, &clawjobpb.RerunRunRequest{Name: name, Params: payload})
}

// Wait waits until a run has ended and returns it, however it ended. Once the server has answered, it
// outlives lost connections; the context bounds it.
func (c *Client) Wait(ctx context.Context, name string) (*clawjobpb.Run, error) {
	name, err := c.name("runs", name)
	if err != nil {
		return nil, err
	}
	follow := follow{}
	for {
		run, err := c.runs.WaitRun(ctx, &clawjobpb.WaitRunRequest{
			Name: name, Timeout: durationpb.New(waitSlice),
		})
		if err != nil {
			if err := follow.after(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		follow.worked()
		if IsFinal(run.GetState()) {
			return run, nil
		}
	}
}

// Watch tells the current state of each run, then every change of it, for as long as the loop goes
// on. Once the server has answered, it outlives lost connections and the server's own end of a
// stream. A non-empty token, from an
// earlier event, goes on from there. An event of TYPE_RESET says that changes were missed: what was
// known is to be dropped, and the current state follows. An error is the last of the sequence.
func (c *Client) Watch(
	ctx context.Context,
	list RunList,
	token string,
) iter.Seq2[*clawjobpb.WatchRunsResponse, error] {
	return func(yield func(*clawjobpb.WatchRunsResponse, error) bool) {
		open := func(ctx context.Context) (receiver[clawjobpb.WatchRunsResponse], error) {
			return c.runs.WatchRuns(ctx, &clawjobpb.WatchRunsRequest{
				Parent: c.parent(list.App), Filter: list.Filter, View: list.view(), ResumeToken: token,
			})
		}
		err := following(ctx, open, func(event *clawjobpb.WatchRunsResponse) bool {
			if event.GetResumeToken() != "" {
				token = event.GetResumeToken()
			}
			_, known := clawjobpb.WatchRunsResponse_Type_name[int32(event.GetType())]
			if !known || event.GetType() == clawjobpb.WatchRunsResponse_TYPE_UNSPECIFIED {
				return true
			}
			return yield(event, nil)
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// receiver is a stream of the server's.
type receiver[T any] interface{ Recv() (*T, error) }

// following opens a stream anew whenever it ends, until take returns false or trying again cannot
// help.
func following[T any](
	ctx context.Context,
	open func(context.Context) (receiver[T], error),
	take func(*T) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	follow := follow{}
	for {
		stream, err := open(ctx)
		for err == nil {
			var message *T
			if message, err = stream.Recv(); err == nil {
				follow.worked()
				if !take(message) {
					return nil
				}
			}
		}
		if err := follow.after(ctx, err); err != nil {
			return err
		}
	}
}

// follow decides whether and when a lost stream is opened again: for ever once it has worked, a few
// times before.
type follow struct {
	failures  int
	hasWorked bool
}

// worked makes the next wait a short one.
func (f *follow) worked() { f.failures, f.hasWorked = 0, true }

// after waits, or returns the loss itself when another try could not help. Streams that the server
// ends in order are opened again, too.
func (f *follow) after(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	code := status.Code(err)
	lost := code == codes.Unavailable || code == codes.ResourceExhausted && retryAfterOf(err) > 0
	if !errors.Is(err, io.EOF) && (!lost || !f.hasWorked && f.failures+1 == triesMax) {
		return err
	}
	wait := min(followWaitFirst<<min(f.failures, 10), followWaitMax)
	f.failures++
	return sleep(ctx, wait)
}
