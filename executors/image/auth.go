package image

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Credentials are what `docker login` left for a registry. The zero value is
// nobody.
type Credentials struct{ User, Password, IdentityToken, RegistryToken string }

// Login returns the credentials for the registry of a reference.
func Login(ref string) (Credentials, error) {
	r, err := parseRef(ref)
	if err != nil {
		return Credentials{}, err
	}
	auth, err := authn.DefaultKeychain.Resolve(r.Context())
	if err != nil {
		return Credentials{}, fmt.Errorf("finding the credentials for image %s: %w", ref, err)
	}
	c, err := auth.Authorization()
	if err != nil {
		return Credentials{}, fmt.Errorf("finding the credentials for image %s: %w", ref, err)
	}
	return Credentials{c.Username, c.Password, c.IdentityToken, c.RegistryToken}, nil
}
