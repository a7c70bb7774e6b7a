package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// places are the kinds of executors beside local, each with the part that a
// machine must have and what says that it has it.
var places = []struct{ kind, part, ask string }{
	{"docker", "docker", "docker version"},
	{"oci", "runc", "runc --version"},
	{"slurm", "slurm", "sinfo --noheader"},
}

// there skips a test where a kind cannot run, or fails it where it must.
func there(t *testing.T, kind string) {
	t.Helper()
	for _, p := range places {
		if p.kind != kind {
			continue
		}
		words := strings.Fields(p.ask)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			missing(t, p.part, p.ask+": "+err.Error()+" "+string(out))
		}
		return
	}
	t.Fatalf("no place is called %q", kind)
}

// quickstartWithImage is the quickstart with the image of its program.
func quickstartWithImage(t *testing.T) *site {
	t.Helper()
	s := example(t, "quickstart")
	leaveNoImages(t, s)
	s.edit("campaign.hcl", "default = null", `default = "docker-archive:../../bin/tinyserve.tar"`)
	tinyserveImage(s)
	return s
}

// tinyserveImage makes what make image makes, and one of the site's own: sites
// that run beside each other share a daemon, and an image in use stays.
func tinyserveImage(s *site) {
	s.t.Helper()
	programs := filepath.Join(s.dir, "../../bin")
	s.write("../../bin/site", s.dir)
	s.must(0, "image", "build", "--out", filepath.Join(programs, "tinyserve.tar"), "--file", "/usr/local/bin/tinyserve="+filepath.Join(programs, "tinyserve"),
		"--file", "/site="+filepath.Join(programs, "site"))
}

// contained is the quickstart, made small, with an image of its program.
func contained(t *testing.T) *site {
	t.Helper()
	s := quickstartWithImage(t)
	small(s)
	return s
}

// small leaves two candidates of each framework and few short requests.
func small(s *site) {
	s.t.Helper()
	text := s.read("campaign.hcl")
	for old, new := range map[string]string{"num_prompts = 16": "num_prompts = 4", "num_prompts = 8": "num_prompts = 2", "output_len  = 64": "output_len  = 8", "output_len  = 32": "output_len  = 8"} {
		if !strings.Contains(text, old) {
			s.t.Fatalf("the example has no %q", old)
		}
		text = strings.ReplaceAll(text, old, new)
	}
	s.write("campaign.hcl", regexp.MustCompile(`= \[(1, )?2, 4\]`).ReplaceAllString(text, "= [2]"))
}

// leaveNoImages has the site's own clean-up remove what it gave to daemons.
func leaveNoImages(t *testing.T, s *site) {
	t.Cleanup(func() {
		if r := s.run("cache", "gc", "--without-campaign"); r.code != 0 || strings.Contains(r.err, " stays: ") {
			t.Errorf("clean-up: exit code %d\n%s\n%s", r.code, r.out, r.err)
		}
	})
}

// TestKeysDoNotKnowTheExecutor: a plan is the same wherever it would run
// (DESIGN 11.5); that what one executor measured is up to date for every other
// is in TestCampaignInContainers.
func TestKeysDoNotKnowTheExecutor(t *testing.T) {
	t.Parallel()
	s := contained(t)
	whole := func(kind string) string { return s.must(0, "plan", "--json", "--executor", kind).out }
	want := whole("local")
	if !strings.Contains(want, `"key": "sha256:`) {
		t.Fatalf("the plan names no key:\n%.500s", want)
	}
	for _, p := range places {
		t.Run(p.kind, func(t *testing.T) {
			there(t, p.kind)
			if got := whole(p.kind); got != want {
				t.Errorf("the plan for %s is another than that for local\n%s", p.kind, got)
			}
		})
	}
}

// TestCampaignInContainers runs the same campaign by each executor: all cells
// are ok with equal keys, counts and answers, and each record says where it ran
// and in which image.
func TestCampaignInContainers(t *testing.T) {
	t.Parallel()
	everywhere(t, contained, []string{"docker", "oci", "slurm"}, func(t *testing.T, kind string, s *site) {
		var rec struct {
			Observed []struct{ Name, Value string }
		}
		if err := json.Unmarshal([]byte(s.must(0, "show", `bench.blocked["baseline"].chat.c4`, "--json").out), &rec); err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, o := range rec.Observed {
			seen[o.Name] = o.Value
		}
		if seen["executor"] != kind || strings.HasPrefix(seen["image_id"], "sha256:") == (kind == "slurm") {
			t.Errorf("the record says %v", seen)
		}
	})
}

// TestEngineKilledBesideAContainer kills the engine while a server lives in a
// container or a job that has no lifeline. The next apply, also by another
// executor, ends or adopts it; every cell has one record (DESIGN 11.4).
func TestEngineKilledBesideAContainer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, first, second string }{
		{"Docker", "docker", "docker"}, {"DockerThenLocal", "docker", "local"}, {"Slurm", "slurm", "slurm"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			there(t, tt.first)
			s := contained(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := s.command(ctx, "apply", "--json", "--executor", tt.first)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			killed := false
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if text := lines.Text(); !killed && strings.Contains(text, `"task_started"`) && strings.Contains(text, `bench.`) {
					killed = true
					if err := cmd.Process.Kill(); err != nil {
						t.Error(err)
					}
				}
			}
			err = cmd.Wait()
			if !killed {
				t.Fatalf("no cell was started before the end: %v", err)
			}
			s.must(0, "apply", "--executor", tt.second)
			nothingLeft(t, s)
			records := map[string]int{}
			for line := range strings.Lines(s.must(0, "cache", "ls", "--json").out) {
				var r struct{ Node, Kind, State string }
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				if r.Kind == "bench" {
					records[r.Node+" "+r.State]++
				}
			}
			if len(records) != 2*2*2 {
				t.Errorf("records of %d cells: %v", len(records), records)
			}
			for cell, n := range records {
				if n != 1 || !strings.HasSuffix(cell, " ok") {
					t.Errorf("%s has %d records", cell, n)
				}
			}
		})
	}
}

// nothingLeft wants no container, job or process of any run of the site's store.
func nothingLeft(t *testing.T, s *site) {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(s.dir, ".sotabuild", "events", "*.jsonl"))
	if err != nil || len(runs) == 0 {
		t.Fatalf("the store has no runs: %v", err)
	}
	for _, path := range runs {
		run := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		if out, err := exec.Command("docker", "ps", "--all", "--quiet", "--filter", "label=dev.sotabuild.run="+run).Output(); err == nil && len(out) > 0 {
			t.Errorf("containers of run %s are left: %s", run, out)
		}
		if out, err := exec.Command("squeue", "--noheader", "--format=%j %T").Output(); err == nil && strings.Contains(string(out), run) {
			t.Errorf("jobs of run %s are left: %s", run, out)
		}
	}
	waitGone(t, s, 5*time.Second)
}

// llamacppWithImage is the example with the image that image.sh made of
// llama-server and of the libraries that it needs.
func llamacppWithImage(t *testing.T) *site {
	t.Helper()
	image, err := filepath.Abs("../examples/llamacpp/prepared/image.tar")
	if err == nil {
		_, err = os.Stat(image)
	}
	if err != nil {
		missing(t, "llamacpp", "`examples/llamacpp/image.sh` makes it: "+err.Error())
	}
	s := llamacpp(t)
	leaveNoImages(t, s)
	if err := os.Symlink(image, filepath.Join(s.dir, "prepared", "image.tar")); err != nil {
		t.Fatal(err)
	}
	tinyserveImage(s)
	return s
}

// TestLlamacppInContainers runs a real llama-server and tinyserve by each
// executor: equal keys, and equal counts and answers in stores of their own.
// SOTABUILD_WHOLE=1 takes the example as it is, without it the example made
// small.
func TestLlamacppInContainers(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) *site {
		s := llamacppWithImage(t)
		if os.Getenv("SOTABUILD_WHOLE") == "" {
			small(s)
		}
		return s
	}, []string{"docker", "slurm"}, func(t *testing.T, kind string, s *site) {
		var frameworks []string
		for _, r := range s.rows() {
			if !slices.Contains(frameworks, r.get("framework")) {
				frameworks = append(frameworks, r.get("framework"))
			}
		}
		if len(frameworks) != 2 {
			t.Errorf("rows of %v", frameworks)
		}
	})
}
