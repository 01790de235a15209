package work

import (
	"math"
	"sync"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
)

const (
	// ProgressEvery is the shortest time between two Progress frames of one attempt.
	ProgressEvery = time.Second
	// CheckpointBytesMax is the largest checkpoint, in bytes.
	CheckpointBytesMax = 64 << 10
	// progressMessageBytesMax is the longest progress message, in bytes.
	progressMessageBytesMax = 1 << 10
)

// Progress has the newest progress and checkpoint of one attempt, until the session sends them. It
// is safe for concurrent use.
type Progress struct {
	mutex      sync.Mutex
	fraction   *float32
	message    string
	checkpoint []byte
	dirty      bool
	// sent is when it was told last in this session.
	sent time.Time
}

// Set notes how far the run is; the fraction is brought into 0..1, one that is no number is left
// out.
func (p *Progress) Set(fraction float64, message string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.fraction = nil
	if !math.IsNaN(fraction) && !math.IsInf(fraction, 0) {
		bounded := float32(min(1, max(0, fraction)))
		p.fraction = &bounded
	}
	p.message = wire.Cut(message, progressMessageBytesMax)
	p.dirty = true
}

// Save notes a checkpoint, already in JSON and within its bound.
func (p *Progress) Save(checkpoint []byte) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.checkpoint, p.dirty = checkpoint, true
}

// Saved is the last checkpoint that this attempt saved; nil when none.
func (p *Progress) Saved() []byte {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.checkpoint
}

// TellAgain makes all that was told due anew: a new session has heard nothing yet.
func (p *Progress) TellAgain() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.sent = time.Time{}
	p.dirty = p.dirty || p.fraction != nil || p.checkpoint != nil || p.message != ""
}

// Take is the frame that is due, without its reference; else when to ask again, zero when there is
// nothing new. last is the last chance before the result, so it does not wait for its second.
func (p *Progress) Take(now time.Time, last bool) (*clawjobpb.Progress, time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.dirty {
		return nil, time.Time{}
	}
	if next := p.sent.Add(ProgressEvery); !p.sent.IsZero() && next.After(now) && !last {
		return nil, next
	}
	p.dirty, p.sent = false, now
	frame := &clawjobpb.Progress{Fraction: p.fraction, Message: p.message}
	if p.checkpoint != nil {
		frame.Checkpoint = wire.Payload(p.checkpoint)
	}
	return frame, time.Time{}
}
