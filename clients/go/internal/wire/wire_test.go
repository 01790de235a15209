package wire

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"clawjob.dev/go/clawjobpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestCodesBecomeUpperSnakeWithin63Bytes(t *testing.T) {
	for code, want := range map[string]string{
		"rate-limited":          "RATE_LIMITED",
		"":                      CodeHandlerError,
		strings.Repeat("x", 99): strings.Repeat("X", 63),
		"ünd":                   "_ND",
	} {
		if got := UpperSnake(code); got != want {
			t.Errorf("UpperSnake(%q) = %q, want %q", code, got, want)
		}
	}
}

func TestLongTextIsCutInTheMiddleOnCharacterBorders(t *testing.T) {
	long := strings.Repeat("é", 20_000) + "end"
	cut := Cut(long, 16<<10)
	if len(cut) > 16<<10 || !utf8.ValidString(cut) {
		t.Fatalf("%d bytes, valid: %v", len(cut), utf8.ValidString(cut))
	}
	if !strings.HasPrefix(cut, "é") || !strings.HasSuffix(cut, "end") {
		t.Errorf("an end is missing: %.20q … %q", cut, cut[len(cut)-9:])
	}
	if short := Cut("short", 16); short != "short" {
		t.Errorf("a short text became %q", short)
	}
}

func TestAFailureCanBeSentWhateverTheHandlerSaid(t *testing.T) {
	failure := Bound(&clawjobpb.Failure{
		Code:    "a\xffb",
		Message: "not \xff text",
		Type:    strings.Repeat("T", 1000),
		Stack:   strings.Repeat("\xfe", 40_000),
	})
	data, err := proto.Marshal(failure)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 24<<10 {
		t.Errorf("%d bytes", len(data))
	}
}

func TestOnlyWellFormedSpansCount(t *testing.T) {
	for _, bad := range []*durationpb.Duration{nil, {Seconds: -1}, {Seconds: 1, Nanos: -1}} {
		if d, ok := Span(bad); ok {
			t.Errorf("%v was read as %v", bad, d)
		}
	}
	if d, ok := Span(durationpb.New(0)); !ok || d != 0 {
		t.Errorf("zero was read as %v, %v", d, ok)
	}
	if d, ok := Span(&durationpb.Duration{Seconds: 300_000_000_000}); !ok || d != spanMax {
		t.Errorf("ten thousand years were read as %v, %v", d, ok)
	}
	if _, ok := Positive(durationpb.New(0)); ok {
		t.Error("zero counts as positive")
	}
	if d, ok := Positive(durationpb.New(time.Minute)); !ok || d != time.Minute {
		t.Errorf("a minute was read as %v, %v", d, ok)
	}
}
