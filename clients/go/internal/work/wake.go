package work

import (
	"sync"

	"clawjob.dev/go/internal/engine"
)

// Wake is how handlers tell the session's goroutine that something of theirs waits to be sent. An
// attempt is in the list once at most, so the list is bounded by the attempts held.
type Wake struct {
	mutex  sync.Mutex
	listed map[engine.Key]bool
	urgent bool
	notify chan struct{}
}

// NewWake is an empty list.
func NewWake() *Wake {
	return &Wake{listed: map[engine.Key]bool{}, notify: make(chan struct{}, 1)}
}

// Waker puts one attempt on the list.
func (w *Wake) Waker(key engine.Key) func(urgent bool) {
	return func(urgent bool) {
		w.mutex.Lock()
		fresh := !w.listed[key] || (urgent && !w.urgent)
		w.listed[key] = true
		w.urgent = w.urgent || urgent
		w.mutex.Unlock()
		if fresh {
			Notify(w.notify)
		}
	}
}

// C is ready when some attempt is listed.
func (w *Wake) C() <-chan struct{} { return w.notify }

// Take empties the list; urgent when one of the attempts asks for no delay.
func (w *Wake) Take() (keys []engine.Key, urgent bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for key := range w.listed {
		keys = append(keys, key)
	}
	clear(w.listed)
	urgent, w.urgent = w.urgent, false
	return keys, urgent
}

// Notify makes a channel with room for one signal ready; one that is ready stays so.
func Notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
