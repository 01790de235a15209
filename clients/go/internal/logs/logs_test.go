package logs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"google.golang.org/protobuf/proto"
)

const info = clawjobpb.LogLevel_LOG_LEVEL_INFO

func say(sink *Sink, count int) {
	for i := range count {
		sink.Push(time.Now(), info, fmt.Sprintf("%0100d", i), nil)
	}
}

func TestRecordsBeyondTheRateAreCountedAtTheirPlace(t *testing.T) {
	sink, now := NewSink(nil), time.Now()
	for i := range RecordsPerSecondMax + 7 {
		sink.Push(now, info, fmt.Sprint(i), nil)
	}
	sink.Push(now.Add(time.Second), info, "later", nil)
	first, _ := sink.cut(AttemptBytesMax)
	second, _ := sink.cut(AttemptBytesMax)
	if len(first.Records) != 1000 || first.Dropped != 0 {
		t.Errorf("first: %d records, %d dropped", len(first.Records), first.Dropped)
	}
	if len(second.Records) != 1 || second.Dropped != 7 || !sink.IsEmpty() {
		t.Errorf("second: %d records, %d dropped", len(second.Records), second.Dropped)
	}
}

func TestAFullBufferDropsTheOldestAndCountsExactly(t *testing.T) {
	sink, now := NewSink(nil), time.Now()
	for range 100 {
		sink.Push(now, info, strings.Repeat("x", 8<<10), nil)
	}
	records, dropped := sink.Drain()
	if uint64(len(records))+dropped != 100 || len(records) < 30 || dropped == 0 {
		t.Errorf("%d records, %d dropped", len(records), dropped)
	}
	if bytes := sink.TakeBytesDropped(); bytes < dropped*8<<10 {
		t.Errorf("%d bytes dropped", bytes)
	}
}

func TestAnAttemptLogsTenMebibytesAtMost(t *testing.T) {
	sink, now, kept := NewSink(nil), time.Now(), 0
	for i := range 700 {
		at := now.Add(time.Duration(i) * time.Second)
		sink.Push(at, info, strings.Repeat("x", messageBytesMax), nil)
		records, _ := sink.Drain()
		kept += len(records)
	}
	if kept < 630 || kept > 640 {
		t.Errorf("%d records", kept)
	}
}

func TestRecordsAreBoundedAndCanBeSentWhateverTheySay(t *testing.T) {
	sink := NewSink(nil)
	var fields []Field
	for i := range 100 {
		name := fmt.Sprint("f", i, strings.Repeat("n", 5000))
		fields = append(fields, Field{name, strings.Repeat("\xff", 5000)})
	}
	sink.Push(time.Now(), info, strings.Repeat("\xfe", 50_000), fields)
	records, _ := sink.Drain()
	data, err := proto.Marshal(records[0])
	if err != nil || len(records[0].GetFields()) != FieldsMax || len(data) > chunkBytesDefault {
		t.Errorf("%d bytes, %d fields: %v", len(data), len(records[0].GetFields()), err)
	}
}

func TestAClosedSinkTakesNothing(t *testing.T) {
	sink := NewSink(nil)
	sink.Close()
	say(sink, 3)
	if !sink.IsEmpty() {
		t.Error("it took a record")
	}
}

func shipper(window, chunk uint32) (*Shipper, engine.Key, *Sink) {
	s, key, sink := NewShipper(), engine.Key{RunID: "run", Attempt: 1}, NewSink(nil)
	s.OnSession(window, chunk)
	s.Add(key, sink)
	return s, key, sink
}

func TestC44TheWindowHoldsChunksBackUntilAnAck(t *testing.T) {
	s, key, sink := shipper(500, 300)
	say(sink, 6)
	first, second := s.NextChunk(key, 1), s.NextChunk(key, 1)
	if first.GetFirstSeq() != 1 || len(first.GetRecords()) != 2 || second.GetFirstSeq() != 3 {
		t.Fatalf("%d+%d, %d", first.GetFirstSeq(), len(first.GetRecords()), second.GetFirstSeq())
	}
	if third := s.NextChunk(key, 1); third != nil {
		t.Fatalf("%d passed the window", third.GetFirstSeq())
	}
	s.OnAck(key.Ref(1), 2)
	if third := s.NextChunk(key, 1); third.GetFirstSeq() != 5 {
		t.Errorf("third: %v", third)
	}
	if !s.IsSent(key) || s.LastSeq(key) != 6 {
		t.Errorf("sent %v, last %d", s.IsSent(key), s.LastSeq(key))
	}
}

func TestANewSessionGetsWhatWasNotAcknowledgedUnderTheSameNumbers(t *testing.T) {
	s, key, sink := shipper(10_000, 300)
	say(sink, 4)
	s.NextChunk(key, 1)
	second := s.NextChunk(key, 1)
	s.OnAck(key.Ref(1), 2)
	s.OnSession(0, 0)
	if s.IsSent(key) {
		t.Error("all counts as sent")
	}
	if again := s.NextChunk(key, 1); !proto.Equal(again, second) {
		t.Errorf("%v is not %v", again, second)
	}
	if more := s.NextChunk(key, 1); more != nil {
		t.Errorf("%v is too much", more)
	}
}

func TestGivingUpCountsEveryRecordThatWasNotSent(t *testing.T) {
	s, key, sink := shipper(300, 300)
	say(sink, 6)
	if first := s.NextChunk(key, 1); len(first.GetRecords()) != 2 {
		t.Fatalf("%v", first)
	}
	if more := s.NextChunk(key, 1); more != nil {
		t.Fatalf("%v", more)
	}
	last := s.GiveUp(key, 1)
	if last.GetFirstSeq() != 3 || len(last.GetRecords()) != 0 || last.GetDropped() != 4 {
		t.Errorf("%v", last)
	}
	if !s.IsSent(key) || s.LastSeq(key) != 2 {
		t.Errorf("sent %v, last %d", s.IsSent(key), s.LastSeq(key))
	}
}

func TestACountGoesWithTheNextRecordOrWithTheEnd(t *testing.T) {
	s, key, sink := shipper(100_000, 100_000)
	start := time.Now()
	say := func(count int, seconds time.Duration) {
		for range count {
			sink.Push(start.Add(seconds*time.Second), info, "x", nil)
		}
	}
	say(RecordsPerSecondMax+5, 0)
	if first := s.NextChunk(key, 1); len(first.GetRecords()) != 1000 || first.GetDropped() != 0 {
		t.Errorf("first: %d records, %d dropped", len(first.GetRecords()), first.GetDropped())
	}
	if more := s.NextChunk(key, 1); more != nil || !s.HasSentRecords(key) || s.IsSent(key) {
		t.Errorf("%v, %v, %v", more, s.HasSentRecords(key), s.IsSent(key))
	}
	say(1, 2)
	if second := s.NextChunk(key, 1); len(second.GetRecords()) != 1 || second.GetDropped() != 5 ||
		!s.IsSent(key) {
		t.Errorf("second: %v", second)
	}
	say(RecordsPerSecondMax+7, 4)
	s.NextChunk(key, 1)
	if last := s.GiveUp(key, 1); len(last.GetRecords()) != 0 || last.GetDropped() != 7 {
		t.Errorf("last: %v", last)
	}
}

func TestForgettingFreesTheWindow(t *testing.T) {
	s, key, sink := shipper(300, 300)
	say(sink, 2)
	s.NextChunk(key, 1)
	s.Forget(key)
	if s.inFlight != 0 {
		t.Errorf("%d bytes in flight", s.inFlight)
	}
}
