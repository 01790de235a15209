package engine

import (
	"time"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/protobuf/proto"
)

const (
	// rememberFor is how long an acknowledged attempt is remembered.
	rememberFor = time.Hour
	// rememberedMax is how many acknowledged attempts are remembered at most.
	rememberedMax = 10_000
	// rememberedBytesMax bounds the results remembered, in bytes.
	rememberedBytesMax = 32 << 20
	// tombstoneFor is how long a kill of an unknown attempt is remembered.
	tombstoneFor = 10 * time.Minute
	// tombstonesMax is how many tombstones are kept; the oldest go first.
	tombstonesMax = 10_000
)

// memory has what the table remembers of attempts that it no longer holds: results that were
// acknowledged, and kills that came before their command.
type memory struct {
	results    map[Key]memorised
	order      []expiry
	bytes      int
	tombstones map[Key]tombstone
	graves     []expiry
}

type memorised struct {
	until  time.Time
	fence  uint64
	bytes  int
	result *clawjobpb.RunResult
}

type tombstone struct {
	until time.Time
	fence uint64
}

// expiry is the end of an entry. One that was taken out and put in anew has a later end and stays.
type expiry struct {
	until time.Time
	key   Key
}

func newMemory() memory {
	return memory{results: map[Key]memorised{}, tombstones: map[Key]tombstone{}}
}

// remember keeps an acknowledged attempt; the oldest make room.
func (m *memory) remember(now time.Time, key Key, attempt *attempt) {
	until, bytes := now.Add(rememberFor), proto.Size(attempt.result)
	m.bytes += bytes
	m.results[key] = memorised{until, attempt.fence, bytes, attempt.result}
	m.order = append(m.order, expiry{until, key})
	for len(m.order) > rememberedMax || m.bytes > rememberedBytesMax {
		m.dropResult(m.order[0])
		m.order = m.order[1:]
	}
}

// recall takes a remembered attempt out again: its result and fence.
func (m *memory) recall(key Key) (*clawjobpb.RunResult, uint64, bool) {
	found, ok := m.results[key]
	if !ok {
		return nil, 0, false
	}
	delete(m.results, key)
	m.bytes -= found.bytes
	return found.result, found.fence, true
}

func (m *memory) knows(key Key) bool {
	_, ok := m.results[key]
	return ok
}

// bury notes a kill of an attempt that is not known here.
func (m *memory) bury(now time.Time, key Key, fence uint64) {
	until := now.Add(tombstoneFor)
	m.tombstones[key] = tombstone{until, fence}
	m.graves = append(m.graves, expiry{until, key})
	for len(m.graves) > tombstonesMax {
		m.dropTombstone(m.graves[0])
		m.graves = m.graves[1:]
	}
}

// exhume is true when this dispatch was killed before it came. A later dispatch was decided on
// after the kill, so it runs.
func (m *memory) exhume(key Key, fence uint64) bool {
	found, ok := m.tombstones[key]
	delete(m.tombstones, key)
	return ok && (found.fence == 0 || fence <= found.fence)
}

func (m *memory) expire(now time.Time) {
	for len(m.order) > 0 && !m.order[0].until.After(now) {
		m.dropResult(m.order[0])
		m.order = m.order[1:]
	}
	for len(m.graves) > 0 && !m.graves[0].until.After(now) {
		m.dropTombstone(m.graves[0])
		m.graves = m.graves[1:]
	}
}

// nextExpiry is when the next entry ends; zero when there is none.
func (m *memory) nextExpiry() time.Time {
	var next time.Time
	for _, queue := range [][]expiry{m.order, m.graves} {
		if len(queue) > 0 && (next.IsZero() || queue[0].until.Before(next)) {
			next = queue[0].until
		}
	}
	return next
}

func (m *memory) dropResult(end expiry) {
	if found, ok := m.results[end.key]; ok && found.until.Equal(end.until) {
		m.recall(end.key)
	}
}

func (m *memory) dropTombstone(end expiry) {
	if found, ok := m.tombstones[end.key]; ok && found.until.Equal(end.until) {
		delete(m.tombstones, end.key)
	}
}
