package executor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
)

// seen is what the actor's report says.
type seen struct {
	Args, Env []string
	Cwd       string
	Stdin     int
	NoFile    uint64
	Shm       int64
	Uid       int
}

func (b *bench) report(change func(*job), args ...string) (job, seen) {
	b.t.Helper()
	j := b.job(append([]string{"report", "report.json"}, args...)...)
	if change != nil {
		change(&j)
	}
	e := b.fresh()
	h := b.start(e, j)
	if o := b.wait(e, h); o.Reason != executors.Exited || o.Code != 0 {
		b.t.Fatalf("outcome %+v; it said %s", o, b.all(e, h))
	}
	var s seen
	b.must(json.Unmarshal([]byte(b.read(j, "report.json")), &s))
	return j, s
}

func environment(b *bench) {
	declared := []string{"A=1", "EMPTY=", "ODD= a\"b$c'd\\e\nü ", "PATH=/only/here", "SLURM_OF_OURS=no", "HOME=/nowhere"}
	_, s := b.report(func(j *job) { j.Process.Env = declared })
	got := slices.DeleteFunc(s.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(b.Adds, name) && !slices.Contains(declared, v)
	})
	slices.Sort(got)
	slices.Sort(declared)
	if !slices.Equal(got, declared) {
		b.t.Errorf("the environment is\n%q, want\n%q", got, declared)
	}
	_, s = b.report(nil)
	for _, v := range s.Env {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains(b.Adds, name) {
			b.t.Errorf("nothing was declared, and %q is there", v)
		}
	}
}

func arguments(b *bench) {
	args := []string{"", " ", "a b", `"`, "'", `\`, "$HOME", "$(id)", "`id`", "*", "-x", "--", "new\nline", "tab\t", "ü€", "%s%n", "#", "!", "{a,b}", "~"}
	if _, s := b.report(nil, args...); !slices.Equal(s.Args, args) {
		b.t.Errorf("the arguments are\n%q, want\n%q", s.Args, args)
	}
}

func workingFolder(b *bench) {
	j, s := b.report(nil)
	if s.Cwd != j.Dir {
		b.t.Errorf("it works in %s, want %s", s.Cwd, j.Dir)
	}
	if s.Stdin != 0 {
		b.t.Errorf("its stdin has %d bytes", s.Stdin)
	}
}

func ownFiles(b *bench) {
	j, _ := b.report(nil)
	info, err := os.Stat(filepath.Join(j.Dir, "report.json"))
	b.must(err)
	if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Getuid() {
		b.t.Errorf("its file belongs to user %d, want %d", uid, os.Getuid())
	}
}

// mounted is a task with two mounts.
func (b *bench) mounted() (job, string) {
	b.t.Helper()
	in, out := filepath.Join(b.t.TempDir(), "in"), filepath.Join(b.t.TempDir(), "out")
	for _, dir := range []string{in, out} {
		b.must(os.Mkdir(dir, 0o755))
	}
	b.must(os.WriteFile(filepath.Join(in, "in"), []byte("a word"), 0o644))
	j := b.job("mounts", in, out)
	j.Mounts = append(j.Mounts,
		specs.Mount{Source: in, Destination: in, Options: []string{"ro"}},
		specs.Mount{Source: out, Destination: out})
	return j, out
}

func mounts(b *bench) {
	j, out := b.mounted()
	if o := b.do(j); o.Reason != executors.Exited || o.Code != 0 && o.Code != 3 {
		b.t.Errorf("outcome %+v", o)
	}
	if text, err := os.ReadFile(filepath.Join(out, "out")); err != nil || string(text) != "a word went through" {
		b.t.Errorf("it wrote %q, %v", text, err)
	}
}

func mountReadOnly(b *bench) {
	j, _ := b.mounted()
	b.want(b.do(j), executors.Exited, 0, "")
}

func outputs(b *bench) {
	j := b.job("tree")
	b.want(b.do(j), executors.Exited, 0, "")
	var got []string
	err := filepath.WalkDir(filepath.Join(j.Dir, "out"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(filepath.Join(j.Dir, "out"), path)
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %s", name, info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line = fmt.Sprintf("%q -> %q", name, to)
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", text)
		}
		got = append(got, line)
		return nil
	})
	b.must(err)
	long := strings.Repeat("n", 200)
	want := []string{
		`" space " -rw-r--r-- " space "`, `"-dash" -rw-r--r-- "-dash"`, `"back\\slash\"quote'" -rw-r--r-- "back\\slash\"quote'"`,
		`"dangling" -> "no such"`, `"deep" drwxr-xr-x`, `"deep/er" drwxr-xr-x`, `"deep/er/file" -rw-r----- "deep/er/file"`,
		`"empty" drwxr-xr-x`, `"folder link" -> "deep/er"`, `"hard" -rw-r--r-- "plain"`, `"link" -> "plain"`,
		`"new\nline" -rw-r--r-- "new\nline"`, `"` + long + `" -rw-r--r-- "` + long + `"`, `"not\xffutf8" -rw-r--r-- "not\xffutf8"`,
		`"nothing" -rw-r--r-- ""`, `"plain" -rw-r--r-- "plain"`, `"private" -rw------- "private"`, `"program" -rwxr-xr-x "program"`,
		`"read-only" -r--r--r-- "read-only"`, `"ünïcödé" -rw-r--r-- "ünïcödé"`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("the folder holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	plain, err := os.Stat(filepath.Join(j.Dir, "out", "plain"))
	b.must(err)
	hard, err := os.Stat(filepath.Join(j.Dir, "out", "hard"))
	b.must(err)
	if !os.SameFile(plain, hard) {
		b.t.Log("a hard link became a copy") // content counts
	}
}

func ulimits(b *bench) {
	_, s := b.report(func(j *job) { j.Resources.Ulimits = map[string]uint64{"nofile": 777} })
	if s.NoFile != 777 {
		b.t.Errorf("it may open %d files, want 777", s.NoFile)
	}
}

func shmSize(b *bench) {
	_, s := b.report(func(j *job) { j.Resources.ShmSize = 96 << 20 })
	if s.Shm != 96<<20 {
		b.t.Errorf("/dev/shm has %d bytes, want 96 MiB", s.Shm)
	}
}
