package session

import (
	"context"
	"sync"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/work"
)

const (
	// controlFramesMax bounds the control frames that wait; one more ends the session.
	controlFramesMax = 4096
	// dataFramesMax bounds the log chunks and results that wait; what does not fit stays where it is.
	dataFramesMax = 64
)

// outbox has the frames on their way up, in two lanes: control frames go ahead of logs and results.
// It belongs to one session and ends with it. What has to outlive it is kept elsewhere and queued
// anew on the next one.
type outbox struct {
	mutex   sync.Mutex
	control []*clawjobpb.SessionRequest
	data    []*clawjobpb.SessionRequest
	closed  bool
	ready   chan struct{}
	// space is told when a frame has left the data lane.
	space chan struct{}
}

func newOutbox(space chan struct{}) *outbox {
	return &outbox{ready: make(chan struct{}, 1), space: space}
}

// putControl queues a control frame; false when the lane is full, that is when the peer does not
// read.
func (o *outbox) putControl(frame *clawjobpb.SessionRequest) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.control) >= controlFramesMax {
		return false
	}
	o.control = append(o.control, frame)
	work.Notify(o.ready)
	return true
}

// hasSpace is true when the data lane takes another frame.
func (o *outbox) hasSpace() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return len(o.data) < dataFramesMax
}

// putData queues a log chunk or a result; ask hasSpace before.
func (o *outbox) putData(frame *clawjobpb.SessionRequest) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.data = append(o.data, frame)
	work.Notify(o.ready)
}

// close queues the last frame, if any, and ends the stream behind it.
func (o *outbox) close(last *clawjobpb.SessionRequest) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if last != nil && !o.closed {
		o.data = append(o.data, last)
	}
	o.closed = true
	work.Notify(o.ready)
}

// next waits for the next frame in order of the lanes; false at the end.
func (o *outbox) next(ctx context.Context) (*clawjobpb.SessionRequest, bool) {
	for {
		frame, ended := o.pop()
		if frame != nil || ended {
			return frame, frame != nil
		}
		select {
		case <-o.ready:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (o *outbox) pop() (frame *clawjobpb.SessionRequest, ended bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	switch {
	case len(o.control) > 0:
		frame, o.control[0] = o.control[0], nil
		o.control = o.control[1:]
	case len(o.data) > 0:
		frame, o.data[0] = o.data[0], nil
		o.data = o.data[1:]
		work.Notify(o.space)
	}
	return frame, frame == nil && o.closed
}
