package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/lang"
)

func fmtCommand(a *app) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "fmt", Short: "Format the campaign's files", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			files, err := filepath.Glob(filepath.Join(a.dir, "*.hcl"))
			if err != nil {
				return err
			}
			changed := false
			for _, f := range files {
				src, err := os.ReadFile(f)
				if err != nil {
					return err
				}
				out, diags := lang.Format(filepath.Base(f), src)
				if err := a.diagnose(diags); err != nil {
					return err
				}
				if bytes.Equal(src, out) {
					continue
				}
				changed = true
				fmt.Fprintln(a.out, relative(f))
				if check {
					continue
				}
				if err := replaceFile(f, out); err != nil {
					return err
				}
			}
			if check && changed {
				return done(codeChanges)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "list files that would change and exit with 2; write nothing")
	return cmd
}

// replaceFile writes a file whole or not at all, with the mode it had.
func replaceFile(path string, b []byte) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // already gone after the rename
	if _, err := tmp.Write(b); err != nil {
		return err
	}
	if err := tmp.Chmod(st.Mode()); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
