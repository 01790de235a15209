package work

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/schema"
	"clawjob.dev/go/internal/wire"
)

// NewEntry puts a typed function behind the untyped form.
func NewEntry[P, O any](name string, handler func(context.Context, P) (O, error)) *Entry {
	params, faults := schema.Of(reflect.TypeFor[P]())
	if handler == nil {
		faults = append(faults, "the function is nil; give one")
	}
	return &Entry{
		Name:   name,
		Schema: params.Text(),
		Faults: faults,
		Decode: func(data []byte) (Call, error) {
			prepared, err := params.Prepare(data)
			if err != nil {
				return nil, err
			}
			var value P
			if err := json.Unmarshal(prepared, &value); err != nil {
				return nil, err
			}
			return func(ctx context.Context) (*clawjobpb.Payload, error) {
				output, err := handler(ctx, value)
				if err != nil {
					return nil, err
				}
				return Encode(output)
			}, nil
		},
	}
}

// Encode is the JSON of an output; null and a struct without fields leave none.
func Encode(output any) (*clawjobpb.Payload, error) {
	if _, none := output.(struct{}); none {
		return nil, nil
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(output); err != nil {
		return nil, &noJSON{err}
	}
	text := bytes.TrimSpace(data.Bytes())
	if bytes.Equal(text, []byte("null")) {
		return nil, nil
	}
	return wire.Payload(text), nil
}

// noJSON is an output that JSON cannot carry; another attempt would make another like it.
type noJSON struct{ err error }

func (e *noJSON) Error() string { return fmt.Sprintf("the output is not JSON: %v", e.err) }

func (e *noJSON) Unwrap() error { return e.err }

// Describe says that another attempt cannot help.
func (e *noJSON) Describe(failure *clawjobpb.Failure) { failure.NonRetryable = true }
