package clawjob

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func faultsOf(err error) []string {
	var config *ConfigError
	var fields []string
	if errors.As(err, &config) {
		for _, fault := range config.Faults {
			fields = append(fields, fault.Field)
		}
	}
	return fields
}

func TestAllFaultsOfTheEnvironmentComeAtOnce(t *testing.T) {
	_, err := Config{}.check(env(map[string]string{
		"CLAWJOB_ENDPOINTS":   "http://a:7700,b:7700,https://c/path,http://u:secret@d",
		"CLAWJOB_TOKEN":       "t",
		"CLAWJOB_TOKEN_FILE":  "/f",
		"CLAWJOB_APP":         "No App",
		"CLAWJOB_EXECUTOR_ID": "-x",
		"CLAWJOB_CA_FILE":     "/no/such/file.pem",
	}), nil)
	want := []string{
		"CLAWJOB_ENDPOINTS", "CLAWJOB_ENDPOINTS", "CLAWJOB_ENDPOINTS", "CLAWJOB_TOKEN_FILE",
		"CLAWJOB_APP", "CLAWJOB_EXECUTOR_ID", "CLAWJOB_CA_FILE",
	}
	if got := faultsOf(err); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a secret is told: %v", err)
	}
}

func TestTheCodeWinsOverTheEnvironment(t *testing.T) {
	environment := env(map[string]string{
		"CLAWJOB_ENDPOINTS": "http://env:1", "CLAWJOB_TOKEN": "env", "CLAWJOB_APP": "env",
		"CLAWJOB_EXECUTOR_ID": "env",
	})
	got, err := Config{}.check(environment, nil)
	if err != nil || got.App != "env" || got.ExecutorID != "env" || got.Endpoints[0] != "http://env:1" {
		t.Errorf("%+v, %v", got, err)
	}
	code := Config{
		Endpoints: []string{"http://code:1"}, Token: "code", App: "code", ExecutorID: "code",
	}
	got, err = code.check(environment, nil)
	if err != nil || got.App != "code" || got.ExecutorID != "code" || got.Endpoints[0] != "http://code:1" {
		t.Errorf("%+v, %v", got, err)
	}
	if token, err := got.Token(); token != "code" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
}

func TestTheDefaultsAreFilledInAndWhatIsMissingIsNamed(t *testing.T) {
	none := env(nil)
	if _, err := (Config{}).check(none, nil); err == nil || !strings.Contains(err.Error(), "CLAWJOB_APP") {
		t.Error(err)
	}
	got, err := Config{App: "demo"}.check(none, nil)
	if err != nil || got.Endpoints[0] != "http://127.0.0.1:7700" || got.Slots != 10 ||
		got.ShutdownGrace != 25*time.Second || got.Reconnect.Cap != 30*time.Second ||
		got.Token != nil || !isName(got.ExecutorID) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBadValuesInCodeAreFaults(t *testing.T) {
	_, err := Config{
		App: "demo", Slots: -1, ShutdownGrace: -time.Second, Labels: map[string]string{"": "x"},
		Reconnect: Reconnect{Cap: -1}, Token: "a", TokenFile: "b",
	}.check(env(nil), nil)
	want := []string{"TokenFile", "Reconnect.Cap", "Slots", "ShutdownGrace", "Labels"}
	if got := faultsOf(err); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestAnyHostNameMakesALegalID(t *testing.T) {
	for _, host := range []string{"", "Web_01.Example", "--", "ünïcode", strings.Repeat("x", 300)} {
		if id := idFrom(host, "abc123"); !isName(id) {
			t.Errorf("%q -> %q", host, id)
		}
	}
	if id := idFrom("Web_01.Example", "abc123"); id != "web_01.example-abc123" {
		t.Error(id)
	}
}

func TestAnExecutorWithoutHandlersSaysSo(t *testing.T) {
	x := NewExecutor(Config{App: "demo"})
	if err := x.Check(); err == nil || !strings.Contains(err.Error(), "clawjob.Handle") {
		t.Error(err)
	}
}
