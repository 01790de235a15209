package engine

import (
	"cmp"
	"slices"

	"clawjob.dev/go/clawjobpb"
)

// Key is the identity of an attempt: what a repeated command is recognised by.
type Key struct {
	// RunID is the run's ULID.
	RunID string
	// Attempt counts from 1.
	Attempt uint32
}

// KeyOf is the key of a reference.
func KeyOf(ref *clawjobpb.AttemptRef) Key {
	return Key{RunID: ref.GetRunId(), Attempt: ref.GetAttempt()}
}

// Ref is the reference under a fence.
func (k Key) Ref(fence uint64) *clawjobpb.AttemptRef {
	return &clawjobpb.AttemptRef{RunId: k.RunID, Attempt: k.Attempt, Fence: fence}
}

// Compare orders keys by run, then by attempt.
func (k Key) Compare(other Key) int {
	if c := cmp.Compare(k.RunID, other.RunID); c != 0 {
		return c
	}
	return cmp.Compare(k.Attempt, other.Attempt)
}

// table holds attempts by run, then by number.
type table map[string]map[uint32]*attempt

func (t table) get(key Key) *attempt { return t[key.RunID][key.Attempt] }

func (t table) put(key Key, held *attempt) {
	if t[key.RunID] == nil {
		t[key.RunID] = map[uint32]*attempt{}
	}
	t[key.RunID][key.Attempt] = held
}

func (t table) remove(key Key) {
	delete(t[key.RunID], key.Attempt)
	if len(t[key.RunID]) == 0 {
		delete(t, key.RunID)
	}
}

// keys lists all attempts in order.
func (t table) keys() []Key {
	keys := make([]Key, 0, len(t))
	for run := range t {
		keys = append(keys, t.of(run)...)
	}
	slices.SortFunc(keys, Key.Compare)
	return keys
}

// of lists the attempts of one run, in no order.
func (t table) of(run string) []Key {
	keys := make([]Key, 0, len(t[run]))
	for number := range t[run] {
		keys = append(keys, Key{RunID: run, Attempt: number})
	}
	return keys
}
