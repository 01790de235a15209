package session

import (
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// How sessions begin and end.

func (d *driver) onDial(now time.Time, step dialed) {
	if !d.redial.isDialing(step.id) {
		step.undo()
		return
	}
	switch {
	case step.fault != nil:
		if err := d.redial.failed(now, step.fault, d.current != nil); err != nil {
			d.fail(now, err)
		}
	case step.conn != nil:
		out := newOutbox(d.space)
		out.putControl(d.identity.hello(d.settings, d.table, d.resumeToken))
		d.redial.open(step.conn, out, now)
	default:
		dial := d.redial.succeeded()
		d.links++
		l := newLink(d.links, dial.out, step.opened, now)
		go l.read(d.life, d.inbound)
		d.beginSession(now, dial, l)
	}
}

func (d *driver) beginSession(now time.Time, dial *dial, l *link) {
	welcome := l.session.welcome
	d.settings.Log.Info("session with the scheduler is open",
		slog.String("endpoint", dial.endpoint),
		slog.String("session_id", welcome.GetSessionId()),
		slog.String("node_id", welcome.GetNodeId()),
		slog.Bool("resumed", welcome.GetResumed()))
	if d.current != nil {
		d.current.leave("moved to a new session")
		d.dropFormer()
		d.former = d.current
	}
	d.current = l
	if welcome.GetResumeToken() != "" {
		d.resumeToken = welcome.GetResumeToken()
	}
	d.start.Handle.setConnected(true, now)
	d.redial.knowPeers(welcome.GetPeerEndpoints())
	d.clockTold = false
	d.compareClocks(now, dial.sent, welcome.GetServerTime())
	d.pump.onSession(now, welcome, d.live)
	d.table.OnWelcome(now, dial.sent, welcome)
	d.act(now)
	d.announceDrain(now)
}

// loseSession notes that the current session is over; the next dial is due after a wait.
func (d *driver) loseSession(now time.Time, why string, wait time.Duration) {
	if d.current == nil {
		return
	}
	lasted := now.Sub(d.current.opened)
	d.current.drop()
	d.current = nil
	d.start.Handle.setConnected(false, now)
	if d.phase.dials() {
		d.settings.Log.Warn("session with the scheduler is lost", slog.String("reason", why))
		d.redial.onSessionEnd(now, lasted, wait)
	}
}

func (d *driver) dropFormer() {
	if d.former != nil {
		d.former.drop()
		d.former = nil
	}
}

func (d *driver) onInbound(now time.Time, in inbound) {
	isCurrent := d.current != nil && d.current.id == in.link
	isFormer := d.former != nil && d.former.id == in.link
	switch {
	case !isCurrent && !isFormer:
	case in.end != nil:
		d.onFault(now, isCurrent, in.end)
	case in.response.GetClose() != nil:
		d.onFault(now, isCurrent, faultOfClose(in.response.GetClose()))
	default:
		d.onFrame(now, isCurrent, in.response)
	}
}

func (d *driver) onFault(now time.Time, isCurrent bool, f *fault) {
	if !isCurrent {
		d.dropFormer()
		return
	}
	d.loseSession(now, f.message, f.retryAfter)
	// A session that is being opened beside this one may be what ended it, and its own answer tells
	// whether all is over.
	if f.permanent != nil && !d.redial.isOpening() && !d.settings.KeepTrying && d.phase.dials() {
		d.fail(now, f.permanent)
	}
}

// compareClocks warns, once per session, of a clock that differs from the scheduler's, whose answer
// to what was sent then says theirs. The answer was made between then and now.
func (d *driver) compareClocks(now, sent time.Time, theirs *timestamppb.Timestamp) {
	if !theirs.IsValid() || d.clockTold {
		return
	}
	unsure := max(0, now.Sub(sent)) / 2
	offset := now.Add(-unsure).Sub(theirs.AsTime())
	if offset.Abs() <= clockOffsetWarn+unsure {
		return
	}
	d.clockTold = true
	d.settings.Log.Warn("this machine's clock differs from the scheduler's; times shown will too",
		slog.Duration("offset", offset))
}
