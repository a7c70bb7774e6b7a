package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// parseRef reads a complete reference. A short one is refused: what it means
// depends on who reads it.
func parseRef(ref string) (name.Reference, error) {
	r, err := name.ParseReference(ref, name.StrictValidation)
	if err != nil {
		return nil, unusable("image %q is not a complete reference (%s); write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST with the registry's host name, docker-archive:PATH or oci:PATH", ref, strings.TrimSpace(err.Error()))
	}
	return r, nil
}

// openRegistry asks a registry, with the credentials that docker login left.
func openRegistry(ctx context.Context, ref string, p Platform) (v1.Image, string, error) {
	r, err := parseRef(ref)
	if err != nil {
		return nil, "", err
	}
	desc, err := remote.Get(r, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(guarded{remote.DefaultTransport}),
		remote.WithPlatform(v1.Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant}),
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 3}))
	if err != nil {
		return nil, "", refused(ref, r, err)
	}
	img, err := desc.Image()
	if err != nil {
		return nil, "", refused(ref, r, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, "", refused(ref, r, err)
	}
	return img, digest.String(), nil
}

// Pinned is the reference with the digest that it had when it was opened, for
// records and for later pulls of the same bytes; Ref itself where there is none.
func (i *Image) Pinned() string {
	if kind, _, err := Split(i.Ref); err != nil || kind != Registry || i.ManifestDigest == "" {
		return i.Ref
	}
	r, err := parseRef(i.Ref)
	if err != nil {
		return i.Ref
	}
	return r.Context().Name() + "@" + i.ManifestDigest
}

// refused says in our words what a registry said, and in its own.
func refused(ref string, r name.Reference, err error) error {
	var said *transport.Error
	if !errors.As(err, &said) {
		if strings.Contains(err.Error(), "no child with platform") {
			return unusable("image %s has nothing for this platform: %w", ref, err)
		}
		return fmt.Errorf("asking the registry of image %s: %w", ref, err)
	}
	for _, e := range said.Errors {
		switch e.Code {
		case transport.ManifestUnknownErrorCode, transport.NameUnknownErrorCode:
			return unusable("image %s is not in its registry; look at its name and tag there: %w", ref, err)
		}
	}
	switch said.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return unusable("image %s is refused by its registry; log in with docker login %s, or look at its name: %w", ref, r.Context().RegistryStr(), err)
	case http.StatusNotFound:
		return unusable("image %s is not in its registry; look at its name and tag there: %w", ref, err)
	}
	return fmt.Errorf("asking the registry of image %s: %w", ref, err)
}

// guarded refuses plain http beyond this host: the library also tries it on
// private networks, where anybody on the way could change an image that was
// named by tag.
type guarded struct{ next http.RoundTripper }

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !loopback(r.URL.Hostname()) {
		return nil, fmt.Errorf("%s speaks plain http, which is for registries on localhost only", r.URL.Host)
	}
	return g.next.RoundTrip(r)
}

func loopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
