package work

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/wire"
)

// handlerNameBytesMax is the longest handler name, in bytes.
const handlerNameBytesMax = 63

// Call is a handler with its params already decoded, ready to be called once. The output is nil
// when there is none.
type Call func(ctx context.Context) (*clawjobpb.Payload, error)

// Entry is one handler on offer.
type Entry struct {
	// Name is what jobs call it.
	Name string
	// MaxConcurrency bounds its runs at once in this process; 0 means the slots alone do.
	MaxConcurrency uint32
	// Description is a sentence for the console.
	Description string
	// Schema is the JSON Schema of its params; empty when it is too large to be announced.
	Schema string
	// Faults are what is wrong with its types.
	Faults []string
	// Decode reads params into a call, or says why they do not fit.
	Decode func(params []byte) (Call, error)
}

// Fault is one thing wrong with the settings or the handlers.
type Fault struct{ Field, Message string }

// Registry has all handlers of an executor, by name.
type Registry struct {
	entries map[string]*Entry
	faults  []Fault
}

// Add adds a handler; a bad or a second name is kept as a fault.
func (r *Registry) Add(entry *Entry) {
	if r.entries == nil {
		r.entries = map[string]*Entry{}
	}
	fault := func(message string) {
		r.faults = append(r.faults, Fault{fmt.Sprintf("handler %q", entry.Name), message})
	}
	switch {
	case !isHandlerName(entry.Name):
		fault(fmt.Sprintf("the name must have 1 to %d letters, digits, '.', '_', '-' or '/'",
			handlerNameBytesMax))
	case r.entries[entry.Name] != nil:
		fault("the name is taken by another handler; rename one")
	default:
		r.entries[entry.Name] = entry
	}
	for _, text := range entry.Faults {
		fault(text)
	}
}

// Faults lists what is wrong with the handlers.
func (r *Registry) Faults() []Fault {
	if len(r.entries) == 0 && len(r.faults) == 0 {
		return []Fault{{"handler", "no handler is registered; add one with clawjob.Handle"}}
	}
	return slices.Clone(r.faults)
}

// Entries lists the handlers by name.
func (r *Registry) Entries() []*Entry {
	entries := make([]*Entry, 0, len(r.entries))
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		entries = append(entries, r.entries[name])
	}
	return entries
}

// Limits has each handler's own bound of runs at once.
func (r *Registry) Limits() map[string]uint32 {
	limits := map[string]uint32{}
	for name, entry := range r.entries {
		limits[name] = entry.MaxConcurrency
	}
	return limits
}

// Prepare finds the handler and decodes the params for it, or says why that cannot be.
func (r *Registry) Prepare(name string, params *clawjobpb.Payload) (Call, *clawjobpb.Failure) {
	entry := r.entries[name]
	if entry == nil {
		text := fmt.Sprintf("this executor offers no handler %q", wire.Text(name))
		return nil, wire.Failure(wire.CodeUnknownHandler, text)
	}
	return entry.Prepare(params)
}

// Prepare decodes the params. A panic in the user's own decoding counts as params that do not fit.
func (e *Entry) Prepare(params *clawjobpb.Payload) (call Call, failure *clawjobpb.Failure) {
	defer func() {
		if recovered := recover(); recovered != nil {
			text := fmt.Sprintf("decoding the params panicked: %v", recovered)
			call, failure = nil, wire.Failure(wire.CodeInvalidParams, text)
		}
	}()
	data := params.GetData()
	kind, _, _ := strings.Cut(params.GetContentType(), ";")
	kind = strings.TrimSpace(kind)
	if len(data) > 0 && kind != "" && !strings.EqualFold(kind, wire.JSON) {
		text := fmt.Sprintf("the params are %q; this executor reads %q", kind, wire.JSON)
		return nil, wire.Failure(wire.CodeInvalidParams, text)
	}
	call, err := e.Decode(data)
	if err != nil {
		return nil, wire.Failure(wire.CodeInvalidParams, err.Error())
	}
	return call, nil
}

func isHandlerName(name string) bool {
	return name != "" && len(name) <= handlerNameBytesMax &&
		!strings.ContainsFunc(name, func(c rune) bool {
			letter := (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
			return !letter && !strings.ContainsRune("._-/", c)
		})
}
