package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
	"github.com/sotabuild/sotabuild/stdlib/ncu/source"
)

// TestMain lets this binary stand in for ncu when it is called so: a recorded
// ncu 2025.3.1, which answers as the real one did on an H200.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ncu" {
		os.Exit(recordedNCU(os.Args[1:], os.Getenv("RECORDED_NCU")))
	}
	os.Exit(m.Run())
}

func recordedNCU(args []string, mode string) int {
	if os.Getenv("LC_ALL") != "C" {
		fmt.Println("==ERROR== asked in another locale than C")
		return 1
	}
	if slices.Equal(args, []string{"--version"}) {
		fmt.Println("NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA Corporation\nVersion 2025.3.1.0 (build 36398880) (public-release)")
		return 0
	}
	switch mode {
	case "refuse":
		fmt.Println("==ERROR== Failed to load report file 'j.ncu-rep'.\n==ERROR== The file is not an Nsight Compute profiler report.")
		return 1
	case "crash":
		fmt.Fprintln(os.Stderr, "terminate called")
		return 134
	case "empty": // no launch passes the report's filter
		fmt.Println()
		return 0
	case "hang":
		select {}
	}
	i := slices.Index(args, "--page")
	if want := []string{"--import", args[1], "--csv", "--page", args[i+1], "--print-units", "base"}; !slices.Equal(args, want) || !filepath.IsAbs(args[1]) {
		fmt.Printf("==ERROR== unrecognised arguments %q\n", args)
		return 1
	}
	f, err := os.Open(filepath.Join(os.Getenv("RECORDED_PAGES"), args[i+1]+".csv.gz"))
	if err != nil {
		fmt.Println("==ERROR==", err)
		return 1
	}
	z, err := gzip.NewReader(f)
	if err == nil {
		_, err = io.Copy(os.Stdout, z)
	}
	if err != nil {
		fmt.Println("==ERROR==", err)
		return 1
	}
	return 0
}

// install puts the recorded ncu on an otherwise empty PATH.
func install(t *testing.T, mode string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "ncu")); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Abs("../testdata/imported")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("RECORDED_NCU", mode)
	t.Setenv("RECORDED_PAGES", pages)
	t.Setenv("LC_ALL", "de_DE.UTF-8") // a user's; the import must not inherit it
}

func report(t *testing.T) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "-k.ncu-rep") // a name that could pass for an option
	if err := os.WriteFile(p, []byte("NVR\x00\x02\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReportThroughRecordedNCU(t *testing.T) {
	install(t, "")
	o, err := source.Open(t.Context(), "", report(t))
	if err != nil {
		t.Fatal(err)
	}
	if o.Tool != "2025.3.1.0" {
		t.Errorf("tool %q, want 2025.3.1.0", o.Tool)
	}
	var endings []string
	for _, f := range o.Files {
		endings = append(endings, f.Ending)
	}
	if !slices.Equal(endings, []string{".ncu-rep", ".raw.csv", ".details.csv"}) {
		t.Errorf("files %v, want the report and both pages", endings)
	}
	m := page.Merge(o.Reports...)
	if len(m.Launches) != 1 || len(m.Launches[0].Findings) == 0 {
		t.Fatalf("%d launches, want 1 with the rules of the details page", len(m.Launches))
	}
	if ns, _ := m.Launches[0].Metrics.Number("gpu__time_duration.sum"); ns != 48992 {
		t.Errorf("copy_v0 took %v ns, want 48992", ns)
	}
}

func TestReportsThatCannotBeImported(t *testing.T) {
	install(t, "refuse")
	var refused *page.Refusal
	o, err := source.Open(t.Context(), "", report(t))
	if !errors.As(err, &refused) || refused.Code != page.ToolError || !strings.Contains(refused.Text, "not an Nsight Compute profiler report") {
		t.Errorf("error %v, want what ncu said", err)
	}
	if len(o.Files) != 1 {
		t.Errorf("%d files kept, want the report itself as evidence", len(o.Files))
	}
	t.Setenv("RECORDED_NCU", "empty")
	if _, err := source.Open(t.Context(), "", report(t)); !errors.As(err, &refused) || refused.Code != page.NoKernel {
		t.Errorf("error %v, want no kernel", err)
	}
	t.Setenv("RECORDED_NCU", "crash")
	if _, err := source.Open(t.Context(), "", report(t)); err == nil || errors.As(err, new(*page.Refusal)) || !strings.Contains(err.Error(), "terminate called") {
		t.Errorf("error %v, want the crash with its last words", err)
	}
	var missing *source.MissingTool
	if _, err := source.Open(t.Context(), "no-such-ncu", report(t)); !errors.As(err, &missing) || missing.Program != "no-such-ncu" {
		t.Errorf("error %v, want a missing tool", err)
	}
}

func TestCancelledImport(t *testing.T) {
	install(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	path := report(t)
	done := make(chan error)
	go func() {
		_, err := source.Open(ctx, "", path)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want cancelled", err)
	}
}

func TestPages(t *testing.T) {
	for path, ending := range map[string]string{
		"../testdata/h200/rmsnorm_raw.csv":     ".raw.csv",
		"../testdata/h200/rmsnorm_details.csv": ".details.csv",
		"../testdata/ladder/raw.csv.gz":        ".raw.csv.gz",
	} {
		o, err := source.Open(t.Context(), "", path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if o.Files[0].Ending != ending || !bytes.Equal(o.Files[0].Data, want) || o.Tool != "" {
			t.Errorf("%s: kept as %s by ncu %q, want %s as given and no version", path, o.Files[0].Ending, o.Tool, ending)
		}
	}
	// What is no page is kept all the same: a blocker points at it.
	if o, err := source.Open(t.Context(), "", "../testdata/ladder/nomatch.txt"); err == nil || len(o.Files) != 1 || o.Files[0].Ending != ".csv" {
		t.Errorf("kept %+v, %v", o.Files, err)
	}
}
