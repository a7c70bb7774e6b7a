package daemon

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/cli/cli/connhelper"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/tlsconfig"
)

// dial makes a client. It does not connect.
func dial(o Options) (*client.Client, error) {
	host := o.Host
	if host == "" {
		host = os.Getenv("DOCKER_HOST")
	}
	if host == "" {
		host = client.DefaultDockerHost
	}
	opts := []client.Opt{client.WithAPIVersionNegotiation(), client.WithUserAgent("sotabuild")}
	scheme, _, _ := strings.Cut(host, "://")
	switch scheme {
	case "unix":
		opts = append(opts, client.WithHost(host))
	case "tcp":
		config, err := certs(o.Certs)
		if err != nil {
			return nil, err
		}
		if config != nil {
			opts = append(opts, client.WithHTTPClient(&http.Client{
				Transport: config, CheckRedirect: client.CheckRedirect,
			}))
		}
		opts = append(opts, client.WithHost(host))
	case "ssh":
		// ssh asks nobody: a question would wait for ever.
		helper, err := connhelper.GetConnectionHelperWithSSHOpts(host, []string{"-o", "BatchMode=yes"})
		if err != nil {
			return nil, fmt.Errorf("using docker: the host %q: %w", host, err)
		}
		opts = append(opts, client.WithHost(helper.Host), client.WithDialContext(helper.Dialer))
	default:
		return nil, fmt.Errorf("using docker: the host %q is none of unix:///PATH, tcp://HOST:PORT and ssh://USER@HOST", host)
	}
	cli, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("using docker at %q: %w", host, err)
	}
	return cli, nil
}

// certs is a transport that speaks TLS with the certificates of a folder; nil
// where there is none. The daemon's certificate is always checked.
func certs(dir string) (*http.Transport, error) {
	if dir == "" {
		dir = os.Getenv("DOCKER_CERT_PATH")
	}
	if dir == "" {
		return nil, nil
	}
	config, err := tlsconfig.Client(tlsconfig.Options{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		ExclusiveRootPools: true,
	})
	if err != nil {
		return nil, fmt.Errorf("using docker: the certificates ca.pem, cert.pem and key.pem in %s: %w", dir, err)
	}
	return &http.Transport{TLSClientConfig: config}, nil
}
