package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNewestEventsOfASecond: two applies that began in one second have names in
// no order; their events tell which was the later one.
func TestNewestEventsOfASecond(t *testing.T) {
	dir := t.TempDir()
	for name, line := range map[string]string{
		"20261201t044807-ffffffff": `{"time":"2026-12-01T04:48:07.9Z","run":"earlier"}`,
		"20261201t044808-aaaaaaaa": `{"time":"2026-12-01T04:48:08.7Z","run":"last"}`,
		"20261201t044808-bbbbbbbb": `{"time":"2026-12-01T04:48:08.2Z","run":"first"}`,
		"20261201t044808-cccccccc": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".jsonl"), []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	events, err := newestEvents(dir, "any")
	if err != nil || len(events) != 1 || events[0].Run != "last" {
		t.Errorf("%+v, %v; want the events of the last one", events, err)
	}
}

// TestNewestEventsOfACampaign: a store of two campaigns has the applies of both;
// one that is not there by its name, as it was renamed, gets the newest.
func TestNewestEventsOfACampaign(t *testing.T) {
	dir := t.TempDir()
	for name, line := range map[string]string{
		"20261201t044806-aaaaaaaa": `{"time":"2026-12-01T04:48:06Z","text":"one","run":"one, earlier"}`,
		"20261201t044807-aaaaaaaa": `{"time":"2026-12-01T04:48:07Z","text":"one","run":"one"}`,
		"20261201t044808-aaaaaaaa": `{"time":"2026-12-01T04:48:08Z","text":"two","run":"two"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".jsonl"), []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for campaign, want := range map[string]string{"one": "one", "two": "two", "renamed": "two"} {
		if events, err := newestEvents(dir, campaign); err != nil || len(events) != 1 || events[0].Run != want {
			t.Errorf("%s: %+v, %v; want the events of %s", campaign, events, err, want)
		}
	}
}
