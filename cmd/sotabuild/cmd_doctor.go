package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/executors/creation"
	"github.com/sotabuild/sotabuild/executors/kind"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/doctor"
	"github.com/sotabuild/sotabuild/stdlib/probe"
)

func doctorCommand(a *app) *cobra.Command {
	var gpu bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look at this host, its executors and the campaign's images; say what helps", Args: cobra.NoArgs,
		Long: "doctor starts no task and changes nothing; where there is an OCI runtime it runs one\n" +
			"empty container. It exits with 1 when something that the campaign of this folder asks\n" +
			"for cannot work, with 7 when the campaign itself is wrong, and with 0 otherwise; a\n" +
			"folder without a campaign asks for nothing.\n" +
			"With --gpu it also loads the cards for some seconds, as apply does before the first\n" +
			"server: what is out of range fails, unless the campaign accepts it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.optional()
			if err != nil {
				return err
			}
			d, err := a.examination(c)
			if err != nil {
				return err
			}
			checks := d.checks()
			if gpu {
				checks = append(checks, doctor.Check{Name: "gpu", Doc: "whether the cards are fit to be measured on", Run: d.cards})
			}
			var rows []doctor.Row
			err = interruptibly(cmd.Context(), func(ctx context.Context) error {
				rows = doctor.Run(ctx, checks)
				return ctx.Err()
			})
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(struct {
					OK   bool         `json:"ok"`
					Rows []doctor.Row `json:"rows"`
				}{!doctor.Fails(rows), rows})
			} else {
				fmt.Fprint(a.out, doctor.Text(rows))
			}
			if err == nil && doctor.Fails(rows) {
				err = done(codeError)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&gpu, "gpu", false, "load the GPUs too: rates, errors and limits against their ranges")
	return cmd
}

// cards looks at the campaign's GPUs, or at all where there is no campaign, as
// the probe node does.
func (x examination) cards(ctx context.Context) []doctor.Row {
	dir, err := creation.SystemTemp()
	if err != nil {
		return []doctor.Row{{State: doctor.Bad, Text: err.Error()}}
	}
	ask, accept, program := probe.Ask{Env: os.Environ(), Dir: dir}, []string(nil), ""
	if c := x.campaign; c != nil && c.GPUs != nil {
		ask.IDs, accept = c.GPUs.IDs, c.GPUs.Accept
		if all := campaign.Compared(c); len(all) > 0 {
			program = all[0].Program
		}
	}
	ask.Python = probe.Python(probe.Pythons(program))
	readings, err := probe.Read(ctx, ask)
	if err != nil {
		return []doctor.Row{{State: doctor.Bad, Text: err.Error(), Help: "install NVIDIA's driver, or leave --gpu out"}}
	}
	var rows []doctor.Row
	for _, f := range probe.Judge(readings, accept).Fields {
		r := doctor.Row{Name: f.Name, State: doctor.OK, Text: f.String()}
		switch f.Verdict {
		case probe.OutOfRange:
			r.State, r.Help = doctor.Bad, fmt.Sprintf("put it right, or write accept = [%q] into the gpus block to measure nevertheless", f.Name)
		case probe.Unknown:
			r.State = doctor.Unknown
		}
		rows = append(rows, r)
	}
	return rows
}

// optional loads the campaign of the folder; nil where there is none.
func (a *app) optional() (*lang.Campaign, error) {
	for _, name := range []string{"campaign.hcl", "campaign.hcl.json"} {
		_, err := os.Stat(filepath.Join(a.dir, name))
		if err == nil {
			return a.load()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, nil
}

// examination is what doctor looks at.
type examination struct {
	places   *places
	campaign *lang.Campaign // nil: none
}

func (a *app) examination(c *lang.Campaign) (examination, error) {
	dir, err := filepath.Abs(a.storeDir())
	if err != nil {
		return examination{}, err
	}
	self, err := os.Executable()
	return examination{newPlaces(self, dir), c}, err
}

// checks is the table: this command's rows first, then the host's.
func (x examination) checks() []doctor.Check {
	need := doctor.Need{Store: x.places.store}
	if x.campaign != nil {
		if x.campaign.GPUs != nil {
			need.GPUs = x.campaign.GPUs.IDs
		}
		for _, e := range x.blocks() {
			need.ShmSize = max(need.ShmSize, e.ShmSize)
		}
	}
	return append([]doctor.Check{
		{Name: "executor", Doc: "which kinds of executors answer", Run: x.executors},
		{Name: "daemon", Doc: "room where a daemon keeps its images", Run: x.daemons},
		{Name: "framework", Doc: "where each framework runs, and what it runs there", Run: x.frameworks},
		{Name: "input", Doc: "the campaign's model and data sets on this host", Run: x.inputs},
	}, doctor.Host(need)...)
}

// blocks are the executor blocks that hold, one a framework.
func (x examination) blocks() []lang.Executor {
	var out []lang.Executor
	if x.campaign != nil {
		for _, fw := range campaign.Compared(x.campaign) {
			out = append(out, prepare.ExecutorOf(x.campaign, fw))
		}
	}
	return out
}

// executors asks each kind, with the settings of the campaign's own block. One
// that the campaign names must answer.
func (x examination) executors(ctx context.Context) []doctor.Row {
	var rows []doctor.Row
	for _, k := range kind.Kinds {
		e, asked := lang.Executor{Type: k.Name}, false
		for _, b := range x.blocks() {
			if b.Type == k.Name {
				e, asked = b, true
			}
		}
		rows = append(rows, executorRow(ctx, k, x.places.setup(e), asked))
	}
	return rows
}

func executorRow(ctx context.Context, k kind.Kind, s kind.Setup, asked bool) doctor.Row {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	text, err := k.Answers(ctx, s)
	if err == nil && k.Probe != nil {
		err = k.Probe(ctx, s)
	}
	r := doctor.Row{Name: k.Name, State: doctor.OK, Text: text}
	switch {
	case err == nil:
	case asked:
		r.State, r.Text, r.Help = doctor.Bad, err.Error(), k.Help
	default:
		r.State, r.Text, r.Help = doctor.Absent, err.Error(), k.Help
	}
	return r
}

// daemons look at the folders that images fill on this host.
func (x examination) daemons(ctx context.Context) []doctor.Row {
	var rows []doctor.Row
	for _, k := range kind.Kinds {
		if k.Disk == nil {
			continue
		}
		e := lang.Executor{Type: k.Name}
		for _, b := range x.blocks() {
			if b.Type == k.Name {
				e = b
			}
		}
		dir, err := k.Disk(ctx, x.places.setup(e))
		if err == nil && dir != "" {
			rows = append(rows, doctor.Disk(k.Name+" "+dir, dir))
		}
	}
	return rows
}

// frameworks says where each runs and whether its image is here.
func (x examination) frameworks(ctx context.Context) []doctor.Row {
	if x.campaign == nil {
		return []doctor.Row{{State: doctor.Absent, Text: "there is no campaign in this folder", Help: "sotabuild init, or sotabuild -C FOLDER doctor"}}
	}
	var rows []doctor.Row
	for _, fw := range campaign.Compared(x.campaign) {
		rows = append(rows, x.framework(ctx, fw))
	}
	return rows
}

// inputs looks for what the campaign names beside programs and images.
func (x examination) inputs(context.Context) []doctor.Row {
	if x.campaign == nil {
		return nil
	}
	var rows []doctor.Row
	for _, in := range prepare.Inputs(x.campaign) {
		r := doctor.Row{Name: in.Attr, State: doctor.OK, Text: in.Path}
		if _, err := os.Stat(in.Path); err != nil {
			r.State, r.Text, r.Help = doctor.Bad, err.Error(), "put it there, or write the path of what is meant as "+in.Attr
		}
		rows = append(rows, r)
	}
	return rows
}

func (x examination) framework(ctx context.Context, fw lang.Framework) doctor.Row {
	if len(fw.URL) > 0 {
		return doctor.Row{Name: fw.Label, State: doctor.OK, Text: "runs already, at " + fw.URL[0]}
	}
	e := prepare.ExecutorOf(x.campaign, fw)
	name, note, err := x.places.Choose(ctx, e, fw)
	if err != nil {
		return doctor.Row{Name: fw.Label, State: doctor.Bad, Text: err.Error(), Help: "look at image, program and executor of its block; `sotabuild schema` has every attribute"}
	}
	e.Type = name
	i := slices.IndexFunc(kind.Kinds, func(k kind.Kind) bool { return k.Name == name })
	if !kind.Kinds[i].Images {
		holder, unseen := "", error(nil)
		if name == "local" && fw.Port != 0 {
			holder, unseen = prepare.PortHolder(fw.Port)
		}
		r := doctor.Row{Name: fw.Label, State: doctor.OK, Text: name + ": " + fw.Program}
		info, err := os.Stat(fw.Program)
		switch {
		case err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			r.State, r.Help = doctor.Bad, "write program = \"…\" with the path of its server, and have it executable (chmod +x)"
			r.Text += " is missing or cannot be executed"
		case unseen != nil:
			r.State, r.Text, r.Help = doctor.Unknown, fmt.Sprintf("whether its fixed port %d is free: %v", fw.Port, unseen), "write port = 0 (or leave port out) for a free one"
		case holder != "":
			r.State, r.Text, r.Help = doctor.Bad, fmt.Sprintf("its fixed port %d is held by %s", fw.Port, holder), "end that process, or write port = 0 (or leave port out) for a free one"
		case note != "":
			r.State, r.Text, r.Help = doctor.Warning, note, "start a Docker daemon or install runc, or write executor \"local\" {} into its block to have it so"
		}
		return r
	}
	img, err := x.places.Image(ctx, e, fw.Image)
	switch {
	case errors.Is(err, prepare.ErrNoImage):
		return doctor.Row{Name: fw.Label, State: doctor.Warning, Text: name + ": " + err.Error(), Help: "sotabuild image pull"}
	case err != nil:
		return doctor.Row{Name: fw.Label, State: doctor.Bad, Text: name + ": " + err.Error(), Help: "look at image in its block"}
	}
	return doctor.Row{Name: fw.Label, State: doctor.OK, Text: fmt.Sprintf("%s: %s, %s", name, fw.Image, img.ID())}
}
