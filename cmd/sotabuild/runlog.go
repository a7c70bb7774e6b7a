package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/engine/event"
)

// runLog keeps every event of a run, one JSON line each.
type runLog struct {
	f   *os.File
	err error
}

func openRunLog(store, id string) (*runLog, error) {
	dir := filepath.Join(store, "events")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of run logs: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, id+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the run log: %w", err)
	}
	return &runLog{f: f}, nil
}

func (l *runLog) write(e event.Event) {
	b, err := json.Marshal(e)
	if err == nil {
		_, err = l.f.Write(append(b, '\n'))
	}
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("writing the run log: %w", err)
	}
}

func (l *runLog) close() error {
	if err := l.f.Close(); l.err == nil {
		l.err = err
	}
	return l.err
}
