package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type report struct {
	Month  string   `json:"month" doc:"Which month."`
	Copies int      `json:"copies" min:"1" max:"9" default:"2"`
	Format string   `json:"format,omitempty" enum:"pdf,csv"`
	To     []string `json:"to"`
	Layout *layout  `json:"layout"`
	Since  time.Time
	hidden int    //nolint:unused // shows that it is left out
	Skip   string `json:"-"`
	common
}

type layout struct {
	Wide bool    `json:"wide"`
	Next *layout `json:"next"`
}

type common struct {
	Tags map[string]uint8 `json:"tags"`
}

func of(t *testing.T, value any) *Schema {
	t.Helper()
	schema, faults := Of(reflect.TypeOf(value))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return schema
}

func TestTheSchemaSaysWhatTheTypeTakes(t *testing.T) {
	want := `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"report",` +
		`"type":"object","properties":{` +
		`"month":{"description":"Which month.","type":"string"},` +
		`"copies":{"type":"integer","minimum":1,"maximum":9,"default":2},` +
		`"format":{"type":"string","enum":["pdf","csv"]},` +
		`"to":{"type":"array","items":{"type":"string"}},` +
		`"layout":{"type":["object","null"],"properties":{"wide":{"type":"boolean"},"next":{}},` +
		`"required":["wide"]},` +
		`"Since":{"type":"string","format":"date-time"},` +
		`"tags":{"type":"object","additionalProperties":{"type":"integer","minimum":0}}},` +
		`"required":["month","Since"]}`
	if got := of(t, report{}).Text(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := of(t, struct{}{}).Text(); !strings.HasSuffix(got, `"type":"object"}`) {
		t.Error(got)
	}
}

func TestAllFaultsAreToldAtOnceWithTheirPath(t *testing.T) {
	params := `{"copies":0,"format":"doc","to":[null],"layout":{},"tags":{"a":-1},"Since":null}`
	_, err := of(t, report{}).Prepare([]byte(params))
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, fault := range []string{
		"month: is missing",
		"copies: 0 is less than 1",
		"format: doc is none of [pdf csv]",
		"to[0]: must not be null",
		"layout.wide: is missing",
		"tags.a: -1 is less than 0",
		"Since: must not be null",
	} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q is not in %q", fault, err)
		}
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	params := `{"MONTH":"2026-11","Since":"2026-11-01T00:00:00Z"}`
	data, err := of(t, report{}).Prepare([]byte(params))
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(data, &got); err != nil || got.Copies != 2 || got.Month != "2026-11" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAbsentParamsAreNullOrAnEmptyObject(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{{struct{}{}, "{}"}, {&report{}, "null"}, {[]int{}, "null"}, {map[string]int{}, "null"}} {
		if got, err := of(t, c.value).Prepare(nil); err != nil || string(got) != c.want {
			t.Errorf("%T: %s, %v", c.value, got, err)
		}
	}
	if _, err := of(t, report{}).Prepare(nil); err == nil {
		t.Error("a required field may be absent")
	}
	anything, _ := Of(reflect.TypeFor[any]())
	if got, err := anything.Prepare([]byte(`{"a":[1]}`)); err != nil || string(got) != `{"a":[1]}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestWhatIsNoJSONIsRefused(t *testing.T) {
	for _, bad := range []string{"{", "1 2", "nul"} {
		if _, err := of(t, 0).Prepare([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTagsThatCannotBeReadAreFaults(t *testing.T) {
	type wrong struct {
		A int       `min:"one"`
		B int       `default:"{"`
		C chan int  `json:"c"`
		D func()    `json:"-"`
		E complex64 `json:"e"`
	}
	if _, faults := Of(reflect.TypeFor[wrong]()); len(faults) != 4 {
		t.Error(faults)
	}
}

func TestALargeSchemaIsNotAnnounced(t *testing.T) {
	schema := of(t, report{})
	schema.Description = strings.Repeat("x", BytesMax)
	if schema.Text() != "" {
		t.Error("it is")
	}
}

func FuzzAnyParamsAreTakenOrRefused(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{", `{"copies":1e999}`, `{"month":{}}`, `[[[[]]]]`, `{"tags":{"a":null}}`,
		`{"layout":{"next":{"next":[]}}}`, "\xff", `{"format":["pdf"]}`, `{"format":{"pdf":1}}`,
	} {
		f.Add([]byte(seed))
	}
	schema, _ := Of(reflect.TypeFor[report]())
	f.Fuzz(func(t *testing.T, params []byte) {
		prepared, err := schema.Prepare(params)
		if err == nil && !json.Valid(prepared) {
			t.Errorf("%q became %q", params, prepared)
		}
	})
}
