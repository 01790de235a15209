package session

import (
	"maps"
	"sync"
	"time"

	"clawjob.dev/go/internal/work"
)

// Stop is how far the end has been asked for.
type Stop int

const (
	// StopNo: not at all.
	StopNo Stop = iota
	// StopDrain: take nothing new, let handlers finish.
	StopDrain
	// StopNow: tell handlers to stop now.
	StopNow
)

// Handle is what the outside wants of the session's goroutine, and what it sees of it. It is safe
// for concurrent use.
type Handle struct {
	mutex  sync.Mutex
	stop   Stop
	paused map[string]bool
	// connected is whether a session is open, and since when that is as it is.
	connected bool
	since     time.Time
	changed   chan struct{}
}

// NewHandle is a handle that wants nothing.
func NewHandle(now time.Time) *Handle {
	return &Handle{paused: map[string]bool{}, since: now, changed: make(chan struct{}, 1)}
}

// Ask asks for the end; the most that was asked for counts.
func (h *Handle) Ask(stop Stop) {
	h.mutex.Lock()
	h.stop = max(h.stop, stop)
	h.mutex.Unlock()
	work.Notify(h.changed)
}

// NextStop is as SIGTERM: it drains at the first call and cancels at the second.
func (h *Handle) NextStop() {
	h.mutex.Lock()
	h.stop = min(h.stop+1, StopNow)
	h.mutex.Unlock()
	work.Notify(h.changed)
}

// Pause takes no runs of a handler, or takes them again.
func (h *Handle) Pause(handler string, paused bool) {
	h.mutex.Lock()
	if paused {
		h.paused[handler] = true
	} else {
		delete(h.paused, handler)
	}
	h.mutex.Unlock()
	work.Notify(h.changed)
}

// Health is whether a session is open, and since when that is as it is.
func (h *Handle) Health() (connected bool, since time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.connected, h.since
}

func (h *Handle) setConnected(connected bool, now time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.connected != connected {
		h.connected, h.since = connected, now
	}
}

func (h *Handle) wish() (Stop, map[string]bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.stop, maps.Clone(h.paused)
}
