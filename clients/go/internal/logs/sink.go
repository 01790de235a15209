// Package logs carries the log of each attempt to the scheduler: a bounded buffer that handlers
// write to ([Sink]) and the windowed shipping of it in chunks ([Shipper]).
package logs

import (
	"sync"
	"sync/atomic"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// RecordsPerSecondMax is how many records one attempt may log in a second; later ones of that
	// second are dropped.
	RecordsPerSecondMax = 1_000
	// AttemptBytesMax is how many bytes one attempt may log in all; later records are dropped.
	AttemptBytesMax = 10 << 20
	// FieldsMax is how many fields of a record are kept; the rest are left out.
	FieldsMax = 32

	// bufferBytesMax bounds what waits to be sent of one attempt; beyond it the oldest are dropped.
	bufferBytesMax = 256 << 10
	// chunkBytes is how much waiting makes a chunk at once.
	chunkBytes = 48 << 10
	// messageBytesMax is the longest message of a record; a longer one is cut in the middle.
	messageBytesMax = 16 << 10
	// fieldBytesMax is the longest value of a field; a longer one is cut in the middle.
	fieldBytesMax = 1 << 10
	// fieldNameBytesMax is the longest name of a field; a longer one is cut in the middle. With it the
	// largest record fits into a chunk.
	fieldNameBytesMax = 128
)

// Sink is where a handler's log records go until they are sent. It is safe for concurrent use.
type Sink struct {
	mutex sync.Mutex
	// records wait, oldest first; bytes is their size.
	records []waiting
	bytes   int
	// tailDropped counts the records dropped after the last one.
	tailDropped uint64
	// taken is the size of all records taken so far.
	taken    int
	second   time.Time
	inSecond int
	closed   bool

	wake         func(urgent bool)
	bytesDropped atomic.Uint64
}

type waiting struct {
	record *clawjobpb.LogRecord
	bytes  int
	// dropped counts the records dropped just before this one.
	dropped uint64
}

// Cut has the records cut off for one chunk.
type Cut struct {
	// Records in their order.
	Records []*clawjobpb.LogRecord
	// Bytes of the records.
	Bytes int
	// Dropped counts the records dropped just before the first one.
	Dropped uint64
}

// NewSink is an empty sink; wake is told when there is something to send, nil for nobody.
func NewSink(wake func(urgent bool)) *Sink {
	if wake == nil {
		wake = func(bool) {}
	}
	return &Sink{wake: wake}
}

// Field is a name and a value of a record.
type Field struct{ Name, Value string }

// Push takes a record, or counts it as dropped when a bound is passed. Records that come after
// [Sink.Close] are dropped without being counted.
func (s *Sink) Push(now time.Time, level clawjobpb.LogLevel, message string, fields []Field) {
	record := &clawjobpb.LogRecord{
		Time:    timestamppb.New(now),
		Level:   level,
		Message: wire.Cut(message, messageBytesMax),
	}
	if len(fields) > 0 {
		record.Fields = make(map[string]string, min(len(fields), FieldsMax))
		for _, field := range fields[:min(len(fields), FieldsMax)] {
			name := wire.Cut(field.Name, fieldNameBytesMax)
			record.Fields[name] = wire.Cut(field.Value, fieldBytesMax)
		}
	}
	urgent, ok := s.take(now, waiting{record: record, bytes: proto.Size(record)})
	if ok {
		s.wake(urgent)
	}
}

func (s *Sink) take(now time.Time, next waiting) (urgent, ok bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return false, false
	}
	if !s.admit(now, next.bytes) {
		s.tailDropped++
		s.bytesDropped.Add(uint64(next.bytes))
		return s.bytes >= chunkBytes, true
	}
	next.dropped, s.tailDropped = s.tailDropped, 0
	s.records = append(s.records, next)
	s.bytes += next.bytes
	for s.bytes > bufferBytesMax {
		s.dropOldest()
	}
	return s.bytes >= chunkBytes, true
}

// admit is whether the rate and the size of the attempt's log leave room for another record.
func (s *Sink) admit(now time.Time, bytes int) bool {
	if s.second.IsZero() || now.Sub(s.second) >= time.Second {
		s.second, s.inSecond = now, 0
	}
	if s.inSecond >= RecordsPerSecondMax || s.taken+bytes > AttemptBytesMax {
		return false
	}
	s.inSecond++
	s.taken += bytes
	return true
}

// Close takes no more records: the attempt has ended, and its result names its last one.
func (s *Sink) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closed = true
}

// TakeBytesDropped is how many bytes were dropped since the last call.
func (s *Sink) TakeBytesDropped() uint64 { return s.bytesDropped.Swap(0) }

// IsEmpty is true when neither a record nor a count of dropped ones waits.
func (s *Sink) IsEmpty() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.records) == 0 && s.tailDropped == 0
}

// hasRecords is true when a record waits.
func (s *Sink) hasRecords() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.records) > 0
}

// Drain takes everything that waits, with the number of records dropped.
func (s *Sink) Drain() (records []*clawjobpb.LogRecord, dropped uint64) {
	for {
		cut, ok := s.cut(AttemptBytesMax)
		if !ok {
			return records, dropped + s.giveUp()
		}
		records = append(records, cut.Records...)
		dropped += cut.Dropped
	}
}

// nextBytes is the size of the next chunk of at most limit bytes, without cutting it.
func (s *Sink) nextBytes(limit int) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, bytes := s.span(limit)
	return bytes
}

// cut cuts the next chunk. One record is cut off even when it is larger than limit. What was dropped
// last waits for a record to come with, whose number tells a repetition apart.
func (s *Sink) cut(limit int) (Cut, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	count, bytes := s.span(limit)
	if count == 0 {
		return Cut{}, false
	}
	cut := Cut{Bytes: bytes, Dropped: s.records[0].dropped}
	for _, next := range s.records[:count] {
		cut.Records = append(cut.Records, next.record)
	}
	clear(s.records[:count])
	s.records = s.records[count:]
	s.bytes -= bytes
	return cut, true
}

// giveUp drops all that waits and returns how many records were dropped and not told of yet.
func (s *Sink) giveUp() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for len(s.records) > 0 {
		s.dropOldest()
	}
	dropped := s.tailDropped
	s.tailDropped = 0
	return dropped
}

// span is how many records, and bytes, the next chunk takes: a gap starts a new chunk, since a
// chunk tells of the records dropped before its first only.
func (s *Sink) span(limit int) (count, bytes int) {
	for _, next := range s.records {
		if count > 0 && (next.dropped > 0 || bytes+next.bytes > limit) {
			break
		}
		count++
		bytes += next.bytes
	}
	return count, bytes
}

func (s *Sink) dropOldest() {
	lost := s.records[0]
	s.records[0] = waiting{}
	s.records = s.records[1:]
	s.bytes -= lost.bytes
	s.bytesDropped.Add(uint64(lost.bytes))
	if len(s.records) > 0 {
		s.records[0].dropped += lost.dropped + 1
	} else {
		s.tailDropped += lost.dropped + 1
	}
}
