package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestVersionsCompare(t *testing.T) {
	for _, c := range [][2]string{{"1.9", "1.41"}, {"1.40", "1.41"}, {"0.99", "1.0"}} {
		if !older(c[0], c[1]) || older(c[1], c[0]) || older(c[0], c[0]) {
			t.Errorf("%s and %s", c[0], c[1])
		}
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.38")
		w.Header().Set("Ostype", "linux")
	}))
	defer old.Close()
	t.Setenv("DOCKER_CERT_PATH", "")
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"nobody":  {Options{Host: "unix:///no/such.sock"}, "no daemon answers at unix:///no/such.sock"},
		"old":     {Options{Host: "tcp" + strings.TrimPrefix(old.URL, "http")}, "speaks API 1.38 at most, and 1.41 (Docker 20.10) is the oldest"},
		"scheme":  {Options{Host: "http://x"}, "is none of unix:///PATH"},
		"certs":   {Options{Host: "tcp://127.0.0.1:1", Certs: "/no/such"}, "ca.pem, cert.pem and key.pem in /no/such"},
		"program": {Options{Self: "sotabuild"}, "no absolute path"},
		"ssh":     {Options{Host: "ssh://"}, "ssh"},
	} {
		if _, err := Dial(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
