// Package testnode runs a real scheduler for tests: the binary that CLAWJOB_TEST_BINARY names.
package testnode

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"clawjob.dev/go/clawjob"
	"clawjob.dev/go/clawjobpb"
)

// startTimeout is how long a scheduler may take to come up, on a busy machine too.
const startTimeout = 60 * time.Second

// logBytesShown is how much of what the scheduler said is shown when a test fails.
const logBytesShown = 8 << 10

// Node is a scheduler process. It ends with the test.
type Node struct {
	t       *testing.T
	dir     string
	address string
	command *exec.Cmd
}

// New starts a scheduler on its embedded store. The test is skipped when there is no binary.
func New(t *testing.T) *Node {
	t.Helper()
	if os.Getenv("CLAWJOB_TEST_BINARY") == "" {
		t.Skip("CLAWJOB_TEST_BINARY names no scheduler")
	}
	// A free port; a later start takes the one that the first has found.
	n := &Node{t: t, dir: t.TempDir(), address: "127.0.0.1:0"}
	t.Cleanup(func() {
		n.Kill()
		if t.Failed() {
			said, _ := os.ReadFile(n.log())
			t.Logf("the scheduler said:\n%s", said[max(0, len(said)-logBytesShown):])
		}
	})
	n.Start()
	return n
}

// log is the file with what it says.
func (n *Node) log() string { return filepath.Join(n.dir, "test.log") }

// URL is where it listens.
func (n *Node) URL() string { return "http://" + n.address }

// Start starts it again on the same port with the same data.
func (n *Node) Start() {
	n.t.Helper()
	n.command = exec.Command(os.Getenv("CLAWJOB_TEST_BINARY"), "server", "--data-dir", n.dir,
		"--listen", n.address, "--set", "timings.heartbeat_interval=500ms")
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "CLAWJOB_") {
			n.command.Env = append(n.command.Env, pair)
		}
	}
	said, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer said.Close()
	n.command.Stderr = said
	out, err := n.command.StdoutPipe()
	if err == nil {
		err = n.command.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	up := make(chan string, 1)
	go func() {
		defer close(up)
		lines := bufio.NewScanner(out)
		for told := false; lines.Scan(); {
			if at, is := strings.CutPrefix(lines.Text(), "listening on http://"); is && !told {
				up <- at
				told = true
			}
		}
	}()
	select {
	case at, is := <-up:
		if !is {
			n.t.Fatal("the scheduler ended before it was up")
		}
		n.address = at
	case <-time.After(startTimeout):
		n.t.Fatalf("the scheduler is not up after %v", startTimeout)
	}
}

// Kill ends it as the kernel would, without a word.
func (n *Node) Kill() {
	if n.command == nil || n.command.Process == nil {
		return
	}
	_ = n.command.Process.Kill()
	_ = n.command.Wait()
}

// Terminate asks it to end, and waits until it has.
func (n *Node) Terminate() {
	n.t.Helper()
	if err := n.command.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	if err := n.command.Wait(); err != nil {
		n.t.Error(err)
	}
}

// AdminTokenFile is what the first start wrote for its admin.
func (n *Node) AdminTokenFile() string { return filepath.Join(n.dir, "admin.token") }

// Client is an admin's client of an app.
func (n *Node) Client(app string) *clawjob.Client {
	n.t.Helper()
	client, err := clawjob.NewClient(clawjob.ClientConfig{
		Endpoints: []string{n.URL()}, App: app, TokenFile: n.AdminTokenFile(),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = client.Close() })
	return client
}

// ExecutorToken is a new token for executors of an app.
func (n *Node) ExecutorToken(app string) string {
	n.t.Helper()
	identity := clawjobpb.NewIdentityServiceClient(n.Client(app).Conn())
	made, err := identity.CreateToken(n.t.Context(), &clawjobpb.CreateTokenRequest{
		Token: &clawjobpb.Token{Grants: []*clawjobpb.Grant{
			{App: app, Role: clawjobpb.Role_ROLE_EXECUTOR},
		}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return made.GetSecret()
}
