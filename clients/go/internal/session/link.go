package session

import (
	"context"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// heartbeatIntervalDefault is used when the Welcome names none.
	heartbeatIntervalDefault = 5 * time.Second
	// heartbeatIntervalMin is the shortest interval taken from a Welcome.
	heartbeatIntervalMin = 50 * time.Millisecond
	// heartbeatIntervalMax is the longest one: what is in the way between the two may cut a stream that
	// is idle for long.
	heartbeatIntervalMax = 10 * time.Minute
	// heartbeatTimeoutDefault is how long without a HeartbeatAck ends a session, when the Welcome
	// names no time.
	heartbeatTimeoutDefault = 15 * time.Second
	// heartbeatJitter is the part of an interval that a heartbeat may come early or late.
	heartbeatJitter = 0.1
	// credentialLifeUsed is the part of a credential's life after which a session with a fresh one
	// is opened.
	credentialLifeUsed = 0.8
	// renewAfterMin is the shortest life of a session that is renewed for its credential's sake.
	renewAfterMin = 500 * time.Millisecond
	// unackedMax is how many heartbeats are remembered until they are acknowledged. A scheduler whose
	// database is away acknowledges none; the oldest are forgotten then, as if no ack of them had come.
	unackedMax = 1024
)

// inbound is what comes from a session's reader: a frame, or the end of the stream.
type inbound struct {
	link     uint64
	response *clawjobpb.SessionResponse
	end      *fault
}

// link is an open session: its outbox, its heartbeats, its age.
type link struct {
	id     uint64
	out    *outbox
	opened time.Time
	// renewAt is when to open the next session because the credential ends; zero means never.
	renewAt time.Time

	session  *opened
	interval time.Duration
	timeout  time.Duration
	nextBeat time.Time
	seq      uint64
	// unacked heartbeats, oldest first.
	unacked []beat
	// heard is when the scheduler last answered.
	heard time.Time
}

type beat struct {
	seq  uint64
	sent time.Time
}

func newLink(id uint64, out *outbox, session *opened, now time.Time) *link {
	welcome := session.welcome
	l := &link{
		id: id, out: out, session: session, opened: now, nextBeat: now, heard: now,
		interval: heartbeatIntervalDefault,
		timeout:  heartbeatTimeoutDefault,
	}
	if interval, ok := wire.Positive(welcome.GetHeartbeatInterval()); ok {
		l.interval = min(max(interval, heartbeatIntervalMin), heartbeatIntervalMax)
	}
	if timeout, ok := wire.Positive(welcome.GetHeartbeatTimeout()); ok {
		l.timeout = timeout
	}
	l.timeout = max(l.timeout, part(l.interval, 1+heartbeatJitter))
	if life := credentialLife(welcome); life > 0 {
		l.renewAt = now.Add(max(part(life, credentialLifeUsed), renewAfterMin))
	}
	return l
}

// read moves frames from the stream to the driver, in its own goroutine.
func (l *link) read(ctx context.Context, frames chan<- inbound) {
	for {
		response, f := receive(l.session.stream)
		select {
		case frames <- inbound{l.id, response, f}:
		case <-ctx.Done():
			return
		}
		if f != nil {
			return
		}
	}
}

// beat is the heartbeat that is due, without what the table adds to it; nil when none is.
func (l *link) beat(now time.Time, random func() float64) *clawjobpb.Heartbeat {
	if now.Before(l.nextBeat) {
		return nil
	}
	lag := now.Sub(l.nextBeat)
	if l.seq == 0 {
		lag = 0
	}
	l.nextBeat = now.Add(part(l.interval, 1-heartbeatJitter+2*heartbeatJitter*random()))
	l.seq++
	if len(l.unacked) >= unackedMax {
		l.unacked = l.unacked[1:]
	}
	l.unacked = append(l.unacked, beat{l.seq, now})
	return &clawjobpb.Heartbeat{Seq: l.seq, Lag: durationpb.New(lag)}
}

// onAck is when the acknowledged heartbeat was sent; false when it is not known.
func (l *link) onAck(now time.Time, seq uint64) (sent time.Time, ok bool) {
	for len(l.unacked) > 0 && l.unacked[0].seq <= seq {
		sent, ok = l.unacked[0].sent, true
		l.unacked = l.unacked[1:]
	}
	l.heard = now
	return sent, ok
}

// deadAt is when silence makes the session dead.
func (l *link) deadAt() time.Time { return l.heard.Add(l.timeout) }

func (l *link) isDead(now time.Time) bool { return !now.Before(l.deadAt()) }

// leave says goodbye and ends the upward stream; the reader goes on until the peer ends too.
func (l *link) leave(reason string) {
	l.out.close(&clawjobpb.SessionRequest{Frame: &clawjobpb.SessionRequest_Goodbye{
		Goodbye: &clawjobpb.Goodbye{Reason: reason},
	}})
}

// drop cuts the session.
func (l *link) drop() {
	l.out.close(nil)
	l.session.end()
}

// credentialLife is how long the credential works, by the scheduler's clock alone; 0 when that is
// not known.
func credentialLife(welcome *clawjobpb.Welcome) time.Duration {
	end, start := welcome.GetAuthExpireTime(), welcome.GetServerTime()
	if !end.IsValid() || !start.IsValid() {
		return 0
	}
	return end.AsTime().Sub(start.AsTime())
}

func part(span time.Duration, share float64) time.Duration {
	return time.Duration(float64(span) * share)
}
