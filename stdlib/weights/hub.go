package weights

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Hub is a model hub that speaks Hugging Face's interface: the list of a
// revision under /api/models, files under /resolve.
type Hub struct {
	URL   string // without a final slash
	Token string // "" asks without one
	HTTP  *http.Client
}

// DefaultHub is asked where the environment names no other (HF_ENDPOINT).
const DefaultHub = "https://huggingface.co"

// client times out on silence, never on the length of a transfer.
func (h Hub) client() *http.Client {
	if h.HTTP != nil {
		return h.HTTP
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = time.Minute
	return &http.Client{Transport: t}
}

func (h Hub) get(ctx context.Context, address string, from int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if h.Token != "" {
		// Go's client takes it off again where a redirect leaves the host.
		req.Header.Set("Authorization", "Bearer "+h.Token)
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	return h.client().Do(req)
}

// status says what an answer other than success means for the user.
func (h Hub) status(r *http.Response, what string) error {
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		if h.Token == "" {
			return fmt.Errorf("%s: the hub wants a login (%s): accept the model's licence on its page, set HF_TOKEN, and write secrets { env = [\"HF_TOKEN\"] }", what, r.Status)
		}
		return fmt.Errorf("%s: the hub refuses this HF_TOKEN (%s): accept the model's licence with its account, or give another", what, r.Status)
	case http.StatusNotFound:
		return fmt.Errorf("%s: the hub does not have it (%s): check the model's id and its revision, or give the folder of its files as path", what, r.Status)
	}
	return fmt.Errorf("%s: the hub answers %s", what, r.Status)
}

// escape keeps the slashes of a name.
func escape(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// maxListing bounds the answer of the list of files.
const maxListing = 64 << 20

// List asks what a revision holds and keeps what a server needs.
func (h Hub) List(ctx context.Context, id, revision string) (List, error) {
	what := "the list of " + id
	r, err := h.get(ctx, h.URL+"/api/models/"+escape(id)+"/revision/"+revision+"?blobs=true", 0)
	if err != nil {
		return List{}, fmt.Errorf("%s: %w", what, err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return List{}, h.status(r, what)
	}
	var answer struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
			Size *int64 `json:"size"`
			Blob string `json:"blobId"`
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxListing)).Decode(&answer); err != nil {
		return List{}, fmt.Errorf("%s: the hub's answer is no list of files: %w", what, err)
	}
	if answer.SHA != revision {
		return List{}, fmt.Errorf("%s: asked for revision %s, and the hub answers for %q", what, revision, answer.SHA)
	}
	out := List{Version: listVersion, Model: id, Revision: revision}
	for _, s := range answer.Siblings {
		f := File{Name: s.Name, Git: s.Blob}
		switch {
		case s.LFS != nil:
			f.Size, f.SHA256, f.Git = s.LFS.Size, s.LFS.SHA256, ""
		case s.Size != nil:
			f.Size = *s.Size
		default:
			return List{}, fmt.Errorf("%s: the hub gives no size for %q", what, s.Name)
		}
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || strings.ContainsAny(f.Name, "\\\x00") || f.Name == ListFile {
			return List{}, fmt.Errorf("%s: the name %q does not stay inside a folder", what, f.Name)
		}
		if len(f.SHA256) != 64 && len(f.Git) != 40 || f.Size < 0 {
			return List{}, fmt.Errorf("%s: the hub gives no digest for %q", what, s.Name)
		}
		out.Files = append(out.Files, f)
	}
	if out.Files = needed(out.Files); len(out.Files) == 0 {
		return List{}, errors.New(what + " has no file that a server reads")
	}
	return out, nil
}
