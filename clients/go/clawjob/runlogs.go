package clawjob

import (
	"context"
	"iter"

	"clawjob.dev/go/clawjobpb"
)

// LogList says which records of a run to read.
type LogList struct {
	// Attempt whose records; 0 means the last, for [Client.TailLogs] each in turn.
	Attempt int
	// MinLevel leaves out what is less severe.
	MinLevel clawjobpb.LogLevel
	// Contains is a text that the message must have. Not for [Client.TailLogs].
	Contains string
}

// Logs lists the records that are stored of a run, page by page as the loop goes on. An error is
// the last of the sequence.
func (c *Client) Logs(
	ctx context.Context,
	name string,
	list LogList,
) iter.Seq2[*clawjobpb.StoredLogRecord, error] {
	name, wrong := c.name("runs", name)
	return pages(func(token string) ([]*clawjobpb.StoredLogRecord, string, error) {
		if wrong != nil {
			return nil, "", wrong
		}
		page, err := c.runs.ListRunLogs(ctx, &clawjobpb.ListRunLogsRequest{
			Name: name, Attempt: uint32(max(0, list.Attempt)), MinLevel: list.MinLevel,
			Contains: list.Contains, PageSize: pageSize, PageToken: token,
		})
		return page.GetRecords(), page.GetNextPageToken(), err
	})
}

// TailLogs is the records of a run as they come, from the first on, until the run has ended, over
// retries and lost connections; of one attempt, until that has ended. An error is the last of the
// sequence.
func (c *Client) TailLogs(
	ctx context.Context,
	name string,
	list LogList,
) iter.Seq2[*clawjobpb.StoredLogRecord, error] {
	return func(yield func(*clawjobpb.StoredLogRecord, error) bool) {
		name, err := c.name("runs", name)
		if err != nil {
			yield(nil, err)
			return
		}
		t := tail{client: c, name: name, level: list.MinLevel, attempt: uint32(max(0, list.Attempt))}
		for err == nil && !t.stopped {
			err = t.follow(ctx, yield)
			if err != nil || t.stopped || list.Attempt > 0 {
				break
			}
			var more bool
			if more, err = t.nextAttempt(ctx); !more {
				break
			}
		}
		if err != nil && !t.stopped {
			yield(nil, err)
		}
	}
}

// tail is where reading stands: the attempt that is followed and the last record that was told.
type tail struct {
	client  *Client
	name    string
	level   clawjobpb.LogLevel
	attempt uint32
	seq     uint64
	// stopped is whether the reader has had enough.
	stopped bool
}

// follow reads one attempt's records until the server says that no more will come.
func (t *tail) follow(
	ctx context.Context,
	yield func(*clawjobpb.StoredLogRecord, error) bool,
) error {
	open := func(ctx context.Context) (receiver[clawjobpb.TailRunLogsResponse], error) {
		return t.client.runs.TailRunLogs(ctx, &clawjobpb.TailRunLogsRequest{
			Name: t.name, Attempt: t.attempt, AfterSeq: t.seq, MinLevel: t.level,
		})
	}
	return following(ctx, open, func(batch *clawjobpb.TailRunLogsResponse) bool {
		for _, record := range batch.GetRecords() {
			// "The last attempt" is another one after a retry: stay with this one.
			t.attempt = max(t.attempt, record.GetAttempt())
			t.seq = max(t.seq, record.GetSeq())
			if !yield(record, nil) {
				t.stopped = true
				return false
			}
		}
		t.seq = max(t.seq, batch.GetThroughSeq())
		return !batch.GetComplete()
	})
}

// nextAttempt waits until the run goes on with another attempt; false when it has ended.
func (t *tail) nextAttempt(ctx context.Context) (bool, error) {
	for {
		run, err := t.client.runs.GetRun(ctx, &clawjobpb.GetRunRequest{
			Name: t.name, View: clawjobpb.RunView_RUN_VIEW_BASIC,
		})
		if err != nil {
			return false, err
		}
		if t.attempt > 0 && run.GetAttempt() > t.attempt {
			t.attempt, t.seq = t.attempt+1, 0
			return true, nil
		}
		if IsFinal(run.GetState()) {
			return false, nil
		}
		if err := sleep(ctx, nextAttemptPoll); err != nil {
			return false, err
		}
		if t.attempt == 0 {
			// Nothing told yet, so there is nothing to tell twice.
			return true, nil
		}
	}
}
