package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func imageCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "Make an image from files, or get the campaign's images here", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return fail(codeUsage, errors.New("image needs a command: build or pull"))
		},
	}
	cmd.AddCommand(imageBuildCommand(a), imagePullCommand(a))
	return cmd
}

// imageOptions are the flags of image build.
type imageOptions struct {
	out, tag         string
	files, trees, ln []string
	env              []string
}

func imageBuildCommand(a *app) *cobra.Command {
	var o imageOptions
	cmd := &cobra.Command{
		Use: "build", Short: "Make an image of one layer from files of this host", Args: cobra.NoArgs,
		Long: "build writes a docker-archive that holds the files given, and nothing else: no base, no\n" +
			"network, no daemon. The same files give the same bytes, wherever and whenever. A\n" +
			"framework takes it as image = \"docker-archive:FILE\"; docker load takes it too.",
		RunE: func(*cobra.Command, []string) error {
			files, err := o.entries()
			if err != nil {
				return fail(codeUsage, err)
			}
			img, err := image.Build(files, image.Config{Env: o.env}, image.Platform{})
			if err != nil {
				return fail(codeUsage, err)
			}
			if err := img.WriteArchive(o.out, o.tag); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(struct {
					Image string `json:"image"`
					ID    string `json:"id"`
					Files int    `json:"files"`
				}{"docker-archive:" + o.out, img.Identity(), len(files)})
			}
			fmt.Fprintf(a.out, "%s  %s  %s\n", img.Identity(), o.out, result.Count(len(files), "file"))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "the file to write")
	f.StringVar(&o.tag, "tag", "", "its name for docker load, NAME:TAG (default: the file's name, :latest)")
	f.StringArrayVar(&o.files, "file", nil, "`PATH=SOURCE`: a file of this host at this path of the image; may be repeated")
	f.StringArrayVar(&o.trees, "tree", nil, "`PATH=FOLDER`: everything below a folder of this host; may be repeated")
	f.StringArrayVar(&o.ln, "link", nil, "`PATH=TEXT`: a symbolic link; may be repeated")
	f.StringArrayVar(&o.env, "env", nil, "`NAME=VALUE` of the image's environment; may be repeated")
	return cmd
}

// entries are the files of the image by their paths in it.
func (o *imageOptions) entries() (map[string]image.File, error) {
	if o.out == "" {
		return nil, errors.New("image build writes a file; give --out FILE.tar")
	}
	if o.tag == "" {
		o.tag = strings.ToLower(strings.TrimSuffix(filepath.Base(o.out), filepath.Ext(o.out))) + ":latest"
	}
	out := map[string]image.File{}
	add := func(at string, f image.File) error {
		if _, twice := out[at]; twice {
			return fmt.Errorf("%s stands twice in the image", at)
		}
		out[at] = f
		return nil
	}
	for _, list := range []struct {
		flag  string
		given []string
		take  func(at, value string) error
	}{
		{"file", o.files, func(at, source string) error { return add(at, image.File{Source: source}) }},
		{"link", o.ln, func(at, text string) error { return add(at, image.File{Link: text}) }},
		{"tree", o.trees, func(at, folder string) error { return walkInto(at, folder, add) }},
	} {
		for _, g := range list.given {
			at, value, ok := strings.Cut(g, "=")
			if !ok || value == "" || !path.IsAbs(at) {
				return nil, fmt.Errorf("--%s %q: write an absolute path of the image, =, and what it is", list.flag, g)
			}
			if err := list.take(path.Clean(at), value); err != nil {
				return nil, err
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("an image of nothing; give --file, --tree or --link")
	}
	return out, nil
}

// walkInto adds everything below a folder as it is: links as links, the owner's
// executable bit, empty folders.
func walkInto(at, folder string, add func(string, image.File) error) error {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		to := path.Join(at, filepath.ToSlash(rel))
		switch {
		case d.IsDir():
			return add(to, image.File{})
		case d.Type()&fs.ModeSymlink != 0:
			text, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return add(to, image.File{Link: text})
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no file, folder or link", p)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		return add(to, image.File{Source: p, Mode: mode})
	})
}

func imagePullCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "pull", Short: "Get every image of the campaign to where its executor reads it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			return interruptibly(cmd.Context(), func(ctx context.Context) error {
				n, err := a.pull(ctx, c)
				if err == nil && n == 0 {
					fmt.Fprintln(a.out, "Every image is here.")
				}
				return err
			})
		},
	}
}
