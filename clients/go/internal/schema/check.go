package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// faultsMax is how many faults are told at once.
const faultsMax = 20

// Prepare checks a JSON document and fills in the defaults of fields that are missing. Absent data
// is null where the type takes it, else an object without fields.
//
// It fails with all faults at once, each with its path.
func (s *Schema) Prepare(data []byte) ([]byte, error) {
	if len(data) == 0 {
		data = []byte("{}")
		if s.nullable {
			data = []byte("null")
		}
	}
	value, err := decode(data)
	if err != nil {
		return nil, err
	}
	c := checker{}
	value = c.check("", s, value)
	if len(c.faults) > 0 {
		return nil, errors.New(strings.Join(c.faults, "; "))
	}
	if !c.filled {
		return data, nil
	}
	return json.Marshal(value)
}

// decode reads one JSON document and nothing behind it.
func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the JSON document")
	}
	return value, nil
}

type checker struct {
	faults []string
	// filled is whether a default was filled in.
	filled bool
}

func (c *checker) fault(path, format string, args ...any) {
	if path == "" {
		path = "params"
	}
	switch {
	case len(c.faults) < faultsMax:
		c.faults = append(c.faults, path+": "+fmt.Sprintf(format, args...))
	case len(c.faults) == faultsMax:
		c.faults = append(c.faults, "and more")
	}
}

// check is the value with its defaults filled in.
func (c *checker) check(path string, s *Schema, value any) any {
	if value == nil {
		if !s.nullable {
			c.fault(path, "must not be null")
		}
		return nil
	}
	c.bounds(path, s, value)
	switch value := value.(type) {
	case map[string]any:
		if s.Values != nil {
			for name, inner := range value {
				value[name] = c.check(join(path, name), s.Values, inner)
			}
		}
		c.object(path, s, value)
	case []any:
		if s.Items != nil {
			for i, inner := range value {
				value[i] = c.check(fmt.Sprintf("%s[%d]", path, i), s.Items, inner)
			}
		}
	}
	return value
}

func (c *checker) object(path string, s *Schema, value map[string]any) {
	for _, field := range s.Properties {
		name := keyOf(value, field.name)
		if inner, ok := value[name]; ok {
			value[name] = c.check(join(path, field.name), field.schema, inner)
		} else if field.schema.Default != nil {
			value[field.name], c.filled = field.schema.Default, true
		}
	}
	for _, name := range s.Required {
		if _, ok := value[keyOf(value, name)]; !ok {
			c.fault(join(path, name), "is missing")
		}
	}
}

// keyOf is the key that encoding/json takes for the field: the exact one, else one that differs in
// case only.
func keyOf(value map[string]any, name string) string {
	if _, ok := value[name]; ok {
		return name
	}
	for key := range value {
		if strings.EqualFold(key, name) {
			return key
		}
	}
	return name
}

func (c *checker) bounds(path string, s *Schema, value any) {
	if number, ok := value.(json.Number); ok && (s.Minimum != nil || s.Maximum != nil) {
		if f, err := number.Float64(); err == nil {
			if s.Minimum != nil && f < *s.Minimum {
				c.fault(path, "%v is less than %v", number, *s.Minimum)
			}
			if s.Maximum != nil && f > *s.Maximum {
				c.fault(path, "%v is more than %v", number, *s.Maximum)
			}
		}
	}
	if len(s.Enum) == 0 {
		return
	}
	for _, allowed := range s.Enum {
		if allowed == value {
			return
		}
	}
	c.fault(path, "%v is none of %v", value, s.Enum)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
