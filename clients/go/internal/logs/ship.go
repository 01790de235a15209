package logs

import (
	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
)

const (
	// chunkBytesDefault is the chunk size until a Welcome names another.
	chunkBytesDefault = 64 << 10
	// windowBytesDefault is the window until a Welcome names another.
	windowBytesDefault = 256 << 10
)

// Shipper has all attempts whose log is not acknowledged yet, under one window per session:
// chunks of records are numbered, sent, and kept until acknowledged.
type Shipper struct {
	ships    map[engine.Key]*ship
	inFlight int
	window   int
	chunkMax int
}

type ship struct {
	sink    *Sink
	nextSeq uint64
	// kept chunks were cut and are not acknowledged, oldest first; sent counts those that this
	// session has sent.
	kept []kept
	sent int
}

type kept struct {
	chunk   *clawjobpb.LogChunk
	bytes   int
	lastSeq uint64
}

// NewShipper is a shipper with the default window.
func NewShipper() *Shipper {
	return &Shipper{
		ships:    map[engine.Key]*ship{},
		window:   windowBytesDefault,
		chunkMax: chunkBytesDefault,
	}
}

// Add takes charge of an attempt's log.
func (s *Shipper) Add(key engine.Key, sink *Sink) {
	s.ships[key] = &ship{sink: sink, nextSeq: 1}
}

// OnSession begins anew: a new session has received nothing yet. Limits of 0 keep the old ones.
func (s *Shipper) OnSession(window, chunkMax uint32) {
	if window > 0 {
		s.window = int(window)
	}
	if chunkMax > 0 {
		s.chunkMax = int(chunkMax)
	}
	s.inFlight = 0
	for _, ship := range s.ships {
		ship.sent = 0
	}
}

// NextChunk is the next chunk of an attempt that the window has room for; nil when there is none.
func (s *Shipper) NextChunk(key engine.Key, fence uint64) *clawjobpb.LogChunk {
	ship := s.ships[key]
	if ship == nil {
		return nil
	}
	again := ship.sent < len(ship.kept)
	bytes := 0
	if again {
		bytes = ship.kept[ship.sent].bytes
	} else {
		bytes = ship.sink.nextBytes(s.chunkMax)
	}
	if s.inFlight > 0 && s.inFlight+bytes > s.window {
		return nil
	}
	if !again {
		cut, ok := ship.sink.cut(s.chunkMax)
		if !ok {
			return nil
		}
		ship.keep(&clawjobpb.LogChunk{Records: cut.Records, Dropped: cut.Dropped}, cut.Bytes)
	}
	next := ship.kept[ship.sent]
	ship.sent++
	s.inFlight += next.bytes
	return under(next.chunk, key, fence)
}

// IsSent is true when everything the attempt said has been sent in this session.
func (s *Shipper) IsSent(key engine.Key) bool {
	ship := s.ships[key]
	return ship == nil || (ship.sent == len(ship.kept) && ship.sink.IsEmpty())
}

// HasSentRecords is true when every record has been sent in this session; how many were dropped last
// may still have to be told.
func (s *Shipper) HasSentRecords(key engine.Key) bool {
	ship := s.ships[key]
	return ship == nil || (ship.sent == len(ship.kept) && !ship.sink.hasRecords())
}

// GiveUp drops what the attempt still has unsent; the chunk to send tells how much that was, nil
// when nothing was. The attempt has ended, so the numbers given back are used for nothing else.
func (s *Shipper) GiveUp(key engine.Key, fence uint64) *clawjobpb.LogChunk {
	ship := s.ships[key]
	if ship == nil {
		return nil
	}
	dropped := ship.sink.giveUp()
	for _, unsent := range ship.kept[ship.sent:] {
		dropped += uint64(len(unsent.chunk.GetRecords())) + unsent.chunk.GetDropped()
		ship.nextSeq = min(ship.nextSeq, unsent.chunk.GetFirstSeq())
	}
	ship.kept = ship.kept[:ship.sent]
	if dropped == 0 {
		return nil
	}
	ship.keep(&clawjobpb.LogChunk{Dropped: dropped}, 0)
	ship.sent++
	return under(ship.kept[len(ship.kept)-1].chunk, key, fence)
}

// OnAck notes that the scheduler has stored records up to throughSeq.
func (s *Shipper) OnAck(acked *clawjobpb.AttemptRef, throughSeq uint64) {
	ship := s.ships[engine.KeyOf(acked)]
	if ship == nil {
		return
	}
	for ship.sent > 0 && ship.kept[0].lastSeq <= throughSeq {
		s.inFlight = max(0, s.inFlight-ship.kept[0].bytes)
		ship.kept[0] = kept{}
		ship.kept = ship.kept[1:]
		ship.sent--
	}
}

// LastSeq is the number of the attempt's last record; 0 when it said nothing.
func (s *Shipper) LastSeq(key engine.Key) uint64 {
	if ship := s.ships[key]; ship != nil {
		return ship.nextSeq - 1
	}
	return 0
}

// Forget lets go of an attempt whose result is acknowledged.
func (s *Shipper) Forget(key engine.Key) {
	ship := s.ships[key]
	if ship == nil {
		return
	}
	delete(s.ships, key)
	for _, sent := range ship.kept[:ship.sent] {
		s.inFlight = max(0, s.inFlight-sent.bytes)
	}
}

func (s *ship) keep(chunk *clawjobpb.LogChunk, bytes int) {
	chunk.FirstSeq = s.nextSeq
	s.nextSeq += uint64(len(chunk.GetRecords()))
	s.kept = append(s.kept, kept{chunk: chunk, bytes: bytes, lastSeq: s.nextSeq - 1})
}

// under is the chunk with its reference; the records are shared and never changed.
func under(chunk *clawjobpb.LogChunk, key engine.Key, fence uint64) *clawjobpb.LogChunk {
	return &clawjobpb.LogChunk{
		Ref:      key.Ref(fence),
		FirstSeq: chunk.GetFirstSeq(),
		Records:  chunk.GetRecords(),
		Dropped:  chunk.GetDropped(),
	}
}
