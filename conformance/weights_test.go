package conformance

import (
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// modelHub serves a folder as one revision of a hub repository and counts what
// is fetched.
type modelHub struct {
	sync.Mutex
	fetched []string
}

func (h *modelHub) serve(t *testing.T, dir, id, revision string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/models/"+id+"/revision/"+revision, func(w http.ResponseWriter, r *http.Request) {
		type sibling struct {
			Name string `json:"rfilename"`
			Size int    `json:"size"`
			Blob string `json:"blobId"`
		}
		var all []sibling
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Error(err)
			}
			all = append(all, sibling{e.Name(), len(b), fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...)))})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"sha": revision, "siblings": all})
	})
	mux.HandleFunc("GET /"+id+"/resolve/"+revision+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		h.Lock()
		h.fetched = append(h.fetched, r.PathValue("name"))
		h.Unlock()
		http.ServeFile(w, r, filepath.Join(dir, r.PathValue("name")))
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestPinnedRevision: a model that is a revision of a hub is fetched once before
// the first server starts; servers run from its folder with the hub's access
// off; what is lost is fetched again, and no measurement is stale for it.
func TestPinnedRevision(t *testing.T) {
	const id, revision = "acme/tiny", "0123456789abcdef0123456789abcdef01234567"
	s := example(t, "quickstart")
	s.edit("campaign.hcl", "scenario \"summarization\" {\n  input_len   = 256\n  output_len  = 32\n  num_prompts = 8\n}\n", "")
	s.edit("campaign.hcl", "input_len   = 64\n  output_len  = 64\n  num_prompts = 16", "input_len   = 16\n  output_len  = 8\n  num_prompts = 4")
	s.edit("campaign.hcl", `model "tiny"`, `model "`+id+`"`)
	s.edit("campaign.hcl", `path         = "../models/tiny" # config.json: random weights from a seed`, `revision = "`+revision+`"`+"\n  vocab = [0, 256]")
	h := &modelHub{}
	t.Setenv("HF_ENDPOINT", h.serve(t, filepath.Join(s.dir, "../models/tiny"), id, revision))

	s.must(0, "apply")
	if len(h.fetched) == 0 {
		t.Fatal("nothing was fetched")
	}
	folder := filepath.Join(".sotabuild/weights/acme--tiny", revision)
	specs, err := filepath.Glob(filepath.Join(s.dir, ".sotabuild/tasks/*/spec.json"))
	if err != nil || len(specs) == 0 {
		t.Fatalf("no task is left to look at: %v", err)
	}
	servers := 0
	for _, p := range specs {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		var spec struct {
			Processes []struct{ Argv, Env []string }
		}
		if err := json.Unmarshal(b, &spec); err != nil {
			t.Fatal(err)
		}
		for _, proc := range spec.Processes {
			servers++
			if !strings.Contains(strings.Join(proc.Argv, " "), folder) || !strings.Contains(strings.Join(proc.Env, " "), "HF_HUB_OFFLINE=1") {
				t.Errorf("a server does not start from %s offline: %q %q", folder, proc.Argv, proc.Env)
			}
		}
	}
	if servers == 0 {
		t.Error("no server was started")
	}
	n := len(h.fetched)
	if again := s.must(0, "apply"); !strings.Contains(again.out, "Applied: 0 nodes run") || len(h.fetched) != n {
		t.Errorf("a second apply ran something, or fetched %q:\n%s", h.fetched[n:], again.out)
	}

	if err := os.Remove(filepath.Join(s.dir, folder, "config.json")); err != nil {
		t.Fatal(err)
	}
	for _, node := range s.plan().Nodes {
		if stale := node.Verdict != "cached"; stale != (node.Node == "weights.model") {
			t.Errorf("a file is lost: %s is %s", node.Node, node.Verdict)
		}
	}
	if again := s.must(0, "apply"); !strings.Contains(again.out, "Applied: 1 node run") || len(h.fetched) != n+1 {
		t.Errorf("%q were fetched:\n%s", h.fetched[n:], again.out)
	}
}
