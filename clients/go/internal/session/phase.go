package session

import (
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// stopGrace is how long handlers have to stop once the executor ends; then they are abandoned.
	stopGrace = 2 * time.Second
	// lastAcksMax is how long the end waits for the acknowledgements of the last results.
	lastAcksMax = 2 * time.Second
	// goodbyeMax is how long the end waits for the scheduler to end the stream after the Goodbye.
	goodbyeMax = time.Second
)

// phaseKind is how far the end has come.
type phaseKind int

const (
	// serving: no end in sight.
	serving phaseKind = iota
	// draining: nothing new is taken; handlers may finish until then.
	draining
	// stopping: handlers were told to stop and are abandoned then.
	stopping
	// lastAcks: the last results wait for their acks until then.
	lastAcks
	// leaving: Goodbye was said; the streams end by then.
	leaving
	// failed: the scheduler refuses this executor; handlers were told to stop, with this error to
	// come.
	failed
)

// phase is how the executor comes to its end: drain, stop, last words.
type phase struct {
	kind phaseKind
	// until is zero while serving.
	until time.Time
	err   error
}

// dials is true while a lost session is worth another dial.
func (p phase) dials() bool { return p.kind != leaving && p.kind != failed }

// stepPhase moves towards the end as far as now allows; the end itself is over.
func (d *driver) stepPhase(now time.Time) (over bool, err error) {
	if d.phase.kind == serving && d.stop == StopNo {
		return false, nil
	}
	late := !d.phase.until.IsZero() && !now.Before(d.phase.until)
	switch d.phase.kind {
	case serving:
		d.settings.Log.Info("draining: no new runs are taken")
		d.phase = phase{kind: draining, until: now.Add(d.settings.ShutdownGrace)}
		d.table.Drain()
		d.announceDrain(now)
		return d.stepPhase(now)
	case draining:
		if d.table.IsEmpty() {
			d.leave(now)
		} else if late || d.stop == StopNow {
			d.table.StopAll(now, engine.StopShutdown, stopGrace)
			d.act(now)
			d.phase = phase{kind: stopping, until: now.Add(stopGrace)}
		}
	case stopping:
		if d.table.IsIdle() || late {
			d.phase = phase{kind: lastAcks, until: now.Add(lastAcksMax)}
			return d.stepPhase(now)
		}
	case lastAcks:
		if d.table.IsEmpty() || late {
			d.leave(now)
		}
	case leaving:
		return late || (d.current == nil && d.former == nil), nil
	case failed:
		return late || d.table.IsIdle(), d.phase.err
	}
	return false, nil
}

// announceDrain tells the scheduler of the drain, also on a session that begins during it.
func (d *driver) announceDrain(now time.Time) {
	if d.phase.kind != draining {
		return
	}
	expected := durationpb.New(max(0, d.phase.until.Sub(now)))
	d.send(now, &clawjobpb.SessionRequest{Frame: &clawjobpb.SessionRequest_Drain{
		Drain: &clawjobpb.ExecutorDrain{Expected: expected},
	}})
}

func (d *driver) leave(now time.Time) {
	d.redial.stop()
	for _, l := range []*link{d.current, d.former} {
		if l != nil {
			l.leave("shutdown")
		}
	}
	d.phase = phase{kind: leaving, until: now}
	if d.current != nil {
		d.phase.until = now.Add(goodbyeMax)
	}
}

// fail notes that the scheduler refuses this executor for good: handlers stop, and the error comes
// out.
func (d *driver) fail(now time.Time, err error) {
	d.settings.Log.Error("giving up", "error", err.Error())
	d.redial.stop()
	d.table.Drain()
	d.table.StopAll(now, engine.StopShutdown, stopGrace)
	d.act(now)
	d.phase = phase{kind: failed, until: now.Add(stopGrace), err: err}
}
