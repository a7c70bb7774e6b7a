package probe

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed load.py
var loadScript string

// queries are asked of nvidia-smi. A driver that does not know one of a query's
// fields refuses the whole query; then each is asked alone.
var queries = []struct {
	flag   string
	fields []string
}{
	{"--query-gpu=", []string{
		"index", "uuid", "pci.bus_id", "name",
		"ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.aggregate.total", "ecc.errors.corrected.volatile.total",
		"pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max",
		"power.limit", "power.default_limit", "clocks.max.sm", "clocks.max.memory", "clocks.applications.graphics",
		"clocks_event_reasons.active", "temperature.gpu", "memory.used", "persistence_mode", "compute_mode",
	}},
	{"--query-remapped-rows=", []string{"gpu_uuid", "remapped_rows.pending", "remapped_rows.failure"}},
}

// Ask says what Read may use.
type Ask struct {
	IDs    []string // indices or UUIDs of the cards; none asks for all
	Python string   // an interpreter that may have torch; "" measures nothing under load
	Env    []string // of the interpreter, complete
	Dir    string   // for the script, private to the caller
}

const (
	maxLog    = 64 << 20         // bytes of the kernel's log
	smiLimit  = 20 * time.Second // nvidia-smi hangs on a sick card
	loadLimit = 3 * time.Minute
)

// Read reads the cards, the kernel's log, the governor, and the rates under
// load. An error means that the cards cannot even be listed.
func Read(ctx context.Context, a Ask) (Readings, error) {
	var r Readings
	all, err := cards(ctx)
	if err != nil {
		return r, err
	}
	if len(a.IDs) == 0 {
		r.Cards = all
	}
	for _, id := range a.IDs {
		i := slices.IndexFunc(all, func(c Card) bool { return c["index"] == id || c.uuid() == id })
		if i < 0 {
			return r, fmt.Errorf("there is no GPU %q here; nvidia-smi lists %d", id, len(all))
		}
		r.Cards = append(r.Cards, all[i])
	}
	r.Kernel, r.NoKernel = kernelLog("/dev/kmsg")
	r.Governor, r.NoGov = governors("/sys/devices/system/cpu")
	r.Load, r.NoLoad = load(ctx, a, r.Cards)
	return r, nil
}

func cards(ctx context.Context) ([]Card, error) {
	rows, err := query(ctx, queries[0].flag, queries[0].fields)
	if err != nil {
		return nil, err
	}
	extra, err := query(ctx, queries[1].flag, queries[1].fields)
	if err != nil {
		return rows, nil // Older drivers have no such query: the field is unknown.
	}
	for _, e := range extra {
		if i := slices.IndexFunc(rows, func(c Card) bool { return c.uuid() == e["gpu_uuid"] }); i >= 0 {
			for k, v := range e {
				rows[i][k] = v
			}
		}
	}
	return rows, nil
}

// query asks for all fields at once, and one by one where the driver does not
// know them all.
func query(ctx context.Context, flag string, fields []string) ([]Card, error) {
	rows, err := smi(ctx, flag, fields)
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) || exit.ExitCode() != 2 {
		return rows, err
	}
	const id = 2 // index and uuid, or gpu_uuid and one more: always known
	first, err := smi(ctx, flag, fields[:id])
	if err != nil {
		return nil, err
	}
	for _, f := range fields[id:] {
		one, err := smi(ctx, flag, []string{f})
		if err != nil || len(one) != len(first) {
			continue // not reported by this driver
		}
		for i := range first {
			if v, ok := one[i][f]; ok {
				first[i][f] = v
			}
		}
	}
	return first, nil
}

func smi(ctx context.Context, flag string, fields []string) ([]Card, error) {
	ctx, cancel := context.WithTimeout(ctx, smiLimit)
	defer cancel()
	out, err := output(exec.CommandContext(ctx, "nvidia-smi", "--format=csv,noheader,nounits", flag+strings.Join(fields, ",")))
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	}
	return parseCards(out, fields)
}

// parseCards reads nvidia-smi's CSV. "[N/A]" and "[Not Supported]" are missing.
func parseCards(out []byte, fields []string) ([]Card, error) {
	in := csv.NewReader(bytes.NewReader(out))
	in.TrimLeadingSpace = true
	in.FieldsPerRecord = len(fields)
	rows, err := in.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the answer of nvidia-smi: %w", err)
	}
	cards := make([]Card, len(rows))
	for i, row := range rows {
		cards[i] = Card{}
		for k, v := range row {
			if v = strings.TrimSpace(v); v != "" && !strings.HasPrefix(v, "[") && v != "N/A" {
				cards[i][fields[k]] = v
			}
		}
	}
	return cards, nil
}

// output runs a command; its error holds what it wrote to stderr.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if text := lastLine(stderr.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return nil, err
	}
	return out, nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	line := lines[len(lines)-1]
	return line[:min(len(line), 300)]
}

// kernelLog reads what the kernel has kept of its log, without waiting for more.
func kernelLog(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("the kernel's log cannot be read: %w", err)
	}
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return "", fmt.Errorf("the kernel's log cannot be read: %w", err)
	}
	var text bytes.Buffer
	buf := make([]byte, 16<<10)
	var failed error
	err = conn.Control(func(fd uintptr) {
		for text.Len() < maxLog {
			n, err := syscall.Read(int(fd), buf)
			switch {
			case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR):
				continue // a line was overwritten while we read; the next is there
			case errors.Is(err, syscall.EAGAIN), err == nil && n <= 0:
				return
			case err != nil:
				failed = err
				return
			}
			text.Write(buf[:n])
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return "", fmt.Errorf("the kernel's log cannot be read: %w", err)
	}
	return text.String(), nil
}

func governors(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "cpu[0-9]*", "cpufreq", "scaling_governor"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("this kernel shows no CPU frequency governor")
	}
	out := make([]string, len(files))
	for i, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		out[i] = strings.TrimSpace(string(b))
	}
	return out, nil
}

// load runs the torch program on the cards.
func load(ctx context.Context, a Ask, cards []Card) (*Load, error) {
	if a.Python == "" {
		return nil, errors.New("no Python with torch was named to measure with")
	}
	script := filepath.Join(a.Dir, "load.py")
	if err := os.WriteFile(script, []byte(loadScript), 0o600); err != nil {
		return nil, fmt.Errorf("writing the load program: %w", err)
	}
	uuids := make([]string, len(cards))
	for i, c := range cards {
		uuids[i] = c.uuid()
	}
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.Python, script)
	cmd.Env = append(slices.Clone(a.Env), "CUDA_VISIBLE_DEVICES="+strings.Join(uuids, ","), "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	cmd.Dir = a.Dir
	// The ranks of the all-reduce are its children: they end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := output(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s cannot measure: %w", a.Python, err)
	}
	return parseLoad(out)
}

func parseLoad(out []byte) (*Load, error) {
	// Libraries print to stdout too; the object is the last line.
	out = bytes.TrimSpace(out)
	d := json.NewDecoder(bytes.NewReader(out[bytes.LastIndexByte(out, '\n')+1:]))
	d.DisallowUnknownFields()
	var l Load
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("reading what torch measured: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("reading what torch measured: more than one object")
	}
	return &l, nil
}
