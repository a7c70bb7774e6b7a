package daemon_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
)

// busybox is the image that .ci/start-docker loads.
const busybox = "sotabuild-test:busybox"

// real connects to the daemon of this machine.
func real(t *testing.T, o daemon.Options) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Dial(t.Context(), o)
	if err == nil {
		_, err = d.Image(t.Context(), busybox)
	}
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SOTABUILD_REQUIRE"), ","), "docker") {
			t.Fatalf("docker is required here and missing: %v", err)
		}
		t.Skipf("SKIPPED, docker is not on this machine; .ci/start-docker starts it: %v", err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// shell asks for a container that runs a shell script, which is removed with the
// test.
func shell(t *testing.T, d *daemon.Daemon, script string) daemon.Request {
	t.Helper()
	img, err := d.Image(t.Context(), busybox)
	if err != nil {
		t.Fatal(err)
	}
	r := daemon.Request{Image: img, Network: "none", Task: executors.Task{
		ID:       executors.TaskID(fmt.Sprintf("daemon-test-%d", time.Now().UnixNano())),
		Process:  specs.Process{Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin"}},
		Labels:   map[string]string{executors.LabelRun: fmt.Sprintf("%s-%d", t.Name(), os.Getpid())},
		Deadline: time.Hour, StopGrace: 3 * time.Second,
	}}
	r.Task.Dir = filepath.Join(t.TempDir(), string(r.Task.ID))
	if err := os.Mkdir(r.Task.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(context.Background(), daemon.Name(r.Task.ID)); err != nil {
			t.Error(err)
		}
	})
	return r
}

func started(t *testing.T, d *daemon.Daemon, r daemon.Request) (id string) {
	t.Helper()
	id, err := d.Create(t.Context(), r)
	if err == nil {
		err = d.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func look(t *testing.T, d *daemon.Daemon, id string) *daemon.Container {
	t.Helper()
	box, err := d.Look(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func ended(t *testing.T, d *daemon.Daemon, r daemon.Request) *daemon.Container {
	t.Helper()
	id := started(t, d, r)
	if err := d.UntilEnd(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return look(t, d, id)
}

// TestLifeOfAContainer: it is made, found by its marks, started, ended and
// removed, and each look says so.
func TestLifeOfAContainer(t *testing.T) {
	d, ctx := real(t, daemon.Options{}), t.Context()
	r := shell(t, d, "echo begun; exec sleep 1000")
	id, err := d.Create(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	want := daemon.Mark{ID: id, Task: r.Task.ID, Dir: r.Task.Dir, Deadline: time.Hour, Grace: 3 * time.Second}
	box := look(t, d, daemon.Name(r.Task.ID))
	if box.Mark != want || box.Image != r.Image.ConfigDigest || box.Alive() || box.WasStarted() {
		t.Errorf("made as %+v, want %+v, not started", box, want)
	}
	if list, err := d.List(ctx, r.Task.Labels[executors.LabelRun]); err != nil || len(list) != 1 || list[0] != want {
		t.Errorf("listed %+v, %v; want %+v", list, err, want)
	}
	if _, err := d.Create(ctx, r); !daemon.Conflict(err) || daemon.Away(err) {
		t.Errorf("made a second time: %v", err)
	}
	for program, want := range map[string]string{"/bin/sh": "", "/bin/no-such": "is not there", "/bin": "no file that can be executed"} {
		if why, err := d.CannotExec(ctx, id, program); err != nil || want == "" && why != "" || !strings.Contains(why, want) {
			t.Errorf("%s cannot be executed: %q, %v; want %q", program, why, err, want)
		}
	}
	if err := d.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	if box = look(t, d, id); !box.Alive() || !box.WasStarted() || !box.Finished.IsZero() {
		t.Errorf("started: %+v", box.State)
	}
	said, to := io.Pipe()
	followed := make(chan error, 1)
	go func() {
		_, err := d.Log(ctx, box, to)
		to.CloseWithError(err)
		followed <- err
	}()
	if _, err := io.ReadFull(said, make([]byte, len("begun\n"))); err != nil { // before, a TERM would end what has said nothing
		t.Fatal(err)
	}
	if err := errors.Join(d.End(ctx, id, time.Minute), <-followed); err != nil { // sleep heeds TERM
		t.Fatal(err)
	}
	if box = look(t, d, id); box.Alive() || !box.WasStarted() || box.ExitCode != 128+15 || box.Finished.Before(box.Started) {
		t.Errorf("ended by TERM: %+v", box.State)
	}
	var out strings.Builder
	if n, err := d.Log(ctx, box, &out); err != nil || n != 6 || out.String() != "begun\n" {
		t.Errorf("it printed %q, %d bytes, %v", out.String(), n, err)
	}
	for range 2 {
		if err := d.Remove(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if gone := look(t, d, id); gone != nil || gone.Alive() || gone.WasStarted() {
		t.Errorf("removed: %+v", gone)
	}
	if n, err := d.Log(ctx, box, io.Discard); n != 0 || !errors.Is(err, daemon.ErrGone) {
		t.Errorf("the log of a removed one: %d bytes, %v", n, err)
	}
}

// TestWhatCannotBe: the daemon's refusals are told apart from its absence.
func TestWhatCannotBe(t *testing.T) {
	d := real(t, daemon.Options{})
	r := shell(t, d, "exit 0")
	r.Task.Mounts = []specs.Mount{{Source: r.Task.Dir + "/no-such", Destination: "/x"}}
	if _, err := d.Create(t.Context(), r); !daemon.Invalid(err) || daemon.Away(err) {
		t.Errorf("a mount that is not there: %v", err)
	}
	r.Task.Mounts[0].Source = "no-such"
	if _, err := d.Create(t.Context(), r); !daemon.Invalid(err) || daemon.Away(err) || d.Check(r) == nil {
		t.Errorf("a mount that is no path: %v", err)
	}
	if _, err := d.Image(t.Context(), "sotabuild-test:no-such"); !errors.Is(err, daemon.ErrAbsent) || daemon.Away(err) {
		t.Errorf("an image that is not there: %v", err)
	}
	if err := d.RemoveImage(t.Context(), "sotabuild-test:no-such"); err != nil {
		t.Errorf("removing one that is not there: %v", err)
	}
	far, err := daemon.Dial(t.Context(), daemon.Options{Host: d.Host()})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := far.Start(ctx, "x"); !daemon.Away(err) {
		t.Errorf("a question that was not asked: %v", err)
	}
}

// through is the daemon behind a proxy.
func through(t *testing.T, d *daemon.Daemon) http.Handler {
	t.Helper()
	socket, ok := strings.CutPrefix(d.Host(), "unix://")
	if !ok {
		t.Skip("SKIPPED, the docker daemon is not behind a socket of this host")
	}
	p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	p.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}
	p.FlushInterval = -1
	return p
}

// TestOverSSH: the way to the daemon is an ssh command; here it is one that
// runs the rest of its words on this host.
func TestOverSSH(t *testing.T) {
	real(t, daemon.Options{}) // or there is nothing at the other end
	bin := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >> " + bin + "/said\nwhile [ \"$1\" != far.example ]; do shift; done\nshift\nexec sh -c \"$*\"\n"
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip("SKIPPED, the docker command is not on this machine, which is the far end of ssh")
	}
	d := real(t, daemon.Options{Host: "ssh://somebody@far.example"})
	box := ended(t, d, shell(t, d, "echo hello; exit 7"))
	var out bytes.Buffer
	if n, err := d.Log(t.Context(), box, &out); err != nil || n != 6 || out.String() != "hello\n" {
		t.Errorf("it printed %q, %d bytes, %v", out.String(), n, err)
	}
	if box.ExitCode != 7 {
		t.Errorf("it ended as %+v", box.State)
	}
	said, err := os.ReadFile(filepath.Join(bin, "said"))
	if err != nil || !strings.Contains(string(said), "BatchMode=yes") || !strings.Contains(string(said), "far.example docker system dial-stdio") {
		t.Errorf("ssh was called with %q, %v", said, err)
	}
	// ssh refuses a login some time after it was started: what is written to it
	// meanwhile goes somewhere.
	broken := "#!/bin/sh\nread -r _\necho 'Permission denied (publickey).' >&2\nexit 255\n"
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(broken), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Dial(t.Context(), daemon.Options{Host: "ssh://somebody@far.example"}); err == nil || !strings.Contains(err.Error(), "Permission denied (publickey)") {
		t.Errorf("a refused login: %v", err)
	}
}

// TestOverTLS: both sides show a certificate of one authority.
func TestOverTLS(t *testing.T) {
	dir := t.TempDir()
	config := authority(t, dir)
	far := httptest.NewUnstartedServer(through(t, real(t, daemon.Options{})))
	far.TLS = config
	far.Config.ErrorLog = log.New(io.Discard, "", 0) // refusals are wanted
	far.StartTLS()
	t.Cleanup(far.Close)
	host := "tcp" + strings.TrimPrefix(far.URL, "https")
	d := real(t, daemon.Options{Host: host, Certs: dir})
	if box := ended(t, d, shell(t, d, "exit 7")); box.ExitCode != 7 {
		t.Errorf("it ended as %+v", box.State)
	}
	other := t.TempDir()
	authority(t, other)
	if _, err := daemon.Dial(t.Context(), daemon.Options{Host: host, Certs: other}); err == nil {
		t.Error("a daemon of another authority was believed")
	}
	t.Setenv("DOCKER_CERT_PATH", "")
	if _, err := daemon.Dial(t.Context(), daemon.Options{Host: host}); err == nil {
		t.Error("a daemon that wants TLS was spoken to without")
	}
}

// authority writes ca.pem, cert.pem and key.pem of a new authority, and returns
// the configuration of a server that wants such a certificate.
func authority(t *testing.T, dir string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
	for name, text := range map[string][]byte{"ca.pem": cert, "cert.pem": cert, "key.pem": keyText} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(cert, keyText)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}
