package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// TestRowsAndWhatFails: a check's name is on its rows, they come in the order
// of the table, and only what is bad fails.
func TestRowsAndWhatFails(t *testing.T) {
	row := func(s State) func(context.Context) []Row {
		return func(context.Context) []Row { return []Row{{Name: "x", State: s, Text: "text", Help: "do this"}} }
	}
	checks := []Check{{"b", "", row(Warning)}, {"a", "", row(Absent)}, {"c", "", row(Unknown)}, {"d", "", func(context.Context) []Row { return []Row{{State: OK, Text: "fine"}} }}}
	rows := Run(t.Context(), checks)
	if Fails(rows) {
		t.Error("warnings, absences and unknowns fail")
	}
	want := "warning  b x: text\n         do this\nabsent   a x: text\n         do this\nunknown  c x: text\n         do this\nok       d: fine\n4 checked, 1 warning, 1 unknown, 1 absent.\n"
	if diff := cmp.Diff(want, Text(rows)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !Fails(Run(t.Context(), append(checks, Check{"e", "", row(Bad)}))) {
		t.Error("something bad does not fail")
	}
}

// TestDisk compares with what df says of the folder, or of the one that will
// hold it.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("df", "--output=avail", "--block-size=1", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	free, err := strconv.ParseInt(strings.Fields(string(out))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "not/yet")} {
		r := Disk(path, path)
		if free > 2*lowDisk && r.State != OK || free < noDisk/2 && r.State != Bad || !strings.Contains(r.Text, "free") {
			t.Errorf("%s: %+v, df says %d free", path, r, free)
		}
	}
}

func TestClockSource(t *testing.T) {
	for name, want := range map[string]State{"tsc": OK, "kvm-clock": OK, "hpet": Warning, "acpi_pm": Warning} {
		sys := t.TempDir()
		write(t, filepath.Join(sys, "devices/system/clocksource/clocksource0/current_clocksource"), name+"\n", 0o644)
		if r := source(sys); r.State != want || !strings.HasPrefix(r.Text, name) || (r.Help == "") != (want == OK) {
			t.Errorf("%s: %+v, want %s", name, r, want)
		}
	}
	if r := source(t.TempDir()); r.State != Unknown {
		t.Errorf("no file: %+v", r)
	}
}

func TestControlGroups(t *testing.T) {
	two, hybrid := t.TempDir(), t.TempDir()
	write(t, filepath.Join(two, "cgroup.procs"), "", 0o644)
	write(t, filepath.Join(hybrid, "unified", "cgroup.procs"), "", 0o644)
	for root, want := range map[string]State{two: OK, hybrid: OK, t.TempDir(): Warning, filepath.Join(t.TempDir(), "none"): Warning} {
		if r := cgroups(root); r.State != want {
			t.Errorf("%s: %+v, want %s", root, r, want)
		}
	}
}

// TestGPUs asks a driver that answers as told. Without cards only a campaign
// that has some is in trouble.
func TestGPUs(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	write(t, filepath.Join(bin, "nvidia-smi"), "#!/bin/sh\necho '0, GPU-aa, NVIDIA H200, 143771 MiB, 580.1'\necho '1, GPU-bb, NVIDIA H200, 143771 MiB, 580.1'\n", 0o755)
	states := func(rows []Row) (out []string) {
		for _, r := range rows {
			out = append(out, r.Name+" "+string(r.State))
		}
		return out
	}
	if diff := cmp.Diff([]string{"0 ok", "1 ok", "7 bad"}, states(gpus(t.Context(), []string{"1", "GPU-aa", "7"}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	write(t, filepath.Join(bin, "nvidia-smi"), "#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n", 0o755)
	if rows := gpus(t.Context(), nil); len(rows) != 1 || rows[0].State != Absent || !strings.Contains(rows[0].Text, "NVIDIA-SMI has failed") {
		t.Errorf("%+v", rows)
	}
	if rows := gpus(t.Context(), []string{"0"}); len(rows) != 1 || rows[0].State != Bad {
		t.Errorf("%+v", rows)
	}
}

// TestHostNeedsNothing: every check of a host says something with a name and,
// where it is not fine, what helps.
func TestHostNeedsNothing(t *testing.T) {
	rows := Run(t.Context(), Host(Need{Store: t.TempDir(), ShmSize: 1 << 60}))
	if len(rows) < 7 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r.Check == "" || r.Text == "" || (r.State != OK) != (r.Help != "") {
			t.Errorf("%+v", r)
		}
		if r.Name == "/dev/shm" && r.State == OK {
			t.Error("an exabyte of shared memory is there")
		}
	}
}
