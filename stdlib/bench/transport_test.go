package bench_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// TestEveryProtocol measures one server over each scheme and checks which
// protocol it saw.
func TestEveryProtocol(t *testing.T) {
	sim, err := simserve.Handler(simserve.Config{Model: "sim", Prefill: 5 * ms, Step: ms})
	if err != nil {
		t.Fatal(err)
	}
	for scheme, want := range map[string]string{"http": "HTTP/1.1", "https": "HTTP/1.1", "unix": "HTTP/1.1", "h2": "HTTP/2.0", "h2c": "HTTP/2.0"} {
		t.Run(scheme, func(t *testing.T) {
			seen := make(chan string, 100)
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Proto
				sim.ServeHTTP(w, r)
			}))
			s := spec(prompts(t, 4, 1, 8))
			s.Load.Warmup = 1
			host := bench.ThisHost()
			switch scheme {
			case "https", "h2":
				srv.EnableHTTP2 = true
				srv.StartTLS()
				host.Roots = x509.NewCertPool()
				host.Roots.AddCert(srv.Certificate())
			case "h2c":
				var p http.Protocols
				p.SetUnencryptedHTTP2(true)
				srv.Config.Protocols = &p
				srv.Start()
			case "unix":
				path := filepath.Join(t.TempDir(), "s")
				l, err := net.Listen("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				if err := srv.Listener.Close(); err != nil {
					t.Fatal(err)
				}
				srv.Listener = l
				srv.Start()
				s.URL = "unix://" + path
			default:
				srv.Start()
			}
			defer srv.Close()
			if scheme != "unix" {
				s.URL = scheme + "://" + srv.Listener.Addr().String()
			}
			rep, err := host.Run(t.Context(), s)
			if err != nil || rep.Row.Status != result.OK && rep.Row.Class != result.ClientLimited || rep.Row.Requests.OK != 4 {
				t.Fatalf("row is %s, error %v", describe(rep.Row), err)
			}
			if got := <-seen; got != want {
				t.Errorf("the server saw %s, want %s", got, want)
			}
		})
	}
}

// TestHTTP2IsNotReplaced: a server without HTTP/2 is not measured over HTTP/1.1 when
// HTTP/2 was asked for.
func TestHTTP2IsNotReplaced(t *testing.T) {
	sim, err := simserve.Handler(simserve.Config{Model: "sim"})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(sim) // it refuses who offers HTTP/2 alone
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	plain := httptest.NewServer(sim)
	defer plain.Close()
	silent := &http.Server{Handler: sim, ErrorLog: srv.Config.ErrorLog} // it chooses no protocol, which means HTTP/1.1
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: srv.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- silent.Serve(l) }()
	defer func() {
		if err := silent.Close(); err != nil || !errors.Is(<-ended, http.ErrServerClosed) {
			t.Error("the server did not close")
		}
	}()
	host := bench.ThisHost()
	host.Roots = x509.NewCertPool()
	host.Roots.AddCert(srv.Certificate())
	for url, says := range map[string]string{"h2://" + l.Addr().String(): "write https://",
		"h2://" + srv.Listener.Addr().String(): "no application protocol", "h2c://" + plain.Listener.Addr().String(): "http2"} {
		s := spec(prompts(t, 1, 0, 1))
		s.URL = url
		rep, err := host.Run(t.Context(), s)
		if err != nil || rep.Row.Class != result.ConnFailed || !strings.Contains(rep.Row.Reason, says) {
			t.Errorf("%s: row is %s, error %v", url, describe(rep.Row), err)
		}
	}
}

// TestUntrustedCertificateIsRefused leaves the roots to the system.
func TestUntrustedCertificateIsRefused(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	s := spec(prompts(t, 1, 0, 1))
	s.URL = srv.URL
	rep, err := bench.Run(t.Context(), s)
	if err != nil || rep.Row.Class != result.ConnFailed {
		t.Errorf("row is %s, error %v", describe(rep.Row), err)
	}
}
