package prepare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/weights"
)

// Weights says where the store of dir has the model's pinned revision, whether
// it is whole there, and how it is fetched: from the hub that the environment
// names (HF_ENDPOINT), with its token only where the campaign declares HF_TOKEN
// a secret. A model with a path has the zero values.
func Weights(c *lang.Campaign, store string) (campaign.Revision, weights.Options, error) {
	if !pinned(c) {
		return campaign.Revision{}, weights.Options{}, nil
	}
	at, err := revision(store, c.Model.ID, c.Model.Revision)
	if err != nil {
		return campaign.Revision{}, weights.Options{}, err
	}
	o := weights.Options{Hub: weights.Hub{URL: weights.DefaultHub}, Cache: hubCache()}
	if v := os.Getenv("HF_ENDPOINT"); v != "" {
		o.Hub.URL = strings.TrimRight(v, "/")
	}
	if slices.Contains(c.Run.Secrets, "HF_TOKEN") {
		o.Hub.Token = os.Getenv("HF_TOKEN")
	}
	return at, o, nil
}

// pinned reports whether the model is a revision of a hub.
func pinned(c *lang.Campaign) bool { return c.Model.Path == "" && c.Model.Revision != "" }

// revision is where a store has a revision of a model; the zero value where no
// revision is named.
func revision(store, model, name string) (campaign.Revision, error) {
	if name == "" {
		return campaign.Revision{}, nil
	}
	dir, err := weights.Folder(filepath.Join(store, "weights"), model, name)
	if err != nil {
		return campaign.Revision{}, err
	}
	_, missing, err := weights.Whole(dir)
	return campaign.Revision{Folder: dir, Missing: missing}, err
}

// hubCache is where the hub's own library keeps models on this host.
func hubCache() string {
	if v := os.Getenv("HF_HUB_CACHE"); v != "" {
		return v
	}
	if v := os.Getenv("HF_HOME"); v != "" {
		return filepath.Join(v, "hub")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "" // no cache: everything is fetched
	}
	return filepath.Join(home, ".cache", "huggingface", "hub")
}
