// Package schema makes a JSON Schema from a Go type and its struct tags, and checks what
// encoding/json alone lets pass: fields that are missing or null, and values out of their bounds.
package schema

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// BytesMax is the largest schema that is announced, in bytes.
const BytesMax = 32 << 10

// draft is the dialect that the schemas are written in.
const draft = "https://json-schema.org/draft/2020-12/schema"

// Schema describes one type.
type Schema struct {
	Draft       string   `json:"$schema,omitempty"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Type        any      `json:"type,omitempty"`
	Format      string   `json:"format,omitempty"`
	Encoding    string   `json:"contentEncoding,omitempty"`
	Enum        []any    `json:"enum,omitempty"`
	Minimum     *float64 `json:"minimum,omitempty"`
	Maximum     *float64 `json:"maximum,omitempty"`
	Default     any      `json:"default,omitempty"`
	Properties  fields   `json:"properties,omitempty"`
	Required    []string `json:"required,omitempty"`
	Items       *Schema  `json:"items,omitempty"`
	Values      *Schema  `json:"additionalProperties,omitempty"`

	// nullable is whether null stands for "none" rather than for a fault.
	nullable bool
}

// fields are properties in the order of the struct.
type fields []field

type field struct {
	name   string
	schema *Schema
}

// MarshalJSON writes an object with the fields in their order.
func (f fields) MarshalJSON() ([]byte, error) {
	var out strings.Builder
	out.WriteByte('{')
	for i, field := range f {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(field.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(field.schema)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return []byte(out.String()), nil
}

// Of is the schema of a type. Faults are struct tags that cannot be read.
func Of(t reflect.Type) (schema *Schema, faults []string) {
	b := builder{}
	schema = b.of(t)
	schema.Draft, schema.Title = draft, titleOf(t)
	return schema, b.faults
}

// Text is the schema as JSON; empty when it is too large to be announced.
func (s *Schema) Text() string {
	text, err := json.Marshal(s)
	if err != nil || len(text) > BytesMax {
		return ""
	}
	return string(text)
}

func titleOf(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || strings.Contains(t.Name(), "[") {
		return ""
	}
	return t.Name()
}

type builder struct {
	// open types are being described: one inside itself is cut there.
	open   []reflect.Type
	faults []string
}

var (
	timeType        = reflect.TypeFor[time.Time]()
	numberType      = reflect.TypeFor[json.Number]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textType        = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (b *builder) of(t reflect.Type) *Schema {
	if t == nil || t.Kind() == reflect.Interface {
		return &Schema{nullable: true}
	}
	if t.Kind() == reflect.Pointer {
		inner := b.of(t.Elem())
		if inner.Type != nil {
			inner.Type = []any{inner.Type, "null"}
		}
		inner.nullable = true
		return inner
	}
	switch pointer := reflect.PointerTo(t); {
	case t == timeType:
		return &Schema{Type: "string", Format: "date-time"}
	case t == numberType:
		return &Schema{Type: "number"}
	case pointer.Implements(unmarshalerType):
		return &Schema{nullable: true}
	case pointer.Implements(textType):
		return &Schema{Type: "string"}
	}
	return b.ofKind(t)
}

func (b *builder) ofKind(t reflect.Type) *Schema {
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &Schema{Type: "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		zero := 0.0
		return &Schema{Type: "integer", Minimum: &zero}
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: "number"}
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &Schema{Type: "string", Encoding: "base64", nullable: true}
		}
		return &Schema{Type: "array", Items: b.nested(t, t.Elem()), nullable: true}
	case reflect.Array:
		return &Schema{Type: "array", Items: b.nested(t, t.Elem())}
	case reflect.Map:
		return &Schema{Type: "object", Values: b.nested(t, t.Elem()), nullable: true}
	case reflect.Struct:
		return b.ofStruct(t)
	default:
		b.faults = append(b.faults, t.String()+" cannot be read from JSON")
		return &Schema{}
	}
}

// nested describes inner as a part of outer.
func (b *builder) nested(outer, inner reflect.Type) *Schema {
	b.open = append(b.open, outer)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	for _, open := range b.open {
		if open == inner || (inner.Kind() == reflect.Pointer && open == inner.Elem()) {
			return &Schema{nullable: true}
		}
	}
	return b.of(inner)
}

func (b *builder) ofStruct(t reflect.Type) *Schema {
	object := &Schema{Type: "object"}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() || len(f.Index) > 1 && !isPromoted(t, f) ||
			(f.Anonymous && name == "" && isStruct(f.Type)) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		schema := b.nested(t, f.Type)
		b.tags(t.String()+"."+f.Name, f.Tag, schema)
		object.Properties = append(object.Properties, field{name, schema})
		omittable := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if !schema.nullable && !omittable && schema.Default == nil {
			object.Required = append(object.Required, name)
		}
	}
	return object
}

// isPromoted is whether JSON finds the field of an embedded struct at this level: every struct on
// the way is embedded without a name of its own.
func isPromoted(t reflect.Type, f reflect.StructField) bool {
	for _, i := range f.Index[:len(f.Index)-1] {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		step := t.Field(i)
		if name, _, _ := strings.Cut(step.Tag.Get("json"), ","); name != "" {
			return false
		}
		t = step.Type
	}
	return true
}

func isStruct(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// tags reads doc, enum, min, max and default.
func (b *builder) tags(path string, tag reflect.StructTag, schema *Schema) {
	schema.Description = tag.Get("doc")
	bound := func(name string) *float64 {
		text, ok := tag.Lookup(name)
		if !ok {
			return nil
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			b.faults = append(b.faults, path+": the tag "+name+" is no number: "+strconv.Quote(text))
			return nil
		}
		return &value
	}
	if minimum := bound("min"); minimum != nil {
		schema.Minimum = minimum
	}
	if maximum := bound("max"); maximum != nil {
		schema.Maximum = maximum
	}
	if text, ok := tag.Lookup("enum"); ok {
		for _, value := range strings.Split(text, ",") {
			schema.Enum = append(schema.Enum, b.value(path, "enum", value, schema))
		}
	}
	if text, ok := tag.Lookup("default"); ok {
		schema.Default = b.value(path, "default", text, schema)
	}
}

// value reads a tag's text as a value of the field: a string as it is, others as JSON.
func (b *builder) value(path, name, text string, schema *Schema) any {
	if schema.is("string") {
		return text
	}
	value, err := decode([]byte(text))
	if err != nil {
		b.faults = append(b.faults, path+": the tag "+name+" is no JSON: "+strconv.Quote(text))
	}
	return value
}

// is whether the schema's type is this one, or null.
func (s *Schema) is(name string) bool {
	types, _ := s.Type.([]any)
	return s.Type == name || len(types) > 0 && types[0] == name
}
