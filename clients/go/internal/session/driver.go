package session

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"clawjob.dev/go/internal/wire"
	"clawjob.dev/go/internal/work"
)

const (
	// inboundMax bounds the frames from sessions that wait for the loop.
	inboundMax = 256
	// endedMax bounds the handler ends that wait for the loop; further ended handlers wait.
	endedMax = 1024
	// dialStepsMax bounds the steps of dials that wait for the loop.
	dialStepsMax = 8
	// capacityEvery is the shortest time between two Capacity frames; the newest wins.
	capacityEvery = 100 * time.Millisecond
	// clockOffsetWarn is the clock difference to the scheduler above which a warning is logged.
	clockOffsetWarn = 2 * time.Second
)

// handlerEnd is a handler's end on its way to the loop.
type handlerEnd struct {
	key    engine.Key
	ending engine.Ending
}

// driver is the loop that ties the table of attempts to sessions, handlers and time. It never waits
// for a peer or for a handler: everything it does is a queue operation.
type driver struct {
	start    Start
	settings *Settings
	identity identity
	table    *engine.Engine
	live     live
	pump     *pump
	current  *link
	// former is the session that a newer one has replaced, until its peer ends it.
	former      *link
	redial      *redial
	phase       phase
	stop        Stop
	paused      map[string]bool
	resumeToken string
	// clockTold is whether it was told in this session that the clocks differ.
	clockTold bool
	// capacity is what to tell of a changed capacity, and capacityAt when at the earliest.
	capacity   *clawjobpb.SessionRequest
	capacityAt time.Time
	links      uint64

	// life ends when the loop does, and with it every goroutine of the session.
	life    context.Context
	endLife context.CancelFunc
	wake    *work.Wake
	space   chan struct{}
	inbound chan inbound
	ended   chan handlerEnd
	dials   chan dialed
}

func newDriver(start Start, now time.Time) *driver {
	settings := &start.Settings
	life, endLife := context.WithCancel(context.Background())
	d := &driver{
		start:      start,
		settings:   settings,
		identity:   newIdentity(settings, start.Registry, now),
		table:      engine.New(settings.Slots, start.Registry.Limits(), now),
		live:       live{},
		pump:       newPump(),
		paused:     map[string]bool{},
		capacityAt: now,
		life:       life,
		endLife:    endLife,
		wake:       work.NewWake(),
		space:      make(chan struct{}, 1),
		inbound:    make(chan inbound, inboundMax),
		ended:      make(chan handlerEnd, endedMax),
		dials:      make(chan dialed, dialStepsMax),
	}
	d.redial = newRedial(life, settings, d.dials, now, rand.Float64)
	return d
}

// run runs until the end has been asked for and reached.
func (d *driver) run() error {
	defer d.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	d.onWish(time.Now())
	for {
		select {
		case <-d.start.Handle.changed:
			d.onWish(time.Now())
		case ended := <-d.ended:
			d.table.OnEnding(time.Now(), ended.key, ended.ending)
		case step := <-d.dials:
			d.onDial(time.Now(), step)
		case in := <-d.inbound:
			d.onInbound(time.Now(), in)
		case <-d.wake.C():
			d.onHandlersWake(time.Now())
		case <-d.space:
		case <-timer.C:
		}
		now := time.Now()
		d.tick(now)
		if over, err := d.stepPhase(now); over {
			return err
		}
		if wake := d.nextWake(); !wake.IsZero() {
			timer.Reset(max(0, time.Until(wake)))
		} else {
			timer.Stop()
		}
	}
}

// close ends everything that the loop has started, but for handlers that ignore their kill.
func (d *driver) close() {
	d.endLife()
	for _, l := range []*link{d.current, d.former} {
		if l != nil {
			l.drop()
		}
	}
	for {
		select {
		case step := <-d.dials:
			step.undo()
		default:
			d.start.Handle.setConnected(false, time.Now())
			return
		}
	}
}

// nextWake is when the loop has something to do at the latest; zero means when something happens.
func (d *driver) nextWake() time.Time {
	times := []time.Time{d.table.NextWake(), d.redial.at, d.phase.until}
	if d.capacity != nil {
		times = append(times, d.capacityAt)
	}
	if d.current != nil {
		// Without a session the pump has nowhere to send to.
		times = append(times,
			d.current.nextBeat, d.current.deadAt(), d.current.renewAt, d.pump.wake)
	}
	if d.former != nil {
		times = append(times, d.former.deadAt())
	}
	var next time.Time
	for _, at := range times {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func (d *driver) tick(now time.Time) {
	d.table.Tick(now)
	d.act(now)
	if d.capacity != nil && !d.capacityAt.After(now) {
		frame := d.capacity
		d.capacity, d.capacityAt = nil, now.Add(capacityEvery)
		d.send(now, frame)
	}
	d.tickLink(now)
	d.redial.tick(now)
	if d.current != nil {
		d.pump.run(now, d.current.out, d.table, d.live)
	}
}

func (d *driver) tickLink(now time.Time) {
	if d.former != nil && d.former.isDead(now) {
		d.dropFormer()
	}
	if d.current == nil {
		return
	}
	if d.current.isDead(now) {
		d.redial.onSilence()
		d.loseSession(now, "no answer to heartbeats", 0)
		return
	}
	if renewAt := d.current.renewAt; !renewAt.IsZero() && !renewAt.After(now) {
		d.current.renewAt = time.Time{}
		d.redial.moveTo(now, 0, nil)
	}
	beat := d.current.beat(now, rand.Float64)
	if beat == nil {
		return
	}
	full := d.table.Heartbeat()
	full.Seq, full.Lag = beat.GetSeq(), beat.GetLag()
	var dropped uint64
	for _, attempt := range d.live {
		dropped += attempt.Log.TakeBytesDropped()
	}
	full.LogBytesDropped = uint32(min(dropped, math.MaxUint32))
	d.send(now, &clawjobpb.SessionRequest{
		Frame: &clawjobpb.SessionRequest_Heartbeat{Heartbeat: full},
	})
}

// send queues a control frame; without a session it is dropped, as the next Hello says it all.
func (d *driver) send(now time.Time, frame *clawjobpb.SessionRequest) {
	if d.current != nil && !d.current.out.putControl(frame) {
		d.loseSession(now, "the scheduler does not read", 0)
	}
}

// act carries out what the table asks for.
func (d *driver) act(now time.Time) {
	for _, action := range d.table.TakeActions() {
		attempt := d.live[action.Key]
		switch action.Kind {
		case engine.Send:
			if action.Frame.GetCapacity() != nil {
				d.capacity = action.Frame
			} else {
				d.send(now, action.Frame)
			}
		case engine.Stop:
			if attempt != nil {
				attempt.Stop(action.Reason)
			}
		case engine.Abandon:
			// A goroutine cannot be ended from outside: it keeps its slot until it returns.
			d.settings.Log.Warn("a handler ignores its stop; its slot stays taken until it returns",
				slog.String("run_id", action.Key.RunID),
				slog.Uint64("attempt", uint64(action.Key.Attempt)))
		case engine.Result:
			if attempt != nil {
				attempt.Log.Close()
			}
			d.pump.resultReady(action.Key, now)
		case engine.Forget:
			delete(d.live, action.Key)
			d.pump.shipper.Forget(action.Key)
		}
	}
}

func (d *driver) onWish(now time.Time) {
	stop, paused := d.start.Handle.wish()
	d.stop = stop
	for handler := range paused {
		d.table.Pause(handler, true)
	}
	for handler := range d.paused {
		if !paused[handler] {
			d.table.Pause(handler, false)
		}
	}
	d.paused = paused
	d.act(now)
}

func (d *driver) onHandlersWake(now time.Time) {
	keys, urgent := d.wake.Take()
	for _, key := range keys {
		if d.live[key] != nil {
			d.pump.onTalk(key, now)
		}
	}
	if urgent {
		d.pump.hurry(now)
	}
}

// onRun starts a run, or says why not. Decoding is all of the user's code that runs here, and a
// panic in it is caught.
func (d *driver) onRun(now time.Time, command *clawjobpb.RunCommand) {
	call, refused := d.start.Registry.Prepare(command.GetHandler(), command.GetParams())
	key, starts := d.table.OnRun(now, command, refused)
	d.act(now)
	if !starts {
		return
	}
	attempt := work.NewAttempt(d.start.Base, now, command, d.wake.Waker(key))
	d.pump.shipper.Add(key, attempt.Log)
	d.live[key] = attempt
	go work.Execute(call, attempt, d.start.Intercept, func(ending engine.Ending) {
		attempt.End()
		select {
		case d.ended <- handlerEnd{key, ending}:
		case <-d.life.Done():
			// The loop is gone, and with it everybody who would want to know.
		}
	})
}

func (d *driver) onFrame(now time.Time, isCurrent bool, response *clawjobpb.SessionResponse) {
	switch frame := response.GetFrame().(type) {
	case *clawjobpb.SessionResponse_Run:
		d.onRun(now, frame.Run)
	case *clawjobpb.SessionResponse_Kill:
		d.table.OnKill(now, frame.Kill)
	case *clawjobpb.SessionResponse_ResultAck:
		d.table.OnResultAck(now, frame.ResultAck)
	case *clawjobpb.SessionResponse_LogAck:
		d.pump.shipper.OnAck(frame.LogAck.GetRef(), frame.LogAck.GetThroughSeq())
		d.pump.hurry(now)
	case *clawjobpb.SessionResponse_HeartbeatAck:
		l := d.former
		if isCurrent {
			l = d.current
		}
		if sent, ok := l.onAck(now, frame.HeartbeatAck.GetSeq()); ok {
			d.table.OnContact(sent)
			d.compareClocks(now, sent, frame.HeartbeatAck.GetServerTime())
		}
	case *clawjobpb.SessionResponse_Drain:
		if isCurrent && d.phase.dials() {
			within, ok := wire.Span(frame.Drain.GetReconnectWithin())
			if !ok {
				within = d.settings.Reconnect.First
			}
			d.redial.moveTo(now, within, frame.Drain.GetPeerEndpoints())
		}
	case *clawjobpb.SessionResponse_Welcome:
		// A second Welcome is a fault of the peer's without an effect here.
	default:
		d.settings.Log.Debug("a frame of an unknown kind is passed over")
	}
	d.act(now)
}
