package creation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors/proc"
)

func names(t *testing.T, r Registry) (out []string) {
	t.Helper()
	list, err := r.Things()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		out = append(out, x.Kind+" "+x.Keeper+" "+x.Name+" "+x.ID)
	}
	return out
}

// TestIntentThenIdentity: a thing stands there before it is made, without an
// identity; the same name at another keeper is another thing.
func TestIntentThenIdentity(t *testing.T) {
	r := Registry(filepath.Join(t.TempDir(), "deep", "created.json"))
	if got := names(t, r); len(got) != 0 {
		t.Errorf("a registry that is not there holds %q", got)
	}
	here := Thing{Kind: "docker", Name: "a:1", Keeper: "K1", At: time.Now()}
	there := Thing{Kind: "docker", Name: "a:1", Keeper: "K2", At: time.Now()}
	for _, step := range []struct {
		do   func() error
		want []string
	}{
		{func() error { return r.Intend(here) }, []string{"docker K1 a:1 "}},
		{func() error { return r.Made(here, "sha256:1") }, []string{"docker K1 a:1 sha256:1"}},
		{func() error { return r.Intend(there) }, []string{"docker K1 a:1 sha256:1", "docker K2 a:1 "}},
		// It was removed by somebody and is made again: until then nobody knows.
		{func() error { return r.Intend(here) }, []string{"docker K2 a:1 ", "docker K1 a:1 "}},
		{func() error { return r.Forget(there) }, []string{"docker K1 a:1 "}},
		{func() error { return r.Forget(there) }, []string{"docker K1 a:1 "}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := names(t, r); !slices.Equal(got, step.want) {
			t.Errorf("the registry holds %q, want %q", got, step.want)
		}
	}
}

// TestTemporaryFolders: those of processes that are gone go, also of one whose
// pid somebody else has now and of one before a reboot; the living and foreign
// names stay.
func TestTemporaryFolders(t *testing.T) {
	dir := t.TempDir()
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("/bin/true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	parent, err := proc.Read(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	other := "00000000-0000-0000-0000-000000000000"
	gone := []string{
		fmt.Sprintf("%d.1.%s", ended.Process.Pid, boot),
		fmt.Sprintf("%d.%d.%s", parent.Pid, parent.Start+1, boot),
		fmt.Sprintf("%d.%d.%s", parent.Pid, parent.Start, other),
	}
	stay := []string{
		fmt.Sprintf("%d.%d.%s", parent.Pid, parent.Start, boot),
		"1.2.3", "x.1." + boot, fmt.Sprintf("%d.1.%s-copy", ended.Process.Pid, boot), "somebody's",
	}
	for _, name := range slices.Concat(gone, stay) {
		if err := os.MkdirAll(filepath.Join(dir, name, "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := fmt.Sprintf("%d.2.%s", ended.Process.Pid, boot) // no folder
	if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mine, err := Temp(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Temp(dir)
	if err != nil || again != mine {
		t.Errorf("a second folder of one process: %s after %s, %v", again, mine, err)
	}
	if info, err := os.Stat(mine); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("our folder: %v %v", info, err)
	}
	check := func(more ...string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if want := slices.Sorted(slices.Values(slices.Concat(stay, []string{file}, more))); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	check(filepath.Base(mine))
	if err := Drop(dir); err != nil {
		t.Fatal(err)
	}
	check()
	if err := Drop(filepath.Join(dir, "nowhere")); err != nil {
		t.Errorf("dropping what is not there: %v", err)
	}
}

// TestMain is also the other process of the test below: it makes and drops its
// temporary folder as often as its argument says.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != "temp" {
		os.Exit(m.Run())
	}
	times, err := strconv.Atoi(os.Args[2])
	for range times {
		var path string
		if path, err = SystemTemp(); err == nil {
			err = errors.Join(os.WriteFile(filepath.Join(path, "file"), nil, 0o600), DropSystemTemp())
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestSystemTempOfManyProcesses: whoever is the last in the folder removes it,
// and takes it from nobody who comes meanwhile.
func TestSystemTempOfManyProcesses(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if out, err := exec.Command(os.Args[0], "temp", "300").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestSystemTempIsOursAlone: a folder that somebody else prepared is refused, and
// stays as it is.
func TestSystemTempIsOursAlone(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	dir := filepath.Join(root, fmt.Sprintf("sotabuild-%d", os.Getuid()))
	mine, err := SystemTemp()
	if err != nil || filepath.Dir(mine) != dir {
		t.Fatalf("%s, %v", mine, err)
	}
	if err := DropSystemTemp(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("an empty folder is left: %v", err)
	}
	elsewhere := t.TempDir()
	for name, make := range map[string]func() error{
		"Open": func() error { return os.Mkdir(dir, 0o777) },
		"Link": func() error { return os.Symlink(elsewhere, dir) },
		"File": func() error { return os.WriteFile(dir, nil, 0o600) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if name == "Open" { // whatever the umask took away
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := SystemTemp(); err == nil || !strings.Contains(err.Error(), "not a folder of ours alone") {
			t.Errorf("%s: %v", name, err)
		}
		if err := DropSystemTemp(); err != nil {
			t.Errorf("%s: dropping: %v", name, err)
		}
		if err := os.Remove(dir); err != nil {
			t.Errorf("%s: it did not stay: %v", name, err)
		}
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("something was made in another's folder: %v %v", left, err)
	}
}
