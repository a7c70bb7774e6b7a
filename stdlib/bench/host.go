package bench

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// Host is what a run takes from the machine it runs on. Tests replace it.
type Host struct {
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	Env   func(name string) (string, bool)
	Roots *x509.CertPool // trusted for TLS; nil is the system's, or SSL_CERT_FILE's
	// CPU is the CPU time that this process has used; nil is not observed.
	CPU func() time.Duration
	// Watch gets the state of the run some times a second; nil is nobody.
	Watch func(Progress)
	// Begin is called after the preflight, just before the first measured
	// request is due; nil is nobody.
	Begin func(ctx context.Context)
}

// ThisHost is the machine itself.
func ThisHost() Host {
	return Host{Dial: new(net.Dialer).DialContext, Env: os.LookupEnv, CPU: cpuTime}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprintf("bench: getrusage of the process itself: %v", err))
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// headers resolves the header values and returns those that came from the
// environment: they are secrets.
func headers(from map[string]string, h Host) (http.Header, []string, error) {
	out := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"sotabuild"}}
	var hide []string
	for name, value := range from {
		space := strings.LastIndexByte(value, ' ') + 1
		if env, ok := strings.CutPrefix(value[space:], "env:"); ok {
			secret, ok := h.Env(env)
			if !ok || secret == "" {
				return nil, nil, fmt.Errorf("header %s needs the environment variable %q, which is not set", name, env)
			}
			hide = append(hide, secret)
			value = value[:space] + secret
		}
		out.Set(name, value)
	}
	return out, hide, nil
}

// clean takes secrets out of text that a server sent back.
func (c *client) clean(text string) string {
	for _, v := range c.hide {
		text = strings.ReplaceAll(text, v, "[secret]")
	}
	return text
}
