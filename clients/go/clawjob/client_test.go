package clawjob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// admin is a server of jobs and runs that does what the test says.
type admin struct {
	clawjobpb.UnimplementedJobServiceServer
	clawjobpb.UnimplementedRunServiceServer
	mutex sync.Mutex
	// calls has what was called, with the request id.
	calls []string
	// faults are the answers to the next calls.
	faults []error
	list   func(*clawjobpb.ListJobsRequest) *clawjobpb.ListJobsResponse
	watch  func(*clawjobpb.WatchRunsRequest, grpc.ServerStreamingServer[clawjobpb.WatchRunsResponse]) error
	tail   func(*clawjobpb.TailRunLogsRequest, grpc.ServerStreamingServer[clawjobpb.TailRunLogsResponse]) error
	runs   []*clawjobpb.Run
}

func (a *admin) call(ctx context.Context, text string) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	headers, _ := metadata.FromIncomingContext(ctx)
	if got := headers.Get("authorization"); len(got) != 1 || got[0] != "Bearer secret" {
		return status.Errorf(codes.Unauthenticated, "%v", got)
	}
	a.calls = append(a.calls, text)
	if len(a.faults) == 0 {
		return nil
	}
	fault := a.faults[0]
	a.faults = a.faults[1:]
	return fault
}

func (a *admin) called() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.calls)
}

func (a *admin) GetJob(ctx context.Context, r *clawjobpb.GetJobRequest) (*clawjobpb.Job, error) {
	return &clawjobpb.Job{Name: r.GetName()}, a.call(ctx, "get "+r.GetName())
}

func (a *admin) UpdateJob(ctx context.Context, r *clawjobpb.UpdateJobRequest) (*clawjobpb.Job, error) {
	return r.GetJob(), a.call(ctx, "update")
}

func (a *admin) TriggerJob(ctx context.Context, r *clawjobpb.TriggerJobRequest) (*clawjobpb.Run, error) {
	return &clawjobpb.Run{Name: "apps/a/runs/1"}, a.call(ctx, "trigger "+r.GetRequestId())
}

func (a *admin) BackfillJob(
	ctx context.Context,
	r *clawjobpb.BackfillJobRequest,
) (*clawjobpb.BackfillJobResponse, error) {
	days := r.GetEndTime().AsTime().Sub(r.GetStartTime().AsTime()) / (24 * time.Hour)
	return &clawjobpb.BackfillJobResponse{RunCount: uint32(days)}, a.call(ctx, "backfill "+r.GetRequestId())
}

func (a *admin) ListJobs(ctx context.Context, r *clawjobpb.ListJobsRequest) (*clawjobpb.ListJobsResponse, error) {
	if err := a.call(ctx, "list "+r.GetParent()+" "+r.GetPageToken()); err != nil {
		return nil, err
	}
	return a.list(r), nil
}

func (a *admin) WatchRuns(
	r *clawjobpb.WatchRunsRequest,
	stream grpc.ServerStreamingServer[clawjobpb.WatchRunsResponse],
) error {
	if err := a.call(stream.Context(), "watch "+r.GetResumeToken()); err != nil {
		return err
	}
	return a.watch(r, stream)
}

func (a *admin) TailRunLogs(
	r *clawjobpb.TailRunLogsRequest,
	stream grpc.ServerStreamingServer[clawjobpb.TailRunLogsResponse],
) error {
	text := fmt.Sprintf("tail %d after %d", r.GetAttempt(), r.GetAfterSeq())
	if err := a.call(stream.Context(), text); err != nil {
		return err
	}
	return a.tail(r, stream)
}

func (a *admin) GetRun(ctx context.Context, _ *clawjobpb.GetRunRequest) (*clawjobpb.Run, error) {
	if err := a.call(ctx, "run"); err != nil {
		return nil, err
	}
	return a.nextRun(), nil
}

func (a *admin) WaitRun(ctx context.Context, _ *clawjobpb.WaitRunRequest) (*clawjobpb.Run, error) {
	if err := a.call(ctx, "wait"); err != nil {
		return nil, err
	}
	return a.nextRun(), nil
}

// nextRun is the next of the runs; the last stays.
func (a *admin) nextRun() *clawjobpb.Run {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	run := a.runs[0]
	if len(a.runs) > 1 {
		a.runs = a.runs[1:]
	}
	return run
}

// serve is the server's URL.
func (a *admin) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	clawjobpb.RegisterJobServiceServer(server, a)
	clawjobpb.RegisterRunServiceServer(server, a)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "http://" + listener.Addr().String()
}

func clientOf(t *testing.T, urls ...string) *Client {
	t.Helper()
	config := ClientConfig{Endpoints: urls, Token: "secret", App: "a"}
	client, err := newClient(config, env(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var unavailable = status.Error(codes.Unavailable, "starting")

func TestSafeCallsAreRepeatedAndOthersAreNot(t *testing.T) {
	t.Parallel()
	a := &admin{faults: []error{unavailable, unavailable}}
	client := clientOf(t, a.serve(t))
	if _, err := client.GetJob(t.Context(), "j"); err != nil {
		t.Error(err)
	}
	if got := a.called(); len(got) != 3 || got[0] != "get apps/a/jobs/j" {
		t.Errorf("%v", got)
	}
	a.faults, a.calls = []error{unavailable}, nil
	job := &clawjobpb.Job{Name: "j"}
	if _, err := client.UpdateJob(t.Context(), job); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if got := a.called(); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestATriggerIsRepeatedUnderOneRequestID(t *testing.T) {
	t.Parallel()
	a := &admin{faults: []error{unavailable}}
	client := clientOf(t, a.serve(t))
	for range 2 {
		if _, err := client.Trigger(t.Context(), "j", TriggerOptions{}); err != nil {
			t.Error(err)
		}
	}
	if got := a.called(); len(got) != 3 || got[0] != got[1] || got[1] == got[2] || got[0] == "trigger " {
		t.Errorf("%v", got)
	}
	if _, err := client.Trigger(t.Context(), "j", TriggerOptions{RequestID: "mine"}); err != nil {
		t.Error(err)
	}
	if got := a.called(); got[3] != "trigger mine" {
		t.Errorf("%v", got)
	}
}

func TestABackfillIsRepeatedUnderOneRequestID(t *testing.T) {
	t.Parallel()
	a := &admin{faults: []error{unavailable}}
	client := clientOf(t, a.serve(t))
	end := time.Now()
	made, err := client.Backfill(t.Context(), "j", BackfillOptions{From: end.Add(-72 * time.Hour), To: end})
	if err != nil || made.GetRunCount() != 3 {
		t.Errorf("%v, %v", made, err)
	}
	if got := a.called(); len(got) != 2 || got[0] != got[1] || got[0] == "backfill " {
		t.Errorf("%v", got)
	}
}

func TestWhatCannotPassIsNotRepeated(t *testing.T) {
	t.Parallel()
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)}
	for _, c := range []struct {
		err   error
		calls int
	}{
		{status.Error(codes.Internal, "x"), 1},
		{status.Error(codes.ResourceExhausted, "x"), 1},
		{detailed(t, codes.ResourceExhausted, wait), 2},
		{detailed(t, codes.Unavailable, wait), 2},
	} {
		a := &admin{faults: []error{c.err}}
		_, _ = clientOf(t, a.serve(t)).GetJob(t.Context(), "j")
		if got := a.called(); len(got) != c.calls {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestTheNextEndpointIsCalledWhenOneIsOutOfReach(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + listener.Addr().String()
	listener.Close()
	a := &admin{}
	if _, err := clientOf(t, gone, a.serve(t)).GetJob(t.Context(), "j"); err != nil {
		t.Error(err)
	}
}

func detailed(t *testing.T, code codes.Code, details ...protoadapt.MessageV1) error {
	t.Helper()
	said, err := status.New(code, "no").WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return said.Err()
}

func TestErrorsCarryWhatTheServerSays(t *testing.T) {
	t.Parallel()
	a := &admin{faults: []error{detailed(t, codes.InvalidArgument,
		&errdetails.ErrorInfo{Reason: "CRON_INVALID", Domain: "clawjob.dev"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "job.schedules[0].cron", Description: "has 4 fields"},
			{Field: "job.timeout", Description: "is negative"},
		}},
		&errdetails.RequestInfo{RequestId: "r1"},
	)}}
	client := clientOf(t, a.serve(t))
	_, err := client.GetJob(t.Context(), "j")
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, CronInvalid) || errors.Is(err, JobNotFound) ||
		e.Code != codes.InvalidArgument || len(e.Violations) != 2 || e.RequestID != "r1" ||
		status.Code(err) != codes.InvalidArgument {
		t.Errorf("%+v", e)
	}
	want := "clawjob: InvalidArgument (CRON_INVALID): no; job.schedules[0].cron: has 4 fields; " +
		"job.timeout: is negative"
	if err.Error() != want {
		t.Error(err)
	}
}

func TestPagesAreReadAsTheLoopGoesOn(t *testing.T) {
	t.Parallel()
	a := &admin{list: func(r *clawjobpb.ListJobsRequest) *clawjobpb.ListJobsResponse {
		page := &clawjobpb.ListJobsResponse{Jobs: []*clawjobpb.Job{
			{Name: r.GetPageToken() + "x"}, {Name: r.GetPageToken() + "y"},
		}}
		if len(r.GetPageToken()) < 2 {
			page.NextPageToken = r.GetPageToken() + "+"
		}
		return page
	}}
	client := clientOf(t, a.serve(t))
	var names []string
	for job, err := range client.Jobs(t.Context(), JobList{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, job.GetName())
	}
	if got := strings.Join(names, " "); got != "x y +x +y ++x ++y" {
		t.Error(got)
	}
	a.calls = nil
	for range client.Jobs(t.Context(), JobList{App: "-"}) {
		break
	}
	if got := a.called(); !slices.Equal(got, []string{"list apps/- "}) {
		t.Errorf("%v", got)
	}
	a.faults = []error{status.Error(codes.PermissionDenied, "no")}
	for job, err := range client.Jobs(t.Context(), JobList{}) {
		if job != nil || status.Code(err) != codes.PermissionDenied {
			t.Errorf("%v, %v", job, err)
		}
	}
}

func TestAWatchGoesOnFromItsTokenOverLostStreams(t *testing.T) {
	t.Parallel()
	a := &admin{}
	a.watch = func(
		r *clawjobpb.WatchRunsRequest,
		stream grpc.ServerStreamingServer[clawjobpb.WatchRunsResponse],
	) error {
		for _, kind := range []clawjobpb.WatchRunsResponse_Type{
			clawjobpb.WatchRunsResponse_TYPE_CHANGED, 99, clawjobpb.WatchRunsResponse_TYPE_BOOKMARK,
		} {
			_ = stream.Send(&clawjobpb.WatchRunsResponse{Type: kind, ResumeToken: r.GetResumeToken() + "+"})
		}
		if r.GetResumeToken() == "" {
			return unavailable
		}
		return nil
	}
	client := clientOf(t, a.serve(t))
	events := 0
	for event, err := range client.Watch(t.Context(), RunList{}, "") {
		if err != nil {
			t.Fatal(err)
		}
		if event.GetType() == 99 {
			t.Error("an event of an unknown type")
		}
		if events++; events == 5 {
			break
		}
	}
	if got := a.called(); !slices.Equal(got, []string{"watch ", "watch +", "watch ++"}) {
		t.Errorf("%q", got)
	}
}

func TestATailFollowsEachAttemptToTheEndOfTheRun(t *testing.T) {
	t.Parallel()
	a := &admin{runs: []*clawjobpb.Run{
		{Attempt: 2, State: clawjobpb.RunState_RUN_STATE_RUNNING},
		{Attempt: 2, State: clawjobpb.RunState_RUN_STATE_SUCCEEDED},
	}}
	breaks := true
	a.tail = func(
		r *clawjobpb.TailRunLogsRequest,
		stream grpc.ServerStreamingServer[clawjobpb.TailRunLogsResponse],
	) error {
		attempt := max(1, r.GetAttempt())
		record := &clawjobpb.StoredLogRecord{Seq: r.GetAfterSeq() + 1, Attempt: attempt}
		_ = stream.Send(&clawjobpb.TailRunLogsResponse{
			Records: []*clawjobpb.StoredLogRecord{record}, ThroughSeq: record.GetSeq(),
		})
		if breaks {
			breaks = false
			return unavailable
		}
		return stream.Send(&clawjobpb.TailRunLogsResponse{Complete: true})
	}
	var told []string
	for record, err := range clientOf(t, a.serve(t)).TailLogs(t.Context(), "1", LogList{}) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, fmt.Sprint(record.GetAttempt(), ":", record.GetSeq()))
	}
	if got := strings.Join(told, " "); got != "1:1 1:2 2:1" {
		t.Errorf("%s after %q", got, a.called())
	}
}

func TestAWaitOutlivesALostConnection(t *testing.T) {
	t.Parallel()
	a := &admin{
		faults: slices.Repeat([]error{unavailable}, triesMax),
		runs: []*clawjobpb.Run{
			{State: clawjobpb.RunState_RUN_STATE_RUNNING},
			{State: clawjobpb.RunState_RUN_STATE_FAILED},
		},
	}
	run, err := clientOf(t, a.serve(t)).Wait(t.Context(), "1")
	if err != nil || run.GetState() != clawjobpb.RunState_RUN_STATE_FAILED {
		t.Errorf("%v, %v", run, err)
	}
}

func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	a := &admin{faults: slices.Repeat([]error{unavailable}, 1000)}
	for _, err := range clientOf(t, a.serve(t)).Watch(t.Context(), RunList{}, "") {
		if status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
	}
	if got := a.called(); len(got) != triesMax {
		t.Errorf("%d calls", len(got))
	}
}

func TestTheContextEndsEveryWait(t *testing.T) {
	t.Parallel()
	a := &admin{faults: slices.Repeat([]error{unavailable}, 1000)}
	client := clientOf(t, a.serve(t))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Wait(ctx, "1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for _, err := range client.Watch(ctx, RunList{}, "") {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
}

func TestNamesAreTakenInThreeForms(t *testing.T) {
	c := &Client{app: "a"}
	for name, want := range map[string]string{
		"apps/x/jobs/j": "apps/x/jobs/j", "x/j": "apps/x/jobs/j", "j": "apps/a/jobs/j",
	} {
		if got, err := c.name("jobs", name); got != want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "a/b/c", "apps/x/runs/1", "/j", "x/"} {
		if got, err := c.name("jobs", bad); err == nil {
			t.Errorf("%q is %q", bad, got)
		}
	}
	if _, err := (&Client{}).name("jobs", "j"); err == nil || !strings.Contains(err.Error(), "app/j") {
		t.Error(err)
	}
}
