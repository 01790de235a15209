package session

import (
	"slices"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"clawjob.dev/go/internal/logs"
	"clawjob.dev/go/internal/work"
)

const (
	// gather is how long a talkative handler's records are gathered into a chunk.
	gather = 100 * time.Millisecond
	// logFlushMax is how long a result waits for its log to fit into the window; then the rest is
	// dropped and counted.
	logFlushMax = 500 * time.Millisecond
	// resultResendAfter is how long a result may be without an answer before it is sent again on the
	// same session.
	resultResendAfter = 30 * time.Second
)

// live has the attempts whose handler was started here.
type live map[engine.Key]*work.Attempt

// pump moves what handlers have to say into the outbox: progress, log chunks, results. Within an
// attempt that is their order; a result waits for its log, but not for long.
type pump struct {
	shipper *logs.Shipper
	// talkative attempts have progress or log records to send.
	talkative map[engine.Key]bool
	// ready has the finished attempts whose result is to be sent, and since when.
	ready map[engine.Key]time.Time
	// sent has the results sent, oldest first; acknowledged ones are passed over in their time.
	sent []sentResult
	// wake is zero when nothing is due.
	wake time.Time
	// blocked says that the outbox had no space; the next frame that leaves it makes some.
	blocked bool
}

type sentResult struct {
	at  time.Time
	key engine.Key
}

func newPump() *pump {
	return &pump{
		shipper:   logs.NewShipper(),
		talkative: map[engine.Key]bool{},
		ready:     map[engine.Key]time.Time{},
	}
}

// onTalk notes that a handler has logged or told its progress.
func (p *pump) onTalk(key engine.Key, now time.Time) {
	p.talkative[key] = true
	p.wakeAt(now.Add(gather))
}

// hurry says that something can be sent now rather than with the next batch.
func (p *pump) hurry(now time.Time) { p.wakeAt(now) }

// resultReady notes that a result can be sent.
func (p *pump) resultReady(key engine.Key, now time.Time) {
	if _, ok := p.ready[key]; !ok {
		p.ready[key] = now
	}
	p.wakeAt(now)
}

// onSession begins anew: a session has begun that has heard nothing yet. The table names the
// results anew.
func (p *pump) onSession(now time.Time, welcome *clawjobpb.Welcome, held live) {
	p.shipper.OnSession(welcome.GetLogWindowBytes(), welcome.GetMaxLogChunkBytes())
	clear(p.ready)
	clear(p.talkative)
	p.sent = nil
	for key, attempt := range held {
		p.talkative[key] = true
		attempt.Progress.TellAgain()
	}
	p.wakeAt(now)
}

// run fills the outbox with what is due.
func (p *pump) run(now time.Time, out *outbox, table *engine.Engine, held live) {
	due := !p.wake.IsZero() && !p.wake.After(now)
	if !due && len(p.ready) == 0 && !p.blocked {
		return
	}
	p.blocked = false
	if due {
		p.wake = time.Time{}
		p.resend(now, table)
	}
	p.sendResults(now, out, table, held)
	for _, key := range sorted(p.talkative) {
		if !out.hasSpace() {
			p.blocked = true
			return
		}
		delete(p.talkative, key)
		fence, ok := table.Fence(key)
		attempt := held[key]
		if !ok || attempt == nil || table.HasResult(key) {
			continue
		}
		p.sendProgress(now, out, key, fence, attempt, false)
		p.sendLogs(out, key, fence)
		if !p.shipper.HasSentRecords(key) {
			p.talkative[key] = true
		}
	}
}

// resend makes results ready again that got no answer on this session for long.
func (p *pump) resend(now time.Time, table *engine.Engine) {
	for len(p.sent) > 0 && !p.sent[0].at.Add(resultResendAfter).After(now) {
		key := p.sent[0].key
		p.sent = p.sent[1:]
		if table.HasResult(key) {
			p.ready[key] = now
		}
	}
	if len(p.sent) > 0 {
		p.wakeAt(p.sent[0].at.Add(resultResendAfter))
	}
}

func (p *pump) sendResults(now time.Time, out *outbox, table *engine.Engine, held live) {
	for _, key := range sorted(p.ready) {
		if !out.hasSpace() {
			p.blocked = true
			return
		}
		since := p.ready[key]
		result := table.Result(key)
		if result == nil {
			delete(p.ready, key)
			continue
		}
		fence := result.GetRef().GetFence()
		if attempt := held[key]; attempt != nil {
			p.sendProgress(now, out, key, fence, attempt, true)
		}
		p.sendLogs(out, key, fence)
		if !p.shipper.IsSent(key) {
			limit := since.Add(logFlushMax)
			if !p.shipper.HasSentRecords(key) && now.Before(limit) {
				p.wakeAt(limit)
				continue
			}
			if rest := p.shipper.GiveUp(key, fence); rest != nil {
				out.putData(logFrame(rest))
			}
		}
		delete(p.ready, key)
		result.LastLogSeq = p.shipper.LastSeq(key)
		out.putData(&clawjobpb.SessionRequest{
			Frame: &clawjobpb.SessionRequest_Result{Result: result},
		})
		p.sent = append(p.sent, sentResult{now, key})
		p.wakeAt(now.Add(resultResendAfter))
	}
}

func (p *pump) sendProgress(
	now time.Time,
	out *outbox,
	key engine.Key,
	fence uint64,
	attempt *work.Attempt,
	last bool,
) {
	frame, next := attempt.Progress.Take(now, last)
	if frame == nil {
		if !next.IsZero() {
			p.talkative[key] = true
			p.wakeAt(next)
		}
		return
	}
	frame.Ref = key.Ref(fence)
	// A full lane ends the session at the next heartbeat, and the next one is told.
	out.putControl(&clawjobpb.SessionRequest{
		Frame: &clawjobpb.SessionRequest_Progress{Progress: frame},
	})
}

func (p *pump) sendLogs(out *outbox, key engine.Key, fence uint64) {
	for out.hasSpace() {
		chunk := p.shipper.NextChunk(key, fence)
		if chunk == nil {
			return
		}
		out.putData(logFrame(chunk))
	}
}

func logFrame(chunk *clawjobpb.LogChunk) *clawjobpb.SessionRequest {
	return &clawjobpb.SessionRequest{Frame: &clawjobpb.SessionRequest_LogChunk{LogChunk: chunk}}
}

func (p *pump) wakeAt(at time.Time) {
	if p.wake.IsZero() || at.Before(p.wake) {
		p.wake = at
	}
}

func sorted[V any](m map[engine.Key]V) []engine.Key {
	keys := make([]engine.Key, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, engine.Key.Compare)
	return keys
}
