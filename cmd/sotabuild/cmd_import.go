package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/cookbook"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
	"github.com/sotabuild/sotabuild/stdlib/report"
)

func importCommand(a *app) *cobra.Command {
	var (
		o      cookbook.Options
		images []string
		stdout bool
	)
	cmd := &cobra.Command{
		Use:   "import COOKBOOK.yaml",
		Short: "Write campaign.hcl from an auto-benchmark cookbook",
		Long: "import turns an auto-benchmark cookbook into a campaign with the same candidates in\n" +
			"the same order. What the cookbook does not say is filled in by flags or defaults, and\n" +
			"the campaign says so beside it. A cookbook that is wrong is refused with its places.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.Images = map[string]string{}
			for _, s := range images {
				name, image, ok := strings.Cut(s, "=")
				if _, known := cookbook.DefaultImages[name]; !ok || image == "" || !known {
					return fail(codeUsage, fmt.Errorf("--image %q: write FRAMEWORK=IMAGE, such as vllm=vllm/vllm-openai:v0.26.0", s))
				}
				o.Images[name] = image
			}
			if o.Vocab < 0 {
				return fail(codeUsage, fmt.Errorf("--vocab %d: write the number of token ids", o.Vocab))
			}
			return a.importCookbook(args[0], o, stdout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "the campaign's name (default the file's)")
	f.StringVar(&o.Target, "target", "", "framework that is to be the fastest (default the first enabled one)")
	f.StringVar(&o.GPU, "gpu", "", "product name of the GPUs, which cookbooks do not say")
	f.IntVar(&o.Vocab, "vocab", 0, "size of the model's vocabulary (default ids that every common tokenizer has)")
	f.StringArrayVar(&images, "image", nil, "container image of a framework, `NAME=IMAGE`; may be repeated")
	f.BoolVar(&stdout, "stdout", false, "print the campaign instead of writing campaign.hcl")
	return cmd
}

func (a *app) importCookbook(from string, o cookbook.Options, stdout bool) error {
	src, err := os.ReadFile(from)
	if err != nil {
		return fail(codeUsage, err)
	}
	text, diags := cookbook.Convert(from, src, o)
	if err := a.diagnose(diags); err != nil {
		return err
	}
	if stdout {
		_, err := a.out.Write(text)
		return err
	}
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "campaign.hcl")
	if _, err := os.Lstat(path); err == nil {
		return fail(codeUsage, fmt.Errorf("%s exists; import never overwrites a campaign", relative(path)), "choose another folder with -C, or print it with --stdout")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, diags = lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS, Overlay: map[string][]byte{"campaign.hcl": text}})
	if err := a.diagnose(diags); err != nil {
		return err
	}
	if err := writeNew(path, text); err != nil {
		return err
	}
	if !a.json {
		fmt.Fprintf(a.out, "Wrote %s. Review it, then `%s`.\n", relative(path), report.Quote(append(a.again(), "plan")))
	}
	return nil
}

// writeNew writes a file that does not exist, whole or not at all.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	return f.Close()
}
