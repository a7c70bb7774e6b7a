package weights_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/weights"
)

const (
	id       = "acme/Tiny-1B"
	revision = "0123456789abcdef0123456789abcdef01234567"
)

// safetensors is a file of the format with one tensor of n bytes.
func safetensors(tensor string, n int) []byte {
	header := fmt.Sprintf(`{"__metadata__":{"format":"pt"},%q:{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, tensor, n, n)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), bytes.Repeat([]byte{7}, n)...)
}

// hub is a model hub in memory: the list under /api, files by a redirect to
// another host, as the real one gives large files.
type hub struct {
	files  map[string][]byte
	large  map[string]bool // by SHA-256, not as git blobs
	sha    string
	token  string          // wanted; "" is none
	breaks map[string]int  // transfers of a file that break half-way
	spoil  map[string]bool // files whose bytes are wrong
	extra  []map[string]any

	mu     sync.Mutex
	asked  []string
	leaked bool
}

func newHub() *hub {
	return &hub{sha: revision, files: map[string][]byte{
		"config.json":                      []byte(`{"vocab_size": 256}`),
		"model-00001-of-00002.safetensors": safetensors("a", 3000),
		"model-00002-of-00002.safetensors": safetensors("b", 5000),
		"model.safetensors.index.json":     []byte(`{"metadata":{"total_size":8000},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`),
		"tokenizer/vocab.txt":              []byte("x\n"),
		"pytorch_model.bin":                []byte("the same weights again"),
		"original/a.pth":                   []byte("and again"),
		"picture.png":                      []byte("png"),
	}, large: map[string]bool{"model-00001-of-00002.safetensors": true, "model-00002-of-00002.safetensors": true},
		breaks: map[string]int{}, spoil: map[string]bool{}}
}

func gitBlob(b []byte) string {
	h := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...))
	return hex.EncodeToString(h[:])
}

func (h *hub) listing(w http.ResponseWriter, r *http.Request) {
	if h.token != "" && r.Header.Get("Authorization") != "Bearer "+h.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	siblings := h.extra
	for name, b := range h.files {
		s := map[string]any{"rfilename": name, "size": len(b), "blobId": gitBlob(b)}
		if h.large[name] {
			sum := sha256.Sum256(b)
			s["lfs"] = map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(b), "pointerSize": 134}
			s["blobId"] = strings.Repeat("0", 40)
		}
		siblings = append(siblings, s)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"sha": h.sha, "siblings": siblings})
}

func (h *hub) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/cdn/")
	h.mu.Lock()
	h.asked = append(h.asked, name+" "+r.Header.Get("Range"))
	h.leaked = h.leaked || r.Header.Get("Authorization") != ""
	broken := h.breaks[name] > 0
	h.breaks[name]--
	h.mu.Unlock()
	b, ok := h.files[name]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if h.spoil[name] {
		b = bytes.Repeat([]byte("!"), len(b))
	}
	if broken {
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		_, _ = w.Write(b[:len(b)/2])
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}

// serve starts the hub and its second host.
func (h *hub) serve(t *testing.T) weights.Hub {
	t.Helper()
	cdn := httptest.NewServer(http.HandlerFunc(h.file))
	t.Cleanup(cdn.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/models/"+id+"/revision/"+revision, h.listing)
	mux.HandleFunc("GET /"+id+"/resolve/"+revision+"/{name...}", func(w http.ResponseWriter, r *http.Request) {
		// The same address under another name is another host.
		http.Redirect(w, r, strings.Replace(cdn.URL, "127.0.0.1", "localhost", 1)+"/cdn/"+r.PathValue("name"), http.StatusFound)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return weights.Hub{URL: srv.URL, Token: h.token}
}

func fetch(t *testing.T, h *hub, dir string) (weights.List, error) {
	t.Helper()
	return weights.Fetch(context.Background(), dir, id, revision, weights.Options{Hub: h.serve(t), Pause: time.Millisecond})
}

// A revision is fetched once, whole, without what no server reads, and a broken
// transfer goes on where it ended. The token stays with the hub's own host.
func TestFetch(t *testing.T) {
	h := newHub()
	h.token = "hf_secret"
	h.breaks["model-00002-of-00002.safetensors"] = 2
	dir := t.TempDir()
	l, err := fetch(t, h, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Files) != 5 {
		t.Errorf("%d files, want 5: config, two shards, index, vocabulary", len(l.Files))
	}
	for _, f := range l.Files {
		if b, err := os.ReadFile(filepath.Join(dir, f.Name)); err != nil || !bytes.Equal(b, h.files[f.Name]) {
			t.Errorf("%s is not what the hub has (%v)", f.Name, err)
		}
	}
	for _, name := range []string{"pytorch_model.bin", "original/a.pth", "picture.png"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was fetched; no server reads it", name)
		}
	}
	half := len(h.files["model-00002-of-00002.safetensors"]) / 2
	resumed := false
	for _, a := range h.asked {
		resumed = resumed || a == fmt.Sprintf("model-00002-of-00002.safetensors bytes=%d-", half)
	}
	if !resumed {
		t.Errorf("a broken transfer began anew: %q", h.asked)
	}
	if h.leaked {
		t.Error("the token was sent to another host")
	}
	if _, reason, err := weights.Whole(dir); reason != "" || err != nil {
		t.Errorf("the folder is not whole: %s (%v)", reason, err)
	}

	asked := len(h.asked)
	if _, err := fetch(t, h, dir); err != nil || len(h.asked) != asked {
		t.Errorf("fetched again: %q (%v)", h.asked[asked:], err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"vocab_size": 999}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, reason, _ := weights.Whole(dir); !strings.Contains(reason, "config.json") {
		t.Errorf("a changed file is not seen: %q", reason)
	}
	if _, err := fetch(t, h, dir); err != nil || len(h.asked) != asked+1 {
		t.Errorf("a changed file was not fetched, or more than it: %q (%v)", h.asked[asked:], err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, says string
		spoil      func(*hub)
	}{
		{"login", "accept the model's licence", func(h *hub) { h.token = "x" }},
		{"other revision", "the hub answers for", func(h *hub) { h.sha = strings.Repeat("f", 40) }},
		{"wrong bytes", "the hub says", func(h *hub) { h.spoil["model-00001-of-00002.safetensors"] = true }},
		{"wrong small file", "config.json: its digest", func(h *hub) { h.spoil["config.json"] = true }},
		{"always broken", "model-00001", func(h *hub) {
			h.breaks["model-00001-of-00002.safetensors"] = 99
			h.files["model-00001-of-00002.safetensors"] = nil
		}},
		{"gone", "does not have it", func(h *hub) {
			h.extra = []map[string]any{{"rfilename": "more.json", "size": 3, "blobId": strings.Repeat("a", 40)}}
		}},
		{"escape", "does not stay inside", func(h *hub) {
			h.extra = []map[string]any{{"rfilename": "../../etc/passwd", "size": 3, "blobId": strings.Repeat("a", 40)}}
		}},
		{"absolute", "does not stay inside", func(h *hub) {
			h.extra = []map[string]any{{"rfilename": "/etc/passwd", "size": 3, "blobId": strings.Repeat("a", 40)}}
		}},
		{"no digest", "no digest", func(h *hub) { h.extra = []map[string]any{{"rfilename": "a", "size": 3}} }},
		{"missing shard", "model-00002-of-00002.safetensors: 1 tensors", func(h *hub) {
			delete(h.files, "model-00002-of-00002.safetensors")
		}},
		{"short shard", "its header describes", func(h *hub) {
			b := h.files["model-00002-of-00002.safetensors"]
			h.files["model-00002-of-00002.safetensors"] = b[:len(b)-1]
		}},
		{"empty", "no file", func(h *hub) { h.files = map[string][]byte{"a.png": {1}} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub()
			c.spoil(h)
			served := h.serve(t)
			served.Token = ""
			dir := t.TempDir()
			_, err := weights.Fetch(context.Background(), dir, id, revision, weights.Options{Hub: served, Pause: time.Millisecond})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if _, reason, _ := weights.Whole(dir); reason == "" {
				t.Error("the folder is whole nevertheless")
			}
		})
	}
}

// What would fill the disk is refused before a byte is fetched.
func TestReserve(t *testing.T) {
	h := newHub()
	need := int64(0)
	for _, name := range []string{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer/vocab.txt"} {
		need += int64(len(h.files[name]))
	}
	for _, c := range []struct {
		free int64
		ok   bool
	}{{need + 5000, true}, {need + 4999, false}} {
		_, err := weights.Fetch(context.Background(), t.TempDir(), id, revision, weights.Options{Hub: h.serve(t),
			Free: func(string) (int64, int64, error) { return c.free, 100_000, nil }}) // 5 % is 5,000
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "reserve") {
			t.Errorf("%d bytes free: %v", c.free, err)
		}
		if !c.ok && len(h.asked) > 5 {
			t.Errorf("fetched in spite of it: %q", h.asked)
		}
	}
}

// The hub's cache on this host is linked, and never changed.
func TestCache(t *testing.T) {
	h := newHub()
	top := t.TempDir()
	cache := filepath.Join(top, "hub")
	blobs := filepath.Join(cache, "models--acme--Tiny-1B", "blobs")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		t.Fatal(err)
	}
	shard := h.files["model-00001-of-00002.safetensors"]
	sum := sha256.Sum256(shard)
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(blobs, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(hex.EncodeToString(sum[:]), shard)
	put(gitBlob(h.files["config.json"]), []byte("damaged............")) // as long as it should be
	dir := filepath.Join(top, "store")
	_, err := weights.Fetch(context.Background(), dir, id, revision, weights.Options{Hub: h.serve(t), Cache: cache, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range h.asked {
		if strings.HasPrefix(a, "model-00001") {
			t.Errorf("fetched although the cache has it: %s", a)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || !bytes.Equal(b, h.files["config.json"]) {
		t.Errorf("a damaged file of the cache was taken: %q (%v)", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(blobs, gitBlob(h.files["config.json"]))); err != nil || !strings.HasPrefix(string(b), "damaged") {
		t.Errorf("the cache was changed: %q (%v)", b, err)
	}
}

func TestFolder(t *testing.T) {
	if p, err := weights.Folder("/store/weights", id, revision); err != nil || p != "/store/weights/acme--Tiny-1B/"+revision {
		t.Errorf("%q, %v", p, err)
	}
	for _, bad := range [][2]string{{"../x", revision}, {"a/b/c", revision}, {"a/..", revision}, {"/abs", revision}, {id, "main"}, {id, strings.ToUpper(revision[:39]) + "F"}} {
		if p, err := weights.Folder("/store", bad[0], bad[1]); err == nil {
			t.Errorf("%q is %q", bad, p)
		}
	}
}

// Headers as nobody should write them.
func TestHostileShards(t *testing.T) {
	long := binary.LittleEndian.AppendUint64(nil, 1<<62)
	for name, b := range map[string][]byte{
		"empty":    {},
		"seven":    make([]byte, 7),
		"long":     append(long, "{}"...),
		"no json":  append(binary.LittleEndian.AppendUint64(nil, 2), "{]"...),
		"negative": append(binary.LittleEndian.AppendUint64(nil, 30), `{"a":{"data_offsets":[-5,-1]}}`...),
		"overflow": append(binary.LittleEndian.AppendUint64(nil, 47), `{"a":{"data_offsets":[0,9223372036854775807]}}}`...),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "m.safetensors"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := weights.CheckShards(dir); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

// A run that is stopped says so and leaves a folder that is not whole.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	h := newHub()
	served := h.serve(t)
	cancel()
	dir := t.TempDir()
	if _, err := weights.Fetch(ctx, dir, id, revision, weights.Options{Hub: served}); err == nil {
		t.Error("no error")
	}
	if _, reason, _ := weights.Whole(dir); reason == "" {
		t.Error("whole")
	}
}
