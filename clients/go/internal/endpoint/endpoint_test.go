package endpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEndpointsAreRead(t *testing.T) {
	for url, want := range map[string]Target{
		"http://127.0.0.1:7700": {"dns:///127.0.0.1:7700", false},
		"https://example.com":   {"dns:///example.com:443", true},
		"http://example.com/":   {"dns:///example.com:80", false},
		"https://[::1]:7700":    {"dns:///[::1]:7700", true},
	} {
		if got, err := Parse(url); err != nil || got != want {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
}

func TestWhatIsNoEndpointIsToldWithTheRemedy(t *testing.T) {
	for url, words := range map[string]string{
		"localhost:7700":          "has no http:// or https:// in front",
		"ftp://host":              "has no http:// or https:// in front",
		"http://":                 "names no host",
		"https://host/clawjob":    "has a path",
		"http://me:secret@host:1": "CLAWJOB_TOKEN",
		"http://%zz":              "is not a URL",
	} {
		_, err := Parse(url)
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestC57ATokenFileIsReadAnewEachTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	token := Token("", file)
	if _, err := token(); err == nil {
		t.Error("a missing file gave a token")
	}
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := token(); err != nil || got != text {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestATokenThatNoHeaderCarriesIsAnError(t *testing.T) {
	for _, bad := range []string{"two words", "line\nbreak", "ümlaut"} {
		if _, err := Token(bad, "")(); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if Token("", "") != nil {
		t.Error("no token is a token")
	}
}
