package main

import (
	"path/filepath"
	"testing"
)

func TestTheLogThatSaysMost(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"server.0.log": {"server.0.log": "x", "runner.log": "much longer"},
		"runner.log":   {"runner.out": "x", "runner.log": "longer"},
		"stderr.txt":   {"step.json": `{"a": "record, and no log"}`, "requests.jsonl": "{}\n{}\n", "stderr.txt": "no flag -x", "stdout.txt": ""},
		"":             {"step.json": `{"a": "record, and no log"}`},
	} {
		dir := folder(t, files)
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := tellingLog(dir); got != want {
			t.Errorf("%v: %q, want %q", files, got, want)
		}
	}
}
