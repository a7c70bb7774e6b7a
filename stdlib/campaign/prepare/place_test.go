package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
)

// fileImages is a docker that has no daemon: it reads image files, counts what
// it unpacks, and knows no image by name.
type fileImages struct {
	t        *testing.T
	unpacked int
}

func (f *fileImages) Choose(_ context.Context, e lang.Executor, fw lang.Framework) (string, string, error) {
	switch {
	case e.Type != "auto":
		return e.Type, "", nil
	case fw.Image != "":
		return "docker", "", nil
	case fw.Program != "":
		return "local", "it is run here", nil
	}
	return "", "", errors.New("nothing can run it")
}

func (f *fileImages) Image(ctx context.Context, _ lang.Executor, ref string) (Image, error) {
	if lang.ImagePath(ref) == "" {
		return nil, fmt.Errorf("%w: pull %s", ErrNoImage, ref)
	}
	img, err := image.Open(ctx, ref, image.Platform{})
	if err != nil {
		return nil, err
	}
	return fileImage{img, f}, nil
}

type fileImage struct {
	*image.Image
	of *fileImages
}

func (f fileImage) ID() key.Digest {
	d, err := key.ParseDigest(f.Identity())
	if err != nil {
		f.of.t.Fatal(err)
	}
	return d
}

func (f fileImage) Ref() string   { return f.Image.Ref }
func (f fileImage) Env() []string { return f.Config.Env }

func (f fileImage) Root(ctx context.Context) (string, error) {
	f.of.unpacked++
	return f.Extract(ctx, filepath.Join(f.of.t.TempDir(), "roots"))
}

// imaged is the sample campaign with an image beside the program of "fast".
func imaged(t *testing.T, files map[string]image.File, env ...string) *lang.Campaign {
	t.Helper()
	c := sample.Load(t, strings.Replace(sample.Text, `  program = "server"`, "  program = \"server\"\n  image   = \"docker-archive:server.tar\"", 1))
	img, err := image.Build(files, image.Config{Env: env}, image.Platform{})
	if err != nil {
		t.Fatal(err)
	}
	if err := img.WriteArchive(filepath.Join(c.Dir, "server.tar"), "server:1"); err != nil {
		t.Fatal(err)
	}
	return c
}

func reader(t *testing.T, p Places) Reader {
	t.Helper()
	files, err := key.OpenFiles("")
	if err != nil {
		t.Fatal(err)
	}
	return Reader{Files: files, Places: p, Images: filepath.Join(t.TempDir(), "images.json")}
}

// manifests are the texts of all nodes whose inputs are no outputs, and the
// addresses of all.
func manifests(t *testing.T, c *lang.Campaign, f campaign.Facts) map[string]string {
	t.Helper()
	p, diags := From(c, f, empty(t), time.Unix(0, 0))
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	out := map[string]string{}
	for i := range p.Graph.Actions {
		a := &p.Graph.Actions[i]
		m, _ := p.Graph.Manifest(a.ID, func(graph.NodeID, string) (key.Digest, bool) { return key.Sum([]byte("input")), true })
		out[a.Addr] = m.Text()
	}
	return out
}

// TestProgramInAnImageIsTheProgram: the same bytes have the same keys on the
// host and in an image, wherever they lie there, whatever else is in it; other
// bytes have others.
func TestProgramInAnImageIsTheProgram(t *testing.T) {
	same := image.File{Data: []byte("#!/bin/true\n"), Mode: 0o755}
	for name, tt := range map[string]struct {
		files map[string]image.File
		env   []string
		path  string
		equal bool
	}{
		"OnPath":       {map[string]image.File{"/usr/bin/tinyserve": same, "/etc/passwd": {Data: []byte("x")}}, nil, "/usr/bin/tinyserve", true},
		"OnItsOwnPath": {map[string]image.File{"/opt/bin/tinyserve": same}, []string{"PATH=/opt/bin"}, "/opt/bin/tinyserve", true},
		"ByALink":      {map[string]image.File{"/usr/bin/tinyserve": {Link: "../../opt/server"}, "/opt/server": same}, nil, "/usr/bin/tinyserve", true},
		"OtherBytes":   {map[string]image.File{"/usr/bin/tinyserve": {Data: []byte("#!/bin/false\n"), Mode: 0o755}}, nil, "/usr/bin/tinyserve", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := imaged(t, tt.files, tt.env...)
			host, _, diags := reader(t, nil).Probe(t.Context(), c)
			if diags.HasErrors() {
				t.Fatal(diags.Text(false))
			}
			inside, _, diags := reader(t, &fileImages{t: t}).Probe(t.Context(), c)
			if diags.HasErrors() {
				t.Fatal(diags.Text(false))
			}
			sw := inside.Software["fast"]
			if sw.Place.Executor != "docker" || sw.Place.Program != tt.path || sw.Image.IsZero() || sw.Place.Env != nil {
				t.Errorf("software %+v", sw)
			}
			if got := host.Software["fast"].Digest == sw.Digest; got != tt.equal {
				t.Errorf("equal digests: %t", got)
			}
			diff := cmp.Diff(manifests(t, c, host), manifests(t, c, inside))
			if (diff == "") != tt.equal {
				t.Errorf("the same program has other keys in an image (-host +image):\n%s", diff)
			}
		})
	}
}

// TestTreeInAnImageIsTheTree: the folder around the program identifies it, and
// what lies beside that folder does not.
func TestTreeInAnImageIsTheTree(t *testing.T) {
	files := map[string]image.File{
		"/opt/llama/server": {Data: []byte("#!/bin/true\n"), Mode: 0o755}, "/opt/llama/lib.so": {Data: []byte("lib")},
		"/usr/bin/tinyserve": {Link: "/opt/llama/server"}, "/lib/libc.so": {Data: []byte("libc")},
	}
	c := imaged(t, files)
	tree := filepath.Join(c.Dir, "tree")
	for name, text := range map[string]string{"server": "#!/bin/true\n", "lib.so": "lib"} {
		if err := os.MkdirAll(tree, 0o755); err != nil {
			t.Fatal(err)
		}
		mode := map[string]os.FileMode{"server": 0o755, "lib.so": 0o644}[name]
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	c.Frameworks[0].Program, c.Frameworks[0].Tree = filepath.Join(tree, "server"), tree
	host, _, diags := reader(t, nil).Probe(t.Context(), c)
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	places := &fileImages{t: t}
	r := reader(t, places)
	for range 2 {
		inside, _, diags := r.Probe(t.Context(), c)
		if diags.HasErrors() {
			t.Fatal(diags.Text(false))
		}
		if host.Software["fast"].Digest != inside.Software["fast"].Digest {
			t.Errorf("the tree is %s on the host and %s in the image", host.Software["fast"].Digest, inside.Software["fast"].Digest)
		}
	}
	if places.unpacked != 1 {
		t.Errorf("the image was unpacked %d times; what was found in it is kept", places.unpacked)
	}
	c.Frameworks[0].Tree = filepath.Dir(filepath.Dir(tree))
	if _, _, diags := r.Probe(t.Context(), c); !diags.HasErrors() || !strings.Contains(diags.Text(false), "folder of its own") {
		t.Errorf("a tree that the image cannot have: %s", diags.Text(false))
	}
}

// TestImageAloneIsItsIdentity: config and layers identify what runs, and its
// environment is the server's.
func TestImageAloneIsItsIdentity(t *testing.T) {
	files := map[string]image.File{"/usr/bin/tinyserve": {Data: []byte("#!/bin/true\n"), Mode: 0o755}}
	facts := map[string]campaign.Facts{}
	for _, env := range []string{"A=1", "A=2"} {
		c := imaged(t, files, env)
		c.Frameworks[0].Program = ""
		f, notes, diags := reader(t, &fileImages{t: t}).Probe(t.Context(), c)
		if diags.HasErrors() {
			t.Fatal(diags.Text(false))
		}
		if want := []string{`"slow": it is run here`}; !cmp.Equal(want, notes) {
			t.Errorf("notes %v, want %v", notes, want)
		}
		sw := f.Software["fast"]
		if !sw.Digest.IsZero() || sw.Image.IsZero() || sw.Place.Program != "tinyserve" || !cmp.Equal(sw.Place.Env, []string{env}) {
			t.Errorf("software %+v", sw)
		}
		facts[env] = f
		bench := manifests(t, c, f)[`bench.fast["baseline"].short.c2`]
		if !strings.Contains(bench, sw.Image.String()) || strings.Contains(bench, "server.tar") {
			t.Errorf("the key of a cell holds the image's identity and no path:\n%s", bench)
		}
	}
	if facts["A=1"].Software["fast"].Image == facts["A=2"].Software["fast"].Image {
		t.Error("images with different environments are one")
	}
}

// TestImagesThatCannotBeRead: each with what to do.
func TestImagesThatCannotBeRead(t *testing.T) {
	c := imaged(t, map[string]image.File{"/usr/bin/other": {Data: []byte("x"), Mode: 0o755}})
	for _, tt := range []struct {
		image, program, executor, says string
	}{
		{"docker-archive:" + filepath.Join(c.Dir, "server.tar"), c.Frameworks[0].Program, "docker", `nor a program "tinyserve" on its PATH`},
		{"docker-archive:" + filepath.Join(c.Dir, "none.tar"), "", "docker", "there is no such file"},
		{"vllm:1", "", "docker", "pull vllm:1"},
		{"", "", "auto", "nothing can run it"},
	} {
		c.Frameworks[0].Image, c.Frameworks[0].Program = tt.image, tt.program
		c.Frameworks[0].Executor = &lang.Executor{Type: tt.executor}
		_, _, diags := reader(t, &fileImages{t: t}).Probe(t.Context(), c)
		if text := strings.Join(strings.Fields(diags.Text(false)), " "); !diags.HasErrors() || !strings.Contains(text, tt.says) {
			t.Errorf("%+v: %s", tt, text)
		}
	}
}

// TestGPUsOfACluster: a host that submits jobs often has no GPU, and then the
// error says where to run instead; with local it says what it always says.
func TestGPUsOfACluster(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for kind, want := range map[string]string{
		"slurm": `Framework "fast" runs in Slurm's jobs`,
		"local": "or run this on the host that has them",
	} {
		c := sample.Load(t, sample.Text+"gpus {\n  model = \"NVIDIA H200\"\n  ids   = [0]\n}\nexecutor \""+kind+"\" {}\n")
		_, _, diags := reader(t, &fileImages{t: t}).Probe(t.Context(), c)
		if got := strings.Join(strings.Fields(diags.Text(false)), " "); !strings.Contains(got, "GPUs cannot be read") || !strings.Contains(got, want) || strings.Contains(got, " .") || strings.Contains(got, "Slurm") != (kind == "slurm") {
			t.Errorf("%s:\n%s", kind, got)
		}
	}
}
