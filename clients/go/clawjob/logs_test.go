package clawjob_test

import (
	"fmt"
	"testing"
	"time"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/protobuf/proto"
)

// chunks are all chunks up to the result, and the result; each chunk is acknowledged if asked for.
func chunks(s *scripted, acks bool) ([]*clawjobpb.LogChunk, *clawjobpb.RunResult) {
	s.t.Helper()
	var all []*clawjobpb.LogChunk
	result := expect(s, "a RunResult", func(frame *up) *clawjobpb.RunResult {
		if chunk := frame.GetLogChunk(); chunk != nil {
			all = append(all, chunk)
			if acks {
				through := chunk.GetFirstSeq() + uint64(len(chunk.GetRecords())) - 1
				s.send(&down{Frame: &clawjobpb.SessionResponse_LogAck{LogAck: &clawjobpb.LogAck{
					Ref: chunk.GetRef(), ThroughSeq: through,
				}}})
			}
		}
		return frame.GetResult()
	})
	return all, result
}

func sum(chunks []*clawjobpb.LogChunk) (sent, dropped uint64) {
	for _, chunk := range chunks {
		sent += uint64(len(chunk.GetRecords()))
		dropped += chunk.GetDropped()
	}
	return sent, dropped
}

func TestC43RecordsComeInOrderWithoutGapsAndBeforeTheResult(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "logs", `{"count":500}`))
	all, result := chunks(s, true)
	expected := uint64(1)
	for _, chunk := range all {
		if chunk.GetFirstSeq() != expected || chunk.GetDropped() != 0 {
			t.Fatalf("a chunk begins with %d, not %d", chunk.GetFirstSeq(), expected)
		}
		for _, record := range chunk.GetRecords() {
			if record.GetMessage() != fmt.Sprint("line ", expected) {
				t.Fatalf("%q is no %d", record.GetMessage(), expected)
			}
			expected++
		}
	}
	if expected != 501 || result.GetLastLogSeq() != 500 {
		t.Errorf("up to %d, %d", expected, result.GetLastLogSeq())
	}
}

func TestC44C46AClosedWindowHoldsLogsBackButNotTheResult(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.accept()
	narrow := welcome()
	narrow.LogWindowBytes, narrow.MaxLogChunkBytes = 2000, 1000
	s.welcome(narrow)
	s.begin(command("R1", "logs", `{"count":500}`))
	all, result := chunks(s, false)
	bytes := 0
	for _, chunk := range all {
		for _, record := range chunk.GetRecords() {
			bytes += proto.Size(record)
		}
	}
	sent, dropped := sum(all)
	if bytes > 2000 || sent+dropped != 500 || result.GetLastLogSeq() != sent {
		t.Errorf("%d bytes, %d sent, %d dropped, last %d", bytes, sent, dropped, result.GetLastLogSeq())
	}
	wantOutcome(t, result, "SUCCEEDED ")
}

func TestC45WhatIsDroppedIsCountedExactly(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "logs", `{"count":5000}`))
	all, result := chunks(s, true)
	sent, dropped := sum(all)
	if dropped == 0 || sent+dropped != 5000 || result.GetLastLogSeq() != sent {
		t.Errorf("%d sent, %d dropped, last %d", sent, dropped, result.GetLastLogSeq())
	}
}

func TestC47ProgressIsToldOnceASecondAtMostAndTheNewestWins(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	told, began := 0, time.Now()
	s.begin(command("R1", "progress", `{"count":2000}`))
	for {
		told++
		newest := expect(s, "a Progress", (*up).GetProgress)
		if newest.GetMessage() == "step 2000" {
			if newest.GetFraction() != 1 {
				t.Errorf("%v", newest)
			}
			break
		}
	}
	if most := 2 + int(time.Since(began)/time.Second); told > most {
		t.Errorf("%d frames, at most %d", told, most)
	}
}

func TestTheNewestProgressIsToldAgainOnANewSession(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	start(t, f)
	s := f.open()
	s.begin(command("R1", "progress", `{"count":1}`))
	for range 2 {
		if told := expect(s, "a Progress", (*up).GetProgress); told.GetMessage() != "step 1" {
			t.Errorf("%v", told)
		}
		s.end(errGoingDown)
		s = f.open()
	}
}
