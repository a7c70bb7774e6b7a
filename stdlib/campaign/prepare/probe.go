package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
)

// Reader reads facts of this host. It starts nothing but nvidia-smi, and that
// only for a campaign with GPUs, and pulls nothing.
type Reader struct {
	Files  *key.Files
	Places Places // nil: programs of this host, run by local
	// Images is the file in which it keeps what images hold; "" keeps nothing.
	Images string
	Self   string // the sotabuild binary
}

// Probe reads the cheap facts of this host: where each framework runs, the
// identity of programs and weights, the environment class, the hardware. What
// is missing comes back as diagnostics with the campaign's own ranges; notes
// are what a person should know of choices.
func (r Reader) Probe(ctx context.Context, c *lang.Campaign) (f campaign.Facts, notes []string, diags lang.Diagnostics) {
	f = campaign.Facts{Software: map[string]campaign.Software{}, Self: r.Self}
	p := probing{files: r.Files, places: r.Places}
	bad := func(at lang.Range, summary, detail string) {
		diags = append(diags, lang.Diagnostic{Severity: lang.Error, Code: strings.ReplaceAll(strings.ToLower(summary), " ", "_"), Summary: summary, Detail: detail, Range: at})
	}
	var err error
	if p.fresh, err = key.OpenFiles(""); err == nil {
		p.found, err = openFindings(r.Images)
	}
	if err != nil {
		bad(lang.Range{}, "Store cannot be read", err.Error())
		return f, nil, diags
	}
	var said []string
	about := map[string][]string{} // labels by note
	for _, fw := range campaign.Compared(c) {
		s, note, err := p.software(ctx, c, fw)
		f.Software[fw.Label] = s
		var choice choiceError
		var mode modeError
		switch {
		case errors.Is(err, fs.ErrNotExist) && s.Place.Image == "":
			bad(fw.Range, "Program not found", fmt.Sprintf("Framework %q has program = %q, and there is no such file. Write the path of its server program, absolute or relative to the campaign's folder.", fw.Label, fw.Program))
		case errors.As(err, &choice):
			bad(fw.Range, "Executor cannot run this", fmt.Sprintf("Framework %q: %v.", fw.Label, err))
		case errors.Is(err, ErrNoImage):
			bad(fw.Range, "Image not found", fmt.Sprintf("Framework %q: %v. Its content is part of every key, and plan pulls nothing.", fw.Label, err))
		case err != nil && s.Place.Image != "":
			bad(fw.Range, "Image cannot be read", fmt.Sprintf("Framework %q: %v.", fw.Label, err))
		case errors.As(err, &mode):
			bad(fw.Range, "Program cannot be executed", fmt.Sprintf("Framework %q: %v.", fw.Label, err))
		case err != nil:
			bad(fw.Range, "Program cannot be read", fmt.Sprintf("Framework %q: %v. Its bytes are part of every key, so it must be readable.", fw.Label, err))
		}
		for _, note := range []string{note, taken(fw, s.Place)} {
			if note != "" && !slices.Contains(said, note) {
				said = append(said, note)
			}
			about[note] = append(about[note], strconv.Quote(fw.Label))
		}
	}
	for _, note := range said {
		notes = append(notes, strings.Join(about[note], ", ")+": "+note)
	}
	if err := p.found.save(); err != nil {
		notes = append(notes, err.Error()) // It only saves time.
	}
	if c.Model.Path != "" {
		d, err := r.Files.Tree(c.Model.Path)
		if err != nil {
			bad(c.Model.Range, "Model cannot be read", fmt.Sprintf("Model %q has path = %q: %v. Write the folder or file of its weights, or leave path out and give revision.", c.Model.ID, c.Model.Path, err))
		}
		f.Weights = d
	}
	if campaign.TokenizerApart(c) {
		d, err := r.Files.Tree(c.Model.Tokenizer)
		if err != nil {
			bad(c.Model.Range, "Tokenizer cannot be read", fmt.Sprintf("Model %q has tokenizer = %q: %v. Write a hub id, or the folder of its files.", c.Model.ID, c.Model.Tokenizer, err))
		}
		f.Tokenizer = d
	}
	for _, w := range c.Load.Workloads() {
		path := w.Path
		if path == "" {
			continue
		}
		d, err := r.Files.Tree(path)
		if err != nil {
			bad(lang.Range{}, "Data set cannot be read", fmt.Sprintf("The workload has path = %q: %v. Its bytes are part of every key, so it must be readable.", path, err))
		}
		if f.Datasets == nil {
			f.Datasets = map[string]key.Digest{}
		}
		f.Datasets[path] = d
	}
	if a := c.Judge.Accuracy; a != nil && a.Path != "" {
		d, err := r.Files.Tree(a.Path)
		if err != nil {
			bad(lang.Range{}, "Data set cannot be read", fmt.Sprintf("The accuracy block has path = %q: %v. Its bytes are part of every key, so it must be readable.", a.Path, err))
		}
		f.Graded = d
	}
	if err := environment(ctx, c, &f); err != nil {
		bad(c.GPUs.Range, "GPUs cannot be read", fmt.Sprintf("%v. %s", err, gpusElsewhere(c, &f, err)))
	}
	return f, notes, lang.Quote(c.Files, diags)
}

// probing is what reading the software of all frameworks shares.
type probing struct {
	files  *key.Files
	fresh  *key.Files // remembers nothing: for files that are removed again
	places Places
	found  *findings
}

// choiceError says why no executor can run a framework.
type choiceError struct{ error }

// modeError says why a program that is there cannot be started.
type modeError struct{ error }

// software settles where a framework runs and identifies what it runs there.
// With an error, the place of the result is what was chosen.
func (p *probing) software(ctx context.Context, c *lang.Campaign, fw lang.Framework) (campaign.Software, string, error) {
	if len(fw.URL) > 0 {
		return campaign.Software{}, "", nil
	}
	e := ExecutorOf(c, fw)
	kind, note := "local", ""
	if p.places != nil {
		var err error
		if kind, note, err = p.places.Choose(ctx, e, fw); err != nil {
			return campaign.Software{}, "", choiceError{err}
		}
	}
	e.Type = kind
	if containers(kind) {
		s, err := p.inside(ctx, e, fw)
		if err != nil {
			s.Place = campaign.Place{Executor: kind, Image: fw.Image}
		}
		return s, note, err
	}
	d, err := programDigest(fw.Program, fw.Tree, p.files)
	return campaign.Software{Digest: d, Place: campaign.Place{Executor: kind, Program: fw.Program, ShmSize: e.ShmSize, IPCHost: e.IPC == "host"}}, note, err
}

// containers reports whether a kind's tasks run in the framework's image.
func containers(kind string) bool { return kind == "docker" || kind == "oci" || kind == "kubernetes" }

// programDigest identifies the program's file tree: the folder that the
// framework declares as its tree, else the program file alone.
func programDigest(program, tree string, files *key.Files) (key.Digest, error) {
	if tree != "" {
		return files.Tree(tree)
	}
	st, err := os.Stat(program)
	if err != nil {
		return key.Digest{}, err
	}
	switch {
	case !st.Mode().IsRegular():
		return key.Digest{}, modeError{fmt.Errorf("%s is no file; write the path of its server program itself", program)}
	case st.Mode()&0o111 == 0:
		return key.Digest{}, modeError{fmt.Errorf("%s is not executable; `chmod +x` it, or write the path of the program that is", program)}
	}
	return files.File(program)
}

// Unchanged reads again what a task ran with. A function that says why a spec's
// program, image or model is not what its key says is what it returns; specs of
// other kinds name no file. image reads the identity of a host's image.
func Unchanged(files *key.Files, image func(campaign.Host) (key.Digest, error)) func(spec any) error {
	software := func(h campaign.Host, want key.Digest) error {
		switch {
		case h.Place.Image != "":
			return same("the image "+h.Place.Image, h.ImageID, func() (key.Digest, error) { return image(h) })
		case want.IsZero():
			return nil
		}
		return same("the program "+h.Program, want, func() (key.Digest, error) { return programDigest(h.Program, h.Tree, files) })
	}
	tree := func(what, path string, want key.Digest) error {
		if want.IsZero() {
			return nil
		}
		return same(what+" "+path, want, func() (key.Digest, error) { return files.Tree(path) })
	}
	return func(spec any) error {
		if x, ok := spec.(interface{ Cell() campaign.BenchSpec }); ok {
			spec = x.Cell() // a cell that is measured again, or profiled
		}
		switch s := spec.(type) {
		case campaign.AskSpec:
			return software(s.Host, s.Software)
		case dataset.Spec:
			if s.Form.Path == "" {
				return nil
			}
			now, err := files.Tree(s.Form.Path)
			if err == nil && now.String() != s.Form.File {
				err = fmt.Errorf("it was %s and is %s", s.Form.File, now)
			}
			if err != nil {
				return fmt.Errorf("the data set %s changed while it was in use: %w", s.Form.Path, err)
			}
			return nil
		case campaign.BenchSpec:
			h := s.Life.Host
			return errors.Join(software(h, s.Software), tree("the model", h.Model, s.Model.Weights), tree("the tokenizer", h.Tokenizer, s.Model.TokFiles))
		}
		return nil
	}
}

func same(what string, want key.Digest, read func() (key.Digest, error)) error {
	now, err := read()
	if err != nil {
		return fmt.Errorf("%s changed while it was in use: %w", what, err)
	}
	if now != want {
		return fmt.Errorf("%s changed while it was in use: it was %s and is %s; the result is kept for neither", what, want.Short(), now.Short())
	}
	return nil
}
