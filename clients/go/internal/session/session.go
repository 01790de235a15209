// Package session holds the session with the scheduler, on a goroutine of its own: a handler that
// blocks stops neither a heartbeat nor an answer.
//
// The driver ties the table of attempts (package engine) to the connection, the handlers and time.
// A link is one open session with its outbox and heartbeats; redial says when and where to dial
// next, dial opens; the pump moves what handlers have to say into the outbox.
package session

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"clawjob.dev/go/internal/work"
)

// Version of this SDK.
const Version = "0.1.0"

// Reconnect is how long to wait between attempts to connect. The wait is drawn at random each time.
type Reconnect struct {
	// First bounds the first wait after a lost session.
	First time.Duration
	// Base bounds the second; each further bound is twice the last.
	Base time.Duration
	// Cap bounds every wait.
	Cap time.Duration
	// HealthyAfter is how long a session must last to make the next wait a first one again.
	HealthyAfter time.Duration
}

// Settings are checked settings.
type Settings struct {
	// Endpoints has at least one URL.
	Endpoints []string
	// Token reads the bearer token anew at each dial; nil when there is none.
	Token func() (string, error)
	// App served, and the executor's name in it.
	App, ExecutorID string
	// TLS for https endpoints; nil takes the system's authorities.
	TLS *tls.Config
	// Slots bounds the runs at once.
	Slots uint32
	// Labels that jobs can ask for.
	Labels map[string]string
	// ShutdownGrace is how long a drain waits for handlers.
	ShutdownGrace time.Duration
	// Reconnect has the waits.
	Reconnect Reconnect
	// KeepTrying goes on when the scheduler refuses for good.
	KeepTrying bool
	// Log takes what the session has to say.
	Log *slog.Logger
}

// Start is what the session begins with.
type Start struct {
	Settings Settings
	Registry *work.Registry
	Handle   *Handle
	// Base has the values of the handlers' contexts.
	Base context.Context
	// Intercept wraps each handler's call; nil wraps none.
	Intercept work.Intercept
}

// Refused is a scheduler's refusal that trying again cannot change.
type Refused struct {
	// Code is the gRPC code's name, or the reason of a Close frame.
	Code string
	// Message has the scheduler's words.
	Message string
	// Hint says what to do about it; empty when nothing is known.
	Hint string
}

// Error says all of it.
func (r *Refused) Error() string {
	text := fmt.Sprintf("the scheduler refuses this executor: %s: %s", r.Code, r.Message)
	if r.Hint != "" {
		text += "; " + r.Hint
	}
	return text
}

// Superseded says that another process took over this executor's id.
type Superseded struct{ Message string }

// Error says all of it.
func (s *Superseded) Error() string {
	return "another process serves as this executor now: " + s.Message +
		"; give each process an id of its own"
}

// Run holds the session until the end has been asked for and reached. It fails with [*Refused] or
// [*Superseded] only.
func Run(start Start) error {
	return newDriver(start, time.Now()).run()
}
