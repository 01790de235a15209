package clawjob

import (
	"encoding/json"
	"net/http"
	"time"
)

// redAfter is how long without a session makes an executor unhealthy.
const redAfter = 60 * time.Second

// Health is how the connection is.
type Health struct {
	// Connected is whether a session is open.
	Connected bool
	// For is how long that has been as it is.
	For time.Duration
}

// OK is false after 60 s without a session: what a liveness page should say.
func (h Health) OK() bool { return h.Connected || h.For < redAfter }

// Health tells how the connection is.
func (x *Executor) Health() Health {
	connected, since := x.handle.Health()
	return Health{Connected: connected, For: time.Since(since)}
}

// HealthHandler answers with status 200 while [Health.OK], else with 503, and says in JSON whether
// a session is open and for how many seconds that has been so.
func (x *Executor) HealthHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		health := x.Health()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !health.OK() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		// A reader that has gone is no fault of ours.
		_ = json.NewEncoder(w).Encode(map[string]any{
			"ok":          health.OK(),
			"connected":   health.Connected,
			"for_seconds": int64(health.For.Seconds()),
		})
	})
}
