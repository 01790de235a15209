package session

import (
	"context"
	"log/slog"
	"time"

	"clawjob.dev/go/internal/endpoint"
)

const (
	// peersMax is how many peer endpoints are taken from the scheduler.
	peersMax = 64
	// refusedWait is how long to wait after a refusal for good, when asked to go on trying.
	refusedWait = 30 * time.Second
	// retryAfterMax bounds the wait that a scheduler may ask for.
	retryAfterMax = 5 * time.Minute
	// tellAgainAfter is when the same fault is told of again, however often it has come.
	tellAgainAfter = time.Minute
)

// told is the fault that was told of last, and when.
type told struct {
	message string
	at      time.Time
}

// isNews is whether to tell of a fault now; it notes that it was.
func (t *told) isNews(message string, now time.Time) bool {
	if message == t.message && now.Sub(t.at) < tellAgainAfter {
		return false
	}
	*t = told{message, now}
	return true
}

// dialed is how far a dial has come: the connection stands and the Hello can be written, the
// session is open, or it came to nothing.
type dialed struct {
	id     uint64
	conn   *connection
	opened *opened
	fault  *fault
}

// redial dials for new sessions, one at a time.
type redial struct {
	settings *Settings
	backoff  backoff
	// at is when the next dial is due; zero means not at all.
	at time.Time
	// sentTo is where a draining scheduler sends us; empty otherwise.
	sentTo     []string
	peers      []string
	lastFailed string
	// opened is where the newest session was opened.
	opened string
	// silent is where the last session fell silent, until there is another.
	silent string
	told   told
	dial   *dial
	dials  uint64
	steps  chan<- dialed
	// life ends with the driver, and every dial with it.
	life   context.Context
	random func() float64
}

type dial struct {
	id       uint64
	endpoint string
	cancel   context.CancelFunc
	// out is set once the Hello is queued, and sent is when that was.
	out  *outbox
	sent time.Time
}

// newRedial has its first dial due at once.
func newRedial(
	life context.Context,
	settings *Settings,
	steps chan<- dialed,
	now time.Time,
	random func() float64,
) *redial {
	return &redial{
		settings: settings,
		backoff:  backoff{reconnect: settings.Reconnect, random: random},
		at:       now,
		steps:    steps,
		life:     life,
		random:   random,
	}
}

// knowPeers notes the cluster's addresses.
func (r *redial) knowPeers(peers []string) { r.peers = r.usable(peers) }

// usable leaves out addresses with another scheme than ours, so that nobody can talk us out of TLS.
func (r *redial) usable(peers []string) []string {
	var usable []string
	ours := endpoint.Scheme(r.settings.Endpoints[0])
	for _, url := range peers {
		_, err := endpoint.Parse(url)
		if err == nil && endpoint.Scheme(url) == ours && len(usable) < peersMax {
			usable = append(usable, url)
		}
	}
	return usable
}

// moveTo asks for a new session at a random moment within that time, beside the open one.
func (r *redial) moveTo(now time.Time, within time.Duration, peers []string) {
	r.sentTo = r.usable(peers)
	if r.dial == nil && r.at.IsZero() {
		r.at = now.Add(jitter(within, r.random))
	}
}

// onSilence notes that the session gets no answers any more: its end is told next, and another
// endpoint is dialed then.
func (r *redial) onSilence() { r.silent = r.opened }

// onSessionEnd notes that the only session has ended after so long. wait is what the scheduler asks
// for.
func (r *redial) onSessionEnd(now time.Time, lasted, wait time.Duration) {
	r.backoff.onSessionEnd(lasted)
	switch {
	case r.dial != nil:
	case r.silent != "":
		r.at = now.Add(r.backoff.afterSilence())
	default:
		r.at = now.Add(r.backoff.next(min(wait, retryAfterMax)))
	}
}

// tick starts the dial that is due.
func (r *redial) tick(now time.Time) {
	if r.dial != nil || r.at.IsZero() || r.at.After(now) {
		return
	}
	r.at = time.Time{}
	r.dials++
	ctx, cancel := context.WithCancel(r.life)
	d := &dial{id: r.dials, endpoint: r.pick(), cancel: cancel}
	r.dial = d
	id, url := d.id, d.endpoint
	go func() {
		conn, f := connect(ctx, r.settings, url)
		r.step(ctx, dialed{id: id, conn: conn, fault: f})
	}()
}

// step tells how far a dial has come; one that is not wanted any more is undone.
func (r *redial) step(ctx context.Context, step dialed) {
	select {
	case r.steps <- step:
		return
	case <-ctx.Done():
	case <-r.life.Done():
	}
	step.undo()
}

// undo closes what a dial has opened.
func (d dialed) undo() {
	if d.opened != nil {
		d.opened.end()
	} else if d.conn != nil {
		_ = d.conn.Close()
	}
}

// pick is a random endpoint: one that the draining scheduler named; after a failure another of our
// own; after a silence too, if we have another; else any that is known.
func (r *redial) pick() string {
	var candidates, fresh, others []string
	for _, url := range r.settings.Endpoints {
		if url == r.lastFailed {
			continue
		}
		fresh = append(fresh, url)
		if url != r.silent {
			others = append(others, url)
		}
	}
	switch {
	case len(r.sentTo) > 0:
		candidates = r.sentTo
	case r.silent != "" && len(others) > 0:
		candidates = others
	case r.lastFailed != "":
		candidates = fresh
	default:
		candidates = append(append(candidates, r.settings.Endpoints...), r.peers...)
	}
	if len(candidates) == 0 {
		return r.settings.Endpoints[0]
	}
	return candidates[int(r.random()*float64(len(candidates)))]
}

// isDialing is true when the step belongs to the dial under way.
func (r *redial) isDialing(id uint64) bool { return r.dial != nil && r.dial.id == id }

// open goes on with a connected dial: the Hello is in the outbox.
func (r *redial) open(conn *connection, out *outbox, now time.Time) {
	d := r.dial
	d.cancel()
	ctx, cancel := context.WithCancel(r.life)
	d.cancel, d.out, d.sent = cancel, out, now
	id := d.id
	go func() {
		session, f := open(r.life, ctx, conn, out)
		r.step(ctx, dialed{id: id, opened: session, fault: f})
	}()
}

// succeeded notes that the dial has led to a session: its endpoint, its outbox, and when its Hello
// was queued.
func (r *redial) succeeded() *dial {
	d := r.dial
	r.dial, r.sentTo, r.lastFailed, r.told = nil, nil, "", told{}
	r.opened, r.silent = d.endpoint, ""
	return d
}

// failed notes that the dial has failed; the next is due after a wait. A refusal for good is
// returned, unless the settings ask to go on or a session is still open.
func (r *redial) failed(now time.Time, f *fault, hasSession bool) error {
	d := r.dial
	d.cancel()
	r.dial, r.sentTo = nil, nil
	floor := min(f.retryAfter, retryAfterMax)
	if f.permanent != nil {
		if !hasSession && !r.settings.KeepTrying {
			return f.permanent
		}
		floor = refusedWait
	}
	wait := r.backoff.next(floor)
	if r.told.isNews(f.message, now) {
		r.settings.Log.Warn("no session with the scheduler; trying again until there is one",
			slog.String("endpoint", d.endpoint),
			slog.String("error", f.message),
			slog.Duration("retry_in", wait))
	}
	r.lastFailed = d.endpoint
	r.at = now.Add(wait)
	return nil
}

// isOpening is true when a Hello is on its way and its answer is not there yet.
func (r *redial) isOpening() bool { return r.dial != nil && r.dial.out != nil }

// stop dials no more.
func (r *redial) stop() {
	r.at = time.Time{}
	if r.dial != nil {
		r.dial.cancel()
		r.dial = nil
	}
}
