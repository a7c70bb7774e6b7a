package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/lang"
)

// fmtOptions are the two ways of looking without writing.
type fmtOptions struct{ check, diff bool }

func fmtCommand(a *app) *cobra.Command {
	var o fmtOptions
	cmd := &cobra.Command{
		Use:   "fmt",
		Short: "Format the campaign's files",
		Long: "fmt sets the canonical layout of every *.hcl and *.hclvars file of the folder. Comments\n" +
			"stay, and nothing changes its meaning. With syntax errors in any file nothing is written.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.format(o) },
	}
	cmd.Flags().BoolVar(&o.check, "check", false, "list files that would change and exit with 2; write nothing")
	cmd.Flags().BoolVar(&o.diff, "diff", false, "show what would change; write nothing")
	return cmd
}

// formatted is one file before and after.
type formatted struct {
	path     string
	old, new []byte
}

func (a *app) format(o fmtOptions) error {
	files, err := a.formatAll()
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f formatted) bool { return bytes.Equal(f.old, f.new) })
	for _, f := range files {
		if o.diff {
			fmt.Fprint(a.out, lineDiff(relative(f.path), string(f.old), string(f.new)))
			continue
		}
		fmt.Fprintln(a.out, relative(f.path))
		if o.check {
			continue
		}
		if err := replaceFile(f.path, f.new); err != nil {
			return err
		}
	}
	if o.check && len(files) > 0 {
		return done(codeChanges)
	}
	return nil
}

// formatAll formats every file before any is written.
func (a *app) formatAll() ([]formatted, error) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return nil, err
	}
	var list []formatted
	var diags lang.Diagnostics
	for _, e := range entries {
		n := e.Name()
		if strings.HasPrefix(n, ".") || !strings.HasSuffix(n, ".hcl") && !strings.HasSuffix(n, ".auto.hclvars") {
			continue
		}
		f := formatted{path: filepath.Join(a.dir, n)}
		if f.old, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		var more lang.Diagnostics
		f.new, more = lang.Format(n, f.old)
		diags = append(diags, more...)
		list = append(list, f)
	}
	return list, a.diagnose(diags)
}

// lineDiff is a unified diff of two texts with the same number of lines, which
// is all that the formatter makes: it changes lines and neither adds nor
// removes any. So a line's partner is the line of the same number.
func lineDiff(name, old, new string) string {
	const context = 3
	a, b := strings.SplitAfter(old, "\n"), strings.SplitAfter(new, "\n")
	if len(a) != len(b) {
		panic(fmt.Sprintf("fmt: %d lines became %d", len(a), len(b)))
	}
	var out strings.Builder
	for i := 0; i < len(a); {
		if a[i] == b[i] {
			i++
			continue
		}
		last := i // the last changed line of the hunk
		for j := i; j < len(a) && j <= last+2*context; j++ {
			if a[j] != b[j] {
				last = j
			}
		}
		from, to := max(i-context, 0), min(last+context+1, len(a))
		if a[to-1] == "" { // what is behind the last line end is no line
			to--
		}
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
		}
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1, to-from)
		for k := from; k < to; {
			end := k
			for end < to && (a[end] != b[end]) {
				end++
			}
			if end == k {
				out.WriteString(" " + ended(a[k]))
				k++
				continue
			}
			for _, l := range a[k:end] {
				out.WriteString("-" + ended(l))
			}
			for _, l := range b[k:end] {
				out.WriteString("+" + ended(l))
			}
			k = end
		}
		i = last + 1
	}
	return out.String()
}

// ended is a line with its end, or with the words of diff that it has none.
func ended(l string) string {
	if strings.HasSuffix(l, "\n") {
		return l
	}
	return l + "\n\\ No newline at end of file\n"
}

// replaceFile writes a file whole or not at all, with the mode it had. A
// symbolic link stays one: the file that it names is replaced.
func replaceFile(path string, b []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
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
