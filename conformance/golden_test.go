package conformance

import (
	"os"
	"testing"
)

// golden compares got with the file, or rewrites it with SOTABUILD_UPDATE=1.
func golden(t *testing.T, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err == nil && string(want) == got {
		return
	}
	if os.Getenv("SOTABUILD_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v; SOTABUILD_UPDATE=1 writes it", err)
	}
	t.Errorf("%s is out of date; SOTABUILD_UPDATE=1 go test ./conformance rewrites it\n--- got\n%.2000s", path, got)
}
