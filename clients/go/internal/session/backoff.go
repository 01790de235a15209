package session

import "time"

// backoff is full jitter: each wait is drawn between nothing and a bound that doubles up to the
// cap.
type backoff struct {
	reconnect Reconnect
	failures  int
	// random draws from [0, 1).
	random func() float64
}

// next is the wait before the next dial, at least floor.
func (b *backoff) next(floor time.Duration) time.Duration {
	bound := b.reconnect.First
	if b.failures > 0 {
		bound = b.reconnect.Base
		for range b.failures - 1 {
			if bound >= b.reconnect.Cap {
				break
			}
			bound *= 2
		}
	}
	b.failures++
	return floor + jitter(min(bound, b.reconnect.Cap), b.random)
}

// afterSilence is the wait after a session that fell silent: none, unless sessions keep breaking.
// Those whom one scheduler leaves without an answer notice it at moments as spread as their
// heartbeats.
func (b *backoff) afterSilence() time.Duration {
	if b.failures > 0 {
		return b.next(0)
	}
	b.failures = 1
	return 0
}

// onSessionEnd notes that a session has ended after so long.
func (b *backoff) onSessionEnd(lasted time.Duration) {
	if lasted >= b.reconnect.HealthyAfter {
		b.failures = 0
	}
}

// jitter is a random time up to bound.
func jitter(bound time.Duration, random func() float64) time.Duration {
	return time.Duration(random() * float64(bound))
}
