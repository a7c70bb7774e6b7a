package probe

import (
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// xidLine is how NVIDIA's driver writes an error into the kernel's log:
// "NVRM: Xid (PCI:0000:17:00): 79, pid='…', …".
var xidLine = lazyregexp.New(`NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): ([0-9]+)`)

// hardwareXid are the error numbers that NVIDIA's catalogue of Xid errors lays
// to the card, its memory or its links: double-bit and contained ECC errors,
// row remapping, link errors, a card that fell off the bus, a dead GSP. The
// others (13, 31, 43, 45, …) are usually a program's fault and are noted.
var hardwareXid = []string{"48", "62", "63", "64", "74", "79", "92", "94", "95", "119", "120", "140"}

func (j *judge) xid(c Card) {
	gpu := c.uuid()
	if err := j.readings.NoKernel; err != nil {
		j.unknown("xid", gpu, "%v", err)
		return
	}
	bus := busID(c["pci.bus_id"])
	if bus == "" {
		j.unknown("xid", gpu, notReported)
		return
	}
	var hard, soft []string
	for _, m := range xidLine.FindAllStringSubmatch(j.readings.Kernel, -1) {
		if busID(m[1]) != bus {
			continue
		}
		if slices.Contains(hardwareXid, m[2]) {
			hard = append(hard, m[2])
		} else {
			soft = append(soft, m[2])
		}
	}
	if len(soft) > 0 {
		j.note(Field{Name: "xid_of_programs", GPU: gpu, Value: strings.Join(soft, ", ")})
	}
	value := "none"
	if len(hard) > 0 {
		value = strings.Join(hard, ", ")
	}
	j.add(Field{Name: "xid", GPU: gpu, Value: value, Want: "no hardware error in the kernel's log"}, len(hard) == 0)
}

// busID brings the forms of a PCI address to one: the domain has four digits in
// the kernel's log and eight in nvidia-smi's answer, the function may be left out.
func busID(s string) string {
	parts := strings.Split(strings.ToLower(strings.TrimSpace(s)), ":")
	if len(parts) != 3 {
		return ""
	}
	device, _, _ := strings.Cut(parts[2], ".")
	return strings.TrimLeft(parts[0], "0") + ":" + parts[1] + ":" + device
}
