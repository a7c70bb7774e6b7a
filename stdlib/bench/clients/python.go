package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed reader.py
var reader string

// python is an interpreter that sees the packages of the Python readers.
type python struct {
	path     string
	env      []string
	versions map[string]string // of the interpreter and of what was asked for
}

const ask = `import importlib.metadata, importlib.util, json, platform, sys
def version(name):
    if importlib.util.find_spec(name):
        return importlib.metadata.version(name)
print(json.dumps({"python": platform.python_version()} | {n: version(n) for n in sys.argv[1:] if version(n)}))`

// findPython asks an interpreter for these packages. Those in the folder
// X.Y of packages, which is the interpreter's version, come first; an empty
// packages is none.
func findPython(interpreter, packages string, want []string) (p python, err error) {
	path, err := exec.LookPath(interpreter)
	if err != nil {
		return p, fmt.Errorf("%w; name one with -interpreter, or measure without: -only sotabuild,epoll", err)
	}
	p = python{path: path, env: os.Environ()}
	if packages != "" {
		out, err := exec.Command(path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
		if err != nil {
			return p, fmt.Errorf("asking %s for its version: %w", path, err)
		}
		dir, err := filepath.Abs(filepath.Join(packages, strings.TrimSpace(string(out))))
		if err != nil {
			return p, err
		}
		if _, err := os.Stat(dir); err != nil {
			return p, fmt.Errorf("no packages for %s: %w", path, err)
		}
		p.env = append(p.env, "PYTHONPATH="+dir)
	}
	p.env = append(p.env, "PYTHONDONTWRITEBYTECODE=1")
	cmd := exec.Command(path, append([]string{"-c", ask}, want...)...)
	cmd.Env, cmd.Stderr = p.env, os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &p.versions)
	}
	if err != nil {
		return p, fmt.Errorf("asking %s for its packages: %w", path, err)
	}
	for _, name := range want {
		if p.versions[name] == "" {
			return p, fmt.Errorf("%s has no %s; install Debian's python3-%s, name a folder of packages with -python, or measure without: -only sotabuild,epoll", path, name, name)
		}
	}
	return p, nil
}
