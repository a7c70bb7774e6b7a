package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// table is a docker and an oci that answer as told, between local and slurm.
func table(docker, oci error, open map[string]error) []Kind {
	opener := func(name string) func(context.Context, Setup, string) (Image, error) {
		return func(context.Context, Setup, string) (Image, error) { return Image{}, open[name] }
	}
	answers := func(err error) func(context.Context, Setup) (string, error) {
		return func(context.Context, Setup) (string, error) { return "yes", err }
	}
	return []Kind{
		local,
		{Name: "docker", Images: true, Answers: answers(docker), Open: opener("docker")},
		{Name: "oci", Images: true, Answers: answers(oci), Open: opener("oci")},
		slurm,
	}
}

// TestAuto: docker, else an OCI runtime, else local and that aloud; without an
// image local and not a word.
func TestAuto(t *testing.T) {
	away, broken := errors.New("no daemon answers"), errors.New("the image is damaged")
	absent := fmt.Errorf("%w: pull it", ErrAbsent)
	archive := filepath.Join(t.TempDir(), "server.tar")
	if err := os.WriteFile(archive, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		table          []Kind
		image, program string
		want           string
		note, err      []string // words of it
	}{
		"NoImage":         {table(nil, nil, nil), "", "/p", "local", nil, nil},
		"Docker":          {table(nil, nil, nil), "v:1", "/p", "docker", nil, nil},
		"DockerPulls":     {table(nil, nil, map[string]error{"docker": absent}), "v:1", "", "docker", nil, nil},
		"Runtime":         {table(away, nil, nil), "v:1", "/p", "oci", nil, nil},
		"DockerCannot":    {table(nil, nil, map[string]error{"docker": broken}), "v:1", "/p", "oci", nil, nil},
		"Neither":         {table(away, away, nil), "v:1", "/p", "local", []string{"v:1", "docker: no daemon answers", "oci: "}, nil},
		"NeitherNoImage":  {table(away, away, nil), "v:1", "", "", nil, []string{"docker: no daemon answers", "give the framework a program"}},
		"FileIsThere":     {table(nil, nil, nil), "docker-archive:" + archive, "/p", "docker", nil, nil},
		"FileIsNotThere":  {table(nil, nil, nil), "docker-archive:" + archive + "x", "/p", "", nil, []string{archive + "x is not there; write the path"}},
		"LayoutIsNot":     {table(away, away, nil), "oci:" + archive + "x", "/p", "", nil, []string{archive + "x is not there"}},
		"FileIsDamaged":   {table(nil, away, map[string]error{"docker": broken}), "docker-archive:" + archive, "/p", "", nil, []string{"docker: the image is damaged", "make it again"}},
		"DamagedForOne":   {table(nil, nil, map[string]error{"docker": broken}), "docker-archive:" + archive, "/p", "oci", nil, nil},
		"ProgramAndImage": {table(away, away, nil), "docker-archive:" + archive, "/p", "local", []string{"no daemon answers"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, note, err := Auto(t.Context(), tt.table, Setup{}, tt.image, tt.program)
			if got != tt.want || (err == nil) != (tt.err == nil) || (note == "") != (tt.note == nil) {
				t.Fatalf("%q, %q, %v", got, note, err)
			}
			for _, w := range tt.note {
				if !strings.Contains(note, w) {
					t.Errorf("no word of %q in %q", w, note)
				}
			}
			for _, w := range tt.err {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no word of %q in %v", w, err)
				}
			}
		})
	}
}
