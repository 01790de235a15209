// Package endpoint turns the URL of a scheduler into what gRPC dials, and reads bearer tokens.
package endpoint

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Default is where to dial when nothing else is said.
const Default = "http://127.0.0.1:7700"

const (
	// keepaliveInterval is how often HTTP/2 pings are sent, also without traffic.
	keepaliveInterval = 20 * time.Second
	// keepaliveTimeout bounds the time for the answer to a ping.
	keepaliveTimeout = 10 * time.Second
	// messageBytesMax is the largest message taken: above the contract's bound of 1 MiB, so that a
	// raised bound on the other side does not end the session.
	messageBytesMax = 4 << 20
)

// Target is one endpoint.
type Target struct {
	// Address is gRPC's target.
	Address string
	// Secure is whether to speak TLS.
	Secure bool
}

// Parse reads http://host:port or https://host:port; the port may be left out.
func Parse(text string) (Target, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return Target{}, fmt.Errorf("%q is not a URL; write http://host:7700 or https://host:7700", text)
	}
	port := map[string]string{"http": "80", "https": "443"}[parsed.Scheme]
	fail := func(why string) (Target, error) { return Target{}, fmt.Errorf("%q %s", text, why) }
	switch {
	case port == "":
		return fail("has no http:// or https:// in front")
	case parsed.User != nil:
		return Target{}, errors.New("an endpoint carries a user name; credentials go into " +
			"CLAWJOB_TOKEN or CLAWJOB_TOKEN_FILE")
	case parsed.Hostname() == "":
		return fail("names no host")
	case strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "":
		return fail("has a path; gRPC needs the host and port alone")
	}
	if parsed.Port() != "" {
		port = parsed.Port()
	}
	address := "dns:///" + net.JoinHostPort(parsed.Hostname(), port)
	return Target{Address: address, Secure: parsed.Scheme == "https"}, nil
}

// Options are the options to dial the target with; base is what the caller has set up for TLS, nil
// for the system's authorities.
func (t Target) Options(base *tls.Config) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if t.Secure {
		config := &tls.Config{}
		if base != nil {
			config = base.Clone()
		}
		config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
		creds = credentials.NewTLS(config)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time:                keepaliveInterval,
			Timeout:             keepaliveTimeout,
			PermitWithoutStream: true,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax)),
		// Policies of retrying are ours; a scheduler's DNS entry has no say in them.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
	}
}

// Scheme is the part of a URL in front of "://".
func Scheme(text string) string {
	scheme, _, _ := strings.Cut(text, "://")
	return scheme
}

// Token reads a bearer token: from file, at each call anew, when that is given, else it is text. It
// is nil when neither is given.
func Token(text, file string) func() (string, error) {
	if text == "" && file == "" {
		return nil
	}
	return func() (string, error) {
		token := text
		if file != "" {
			read, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("the token file cannot be read: %w", err)
			}
			if token = strings.TrimSpace(string(read)); token == "" {
				return "", fmt.Errorf("the token file %s is empty", file)
			}
		}
		for i := range len(token) {
			if token[i] <= ' ' || token[i] > '~' {
				return "", errors.New("the token has characters that a header cannot carry")
			}
		}
		return token, nil
	}
}
