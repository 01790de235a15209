package clawjob

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"clawjob.dev/go/internal/endpoint"
	"clawjob.dev/go/internal/session"
	"clawjob.dev/go/internal/work"
)

const (
	// slotsDefault is how many runs at once when nothing else is said.
	slotsDefault = 10
	// shutdownGraceDefault is how long a drain waits for handlers when nothing else is said; with the
	// two seconds each that handlers have to stop and results to be acknowledged it stays under
	// Kubernetes' 30 s.
	shutdownGraceDefault = 25 * time.Second
	// nameBytesMax is the longest app name and executor id, in bytes.
	nameBytesMax = 63
	// idSuffixChars is how many random characters a made-up executor id has behind the host's name.
	idSuffixChars = 6
	// labelsMax is how many labels an executor may have.
	labelsMax = 64
)

// Config has the settings of an executor. What is left at its zero value comes from the environment
// where a variable is named, else it is the default.
type Config struct {
	// Endpoints are the schedulers to dial, http://host:port or https://host:port; else
	// CLAWJOB_ENDPOINTS (separated by commas), else http://127.0.0.1:7700.
	Endpoints []string
	// Token is the bearer token; else CLAWJOB_TOKEN.
	Token string
	// TokenFile has the bearer token, read anew at each dial so that it can be rotated; else
	// CLAWJOB_TOKEN_FILE.
	TokenFile string
	// App is the app that is served; else CLAWJOB_APP. It must be given.
	App string
	// ExecutorID is the executor's name, unique in its app; else CLAWJOB_EXECUTOR_ID, else the host's
	// name and six random characters.
	ExecutorID string
	// CAFile is a PEM file with the authority that signed the scheduler's certificate; else
	// CLAWJOB_CA_FILE, else the system's authorities.
	CAFile string
	// TLS is the base of the TLS settings, such as client certificates for mutual TLS.
	TLS *tls.Config
	// Slots is how many runs at once; 10 by default.
	Slots int
	// Labels are what jobs can ask for; at most 64.
	Labels map[string]string
	// ShutdownGrace is how long the end waits for running handlers before it tells them to stop; 25 s
	// by default. Up to 5 s for stopping and for the last acknowledgements come on top.
	ShutdownGrace time.Duration
	// Reconnect is how long to wait between attempts to connect.
	Reconnect Reconnect
	// KeepTrying goes on trying every 30 s when the scheduler refuses for good (a wrong token, say),
	// rather than to end with that error.
	KeepTrying bool
	// NoSignals leaves SIGTERM and SIGINT alone. Without it the first drains and the second cancels.
	NoSignals bool
	// Logger takes what the executor itself has to say; slog.Default() by default.
	Logger *slog.Logger
	// Intercept wraps each handler's call, for spans, metrics and the like: it must call next, with a
	// context made from ctx, and return its error.
	Intercept func(ctx context.Context, next func(context.Context) error) error
}

// Reconnect is how long to wait between attempts to connect. The wait is drawn at random each time.
type Reconnect struct {
	// First bounds the first wait after a lost session; 2 s by default.
	First time.Duration
	// Base bounds the second; each further bound is twice the last. 0.5 s by default.
	Base time.Duration
	// Cap bounds every wait; 30 s by default.
	Cap time.Duration
	// HealthyAfter is how long a session must last to make the next wait a first one again; 60 s by
	// default.
	HealthyAfter time.Duration
}

// Fault is one thing wrong with the settings.
type Fault struct {
	// Field is the setting: an environment variable, a field of [Config], or a handler.
	Field string
	// Message says what is wrong and what to do about it.
	Message string
}

// ConfigError has everything that is wrong with the settings, all at once.
type ConfigError struct {
	// Faults has at least one.
	Faults []Fault
}

// Error lists the faults.
func (e *ConfigError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "the settings have %d fault(s)", len(e.Faults))
	for _, fault := range e.Faults {
		fmt.Fprintf(&text, "\n  %s: %s", fault.Field, fault.Message)
	}
	return text.String()
}

// checker gathers faults while settings are read.
type checker struct {
	faults []Fault
	getenv func(string) string
}

func (c *checker) fault(field, format string, args ...any) {
	c.faults = append(c.faults, Fault{field, fmt.Sprintf(format, args...)})
}

func (c *checker) err() error {
	if len(c.faults) == 0 {
		return nil
	}
	return &ConfigError{Faults: c.faults}
}

// pick is the setting of the code, else that of the environment, with the one it comes from.
func (c *checker) pick(code, field, variable string) (value, from string) {
	if code != "" {
		return code, field
	}
	return strings.TrimSpace(c.getenv(variable)), variable
}

func (c *checker) endpoints(code []string) []string {
	urls, from := code, "Endpoints"
	if len(urls) == 0 {
		from = "CLAWJOB_ENDPOINTS"
		for _, url := range strings.Split(c.getenv(from), ",") {
			if url = strings.TrimSpace(url); url != "" {
				urls = append(urls, url)
			}
		}
	}
	if len(urls) == 0 {
		return []string{endpoint.Default}
	}
	for _, url := range urls {
		if _, err := endpoint.Parse(url); err != nil {
			c.fault(from, "%v", err)
		}
	}
	return urls
}

func (c *checker) token(text, file string) func() (string, error) {
	if text != "" && file != "" {
		c.fault("TokenFile", "Token is set too; leave one of the two empty")
	}
	if text == "" && file == "" {
		text = strings.TrimSpace(c.getenv("CLAWJOB_TOKEN"))
		file = strings.TrimSpace(c.getenv("CLAWJOB_TOKEN_FILE"))
		if text != "" && file != "" {
			c.fault("CLAWJOB_TOKEN_FILE", "CLAWJOB_TOKEN is set too; unset one of the two")
		}
	}
	return endpoint.Token(text, file)
}

// tls adds the authority of a file to the TLS settings.
func (c *checker) tls(base *tls.Config, code string) *tls.Config {
	file, from := c.pick(code, "CAFile", "CLAWJOB_CA_FILE")
	if file == "" {
		return base
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		c.fault(from, "cannot be read: %v", err)
		return base
	}
	pool := x509.NewCertPool()
	if !bytes.Contains(pem, []byte("-----BEGIN")) || !pool.AppendCertsFromPEM(pem) {
		c.fault(from, "%s holds no PEM certificate", file)
		return base
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		config = base.Clone()
	}
	config.RootCAs = pool
	return config
}

func (c *checker) name(code, field, variable string) string {
	name, from := c.pick(code, field, variable)
	if name != "" && !isName(name) {
		c.fault(from, "%q is no name; use 1 to %d of a-z, 0-9, '.', '_', '-', beginning and ending "+
			"with a letter or digit", name, nameBytesMax)
	}
	return name
}

func isName(name string) bool {
	inner := func(c byte) bool { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') }
	if name == "" || len(name) > nameBytesMax || !inner(name[0]) || !inner(name[len(name)-1]) {
		return false
	}
	for i := range len(name) {
		if !inner(name[i]) && !strings.ContainsRune("._-", rune(name[i])) {
			return false
		}
	}
	return true
}

// check fills in the environment and the defaults, and tells all that is missing or wrong at once.
func (cfg Config) check(getenv func(string) string, handlers []work.Fault) (session.Settings, error) {
	c := &checker{getenv: getenv}
	for _, fault := range handlers {
		c.fault(fault.Field, "%s", fault.Message)
	}
	settings := session.Settings{
		Endpoints:     c.endpoints(cfg.Endpoints),
		Token:         c.token(cfg.Token, cfg.TokenFile),
		App:           c.name(cfg.App, "App", "CLAWJOB_APP"),
		ExecutorID:    c.name(cfg.ExecutorID, "ExecutorID", "CLAWJOB_EXECUTOR_ID"),
		TLS:           c.tls(cfg.TLS, cfg.CAFile),
		Slots:         slotsDefault,
		Labels:        cfg.Labels,
		ShutdownGrace: shutdownGraceDefault,
		Reconnect:     cfg.Reconnect.filled(c),
		KeepTrying:    cfg.KeepTrying,
		Log:           cfg.Logger,
	}
	if settings.App == "" {
		c.fault("App", "is not set; set CLAWJOB_APP or Config.App")
	}
	if settings.ExecutorID == "" {
		settings.ExecutorID = defaultID()
	}
	if settings.Log == nil {
		settings.Log = slog.Default()
	}
	if cfg.Slots < 0 || cfg.Slots > math.MaxInt32 {
		c.fault("Slots", "%d is no number of slots; give at least 1", cfg.Slots)
	} else if cfg.Slots > 0 {
		settings.Slots = uint32(cfg.Slots)
	}
	if cfg.ShutdownGrace < 0 {
		c.fault("ShutdownGrace", "%v is negative", cfg.ShutdownGrace)
	} else if cfg.ShutdownGrace > 0 {
		settings.ShutdownGrace = cfg.ShutdownGrace
	}
	if len(cfg.Labels) > labelsMax {
		c.fault("Labels", "there are %d; at most %d are taken", len(cfg.Labels), labelsMax)
	}
	if _, nameless := cfg.Labels[""]; nameless {
		c.fault("Labels", "a label has an empty key; name it")
	}
	return settings, c.err()
}

func (r Reconnect) filled(c *checker) session.Reconnect {
	or := func(name string, value, fallback time.Duration) time.Duration {
		if value < 0 {
			c.fault("Reconnect."+name, "%v is negative", value)
		}
		if value == 0 {
			return fallback
		}
		return value
	}
	return session.Reconnect{
		First:        or("First", r.First, 2*time.Second),
		Base:         or("Base", r.Base, 500*time.Millisecond),
		Cap:          or("Cap", r.Cap, 30*time.Second),
		HealthyAfter: or("HealthyAfter", r.HealthyAfter, 60*time.Second),
	}
}

// defaultID is the host's name and six random characters, so that two processes of a host do not
// clash.
func defaultID() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return idFrom(host, strings.ToLower(rand.Text()[:idSuffixChars]))
}

func idFrom(host, suffix string) string {
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		case (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strings.ContainsRune("._-", c):
			return c
		default:
			return '-'
		}
	}, host)
	clean = clean[:min(len(clean), nameBytesMax-len(suffix)-1)]
	clean = strings.Trim(clean, "._-")
	if clean == "" {
		clean = "executor"
	}
	return clean + "-" + suffix
}

// RefusedError is a scheduler's refusal that trying again cannot change: a credential, settings or
// a protocol that it does not take.
type RefusedError struct {
	// Code is the gRPC code's name, such as Unauthenticated, or the reason of a closed session.
	Code string
	// Message has the scheduler's words.
	Message string
	text    string
}

// Error says all of it, with what to do about it.
func (e *RefusedError) Error() string { return e.text }

// SupersededError says that another process took over this executor's id.
type SupersededError struct {
	// Message has the scheduler's words.
	Message string
	text    string
}

// Error says all of it.
func (e *SupersededError) Error() string { return e.text }

// public is a session's error as this package names it.
func public(err error) error {
	var refused *session.Refused
	var superseded *session.Superseded
	switch {
	case errors.As(err, &refused):
		return &RefusedError{Code: refused.Code, Message: refused.Message, text: err.Error()}
	case errors.As(err, &superseded):
		return &SupersededError{Message: superseded.Message, text: err.Error()}
	default:
		return err
	}
}
