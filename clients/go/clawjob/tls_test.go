package clawjob_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.certificate, a.key = a.sign(template, template, nil)
	return a
}

func (a *authority) sign(
	template, parent *x509.Certificate,
	signer *ecdsa.PrivateKey,
) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate, key
}

// issue is a certificate for a name.
func (a *authority) issue(name string) tls.Certificate {
	certificate, key := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, a.key)
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
}

func (a *authority) file() string {
	path := filepath.Join(a.t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// server is a scheduler with TLS, which may ask for clients' certificates.
func (a *authority) server(asks bool) *fake {
	config := &tls.Config{Certificates: []tls.Certificate{a.issue("localhost")}}
	if asks {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AddCert(a.certificate)
	}
	return newFake(a.t, grpc.Creds(credentials.NewTLS(config)))
}

func secure(f *fake, ca string) clawjob.Config {
	c := config("https://" + f.address())
	c.CAFile = ca
	return c
}

func TestC58ASessionOverTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	f := a.server(false)
	startWith(t, secure(f, a.file()))
	f.open().heartbeat()
}

func TestC58ASessionOverMutualTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	f := a.server(true)
	c := secure(f, a.file())
	c.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue("tester")}}
	startWith(t, c)
	f.open().heartbeat()
}

func TestC58StrangersGetNoSession(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	// A server that the client does not trust, and one that asks for a certificate it has not got.
	for asks, ca := range map[bool]string{false: newAuthority(t).file(), true: a.file()} {
		f := a.server(asks)
		startWith(t, secure(f, ca))
		for end := time.Now().Add(patience); f.listener.count.Load() < 3; {
			if time.Now().After(end) {
				t.Fatal("it does not dial on")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := f.dials.Load(); got != 0 {
			t.Errorf("%d sessions", got)
		}
	}
}
