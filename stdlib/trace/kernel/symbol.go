// Package kernel knows what GPU kernels are called and what they do. It is a
// function of text: a name as the profiler wrote it becomes a canonical name
// (the key for sums), a family symbol (the key for patterns and for pairing
// unlike builds) and a class with the rule that decided it.
//
// It knows no trace, no time and no framework version. Rules match whole words
// of a symbol, never substrings: "combined" is no "combine", and a data type
// inside template arguments does not make a cache kernel a quantizer.
package kernel

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Symbol is one kernel name at three levels, and its class.
type Symbol struct {
	Exact     string // as in the file
	Canonical string // demangled, without return type, arguments and addresses
	Family    string // canonical without template arguments, tile sizes and counters
	Class     Class
	Words     string // the words the rules matched on, lower case, one space between
}

// Parse reads a kernel's name. It is deterministic and costs some
// microseconds, so callers keep the result for each distinct name.
func Parse(exact string) Symbol {
	s := Symbol{Exact: exact, Canonical: Canonical(exact)}
	if s.Family = family(s.Canonical); s.Family == "" {
		s.Family = s.Canonical // nothing but brackets
	}
	s.Words = words(s.Family)
	s.Class = classify(s.Canonical, s.Words)
	return s
}

// Canonical is the name to sum by. It is idempotent and never empty.
func Canonical(exact string) string {
	s := strings.Join(strings.Fields(exact), " ")
	if strings.HasPrefix(s, "_Z") || strings.HasPrefix(s, "__Z") {
		s = demangle.Filter(s)
	}
	s = addresses(s)
	if copyName(s) {
		return orExact(s, exact)
	}
	if i := strings.Index(s, " [clone"); i > 0 {
		s = s[:i]
	}
	s = strings.TrimSuffix(s, ".kd") // AMD's kernel descriptors
	s = strings.TrimSuffix(s, " const")
	s = dropArguments(s)
	if i := topSpace(s); i >= 0 && strings.ContainsAny(s[i:], "<:_") {
		s = s[i+1:]
	}
	s = strings.TrimPrefix(s, "void ")
	return orExact(s, exact)
}

func orExact(s, exact string) string {
	if s == "" {
		return exact
	}
	return s
}

func copyName(s string) bool {
	return strings.HasPrefix(s, "Memcpy ") || strings.HasPrefix(s, "Memset ") || strings.HasPrefix(s, "CopyDevice")
}

// addresses replaces standalone hexadecimal addresses. Digits inside a word
// stay: 320x224x64 is a tile.
func addresses(s string) string {
	from := 0
	for {
		i := strings.Index(s[from:], "0x")
		if i < 0 {
			return s
		}
		i += from
		j := i + 2
		for j < len(s) && (s[j]-'0' < 10 || s[j]|0x20-'a' < 6) {
			j++
		}
		from = j
		if (i == 0 || !wordByte(s[i-1])) && j-i-2 >= 6 && (j == len(s) || !wordByte(s[j])) {
			s = s[:i] + "0xADDR" + s[j:]
			from = i + len("0xADDR")
		}
	}
}

func wordByte(c byte) bool {
	return c == '_' || c-'0' < 10 || c|0x20-'a' < 26
}

// dropArguments removes the final parenthesis group of a C++ function.
func dropArguments(s string) string {
	if !strings.HasSuffix(s, ")") {
		return s
	}
	depth := 0
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				head := s[:i]
				if head == "" || strings.HasSuffix(head, " ") || strings.HasSuffix(head, "operator") {
					return s
				}
				return head
			}
		}
	}
	return s
}

// brackets follows nesting through C++ names. A ">" without its "<" is an
// operator, and ")" closes what was left open inside its parenthesis.
type brackets []byte

// step takes one byte and reports whether it is itself a bracket.
func (b *brackets) step(c byte) bool {
	s := *b
	switch c {
	case '<', '(', '{', '[':
		*b = append(s, c)
	case '>':
		if len(s) == 0 || s[len(s)-1] != '<' {
			return false
		}
		*b = s[:len(s)-1]
	case ')', '}', ']':
		open := map[byte]byte{')': '(', '}': '{', ']': '['}[c]
		for i := len(s) - 1; i >= 0; i-- {
			if s[i] == open {
				*b = s[:i]
				break
			}
		}
	default:
		return false
	}
	return true
}

// topSpace is the last space outside all brackets, or -1: what stands before
// it is a return type.
func topSpace(s string) int {
	var b brackets
	last := -1
	for i := 0; i < len(s); i++ {
		if !b.step(s[i]) && s[i] == ' ' && len(b) == 0 {
			last = i
		}
	}
	if len(b) != 0 {
		return -1
	}
	return last
}

// wrappers are entry points whose template argument is the real kernel.
var wrappers = []string{
	"cutlass::device_kernel", "cutlass::Kernel", "cutlass::Kernel2", "cutlass_cudnn_train::Kernel",
	"cutlass_cudnn_infer::Kernel", "ck_tile::kentry", "enable_sm90", "enable_sm80", "enable_sm100",
	"enable_3x_kernel", "flash::enable_", "device_kernel",
}

// prefixes name generated symbols whose spelling is all parameters.
var prefixes = []struct{ prefix, family string }{
	{"Cijk_", "tensile_gemm"},
	{"nvjet_", "nvjet"},
	{"igemm_fwd_", "igemm_fwd"},
	{"igemm_bwd_", "igemm_bwd"},
	{"igemm_wrw_", "igemm_wrw"},
}

// family is the canonical name without what changes between builds and shapes.
func family(canonical string) string {
	if copyName(canonical) {
		return canonical
	}
	for _, p := range prefixes {
		if strings.HasPrefix(canonical, p.prefix) {
			return p.family
		}
	}
	s := strings.ReplaceAll(canonical, "(anonymous namespace)::", "")
	for range 4 {
		base, args := splitTemplate(s)
		if !isWrapper(base) || len(args) == 0 {
			break
		}
		inner := ""
		for _, a := range args {
			if a != "" && a[0]-'0' > 9 && a != "true" && a != "false" {
				inner = a
				break
			}
		}
		if inner == "" {
			break
		}
		s = inner
	}
	base, args := splitTemplate(s)
	if f := functor(base, args); f != "" {
		base += ":" + f
	}
	return tidy(base)
}

func isWrapper(base string) bool {
	for _, w := range wrappers {
		if base == w || strings.HasSuffix(base, "::"+w) || (strings.HasPrefix(w, "enable_") && strings.Contains(base, w)) ||
			(strings.HasSuffix(w, "_") && strings.HasPrefix(base, w)) {
			return true
		}
	}
	return false
}

// splitTemplate returns the name without any template arguments, and the
// arguments of its last template.
func splitTemplate(s string) (base string, args []string) {
	var out strings.Builder
	var b brackets
	from := 0
	for i := 0; i < len(s); i++ {
		before := len(b)
		bracket := b.step(s[i])
		switch {
		case bracket && before == 0 && s[i] == '<':
			args, from = nil, i+1
		case bracket && len(b) == 0 && s[i] == '>':
			args = append(args, strings.TrimSpace(s[from:i]))
		case !bracket && s[i] == ',' && before == 1 && b[0] == '<':
			args = append(args, strings.TrimSpace(s[from:i]))
			from = i + 1
		case before == 0 && len(b) == 0 || !template(b):
			out.WriteByte(s[i])
		}
	}
	return strings.TrimSpace(out.String()), args
}

func template(b brackets) bool { return len(b) > 0 && b[0] == '<' }

// functor names what an at::native wrapper kernel computes: elementwise_kernel
// alone says nothing, its functor argument says add, mul or copy.
func functor(base string, args []string) string {
	if !strings.Contains(base, "elementwise") && !strings.Contains(base, "reduce_kernel") {
		return ""
	}
	all := strings.Join(args, ",")
	best, at := "", len(all)
	for _, mark := range []string{"Functor", "_kernel_cuda", "_kernel_impl", "Ops<", "_kernel(", "NormOps", "_cuda_out("} {
		for from := 0; ; {
			i := strings.Index(all[from:], mark)
			if i < 0 {
				break
			}
			i += from
			from = i + len(mark)
			word := identBefore(all, i)
			if mark == "Functor" && word == "CUDA" || word == "CUDAFunctorOnSelf" {
				word = strings.TrimPrefix(strings.TrimPrefix(identAfter(all, from), "OnSelf"), "_")
			}
			switch word {
			case "", "gpu", "elementwise", "Binary", "AUnary", "BUnary", "Reduce", "gpu_kernel_impl_nocast", "gpu_index":
				continue
			}
			if i < at {
				best, at = word, i
			}
			break
		}
	}
	return best
}

func identBefore(s string, end int) string {
	i := end
	for i > 0 && wordByte(s[i-1]) {
		i--
	}
	return s[i:end]
}

func identAfter(s string, from int) string {
	i := from
	for i < len(s) && wordByte(s[i]) {
		i++
	}
	return s[from:i]
}

// tidy drops tile sizes (128x64), trailing counters of generated kernels (_12)
// and lambda numbers.
func tidy(s string) string {
	parts := strings.Split(s, "_")
	out := parts[:0]
	for i, p := range parts {
		if tile(p) || (i > 0 && i == len(parts)-1 && digits(p)) {
			continue
		}
		out = append(out, p)
	}
	if r := strings.Join(out, "_"); r != "" {
		return r
	}
	return s
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return s != ""
}

func tile(s string) bool {
	seen := false
	for part := range strings.SplitSeq(s, "x") {
		if !digits(part) {
			return false
		}
		if seen {
			return true
		}
		seen = true
	}
	return false
}

// words splits a symbol at underscores, colons, changes of case and digits.
func words(s string) string {
	var out []string
	start := 0
	flush := func(end int) {
		if end > start {
			out = append(out, strings.ToLower(s[start:end]))
		}
		start = end
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !wordByte(c) || c == '_' {
			flush(i)
			start = i + 1
			continue
		}
		if i == start {
			continue
		}
		prev := s[i-1]
		switch {
		case kind(prev) != kind(c) && (kind(c) == digit || kind(prev) == digit):
			flush(i)
		case kind(prev) == lower && kind(c) == upper:
			flush(i)
		case kind(prev) == upper && kind(c) == lower && i-1 > start:
			flush(i - 1)
		}
	}
	flush(len(s))
	return strings.Join(out, " ")
}

type charKind uint8

const (
	lower charKind = iota
	upper
	digit
)

func kind(c byte) charKind {
	switch {
	case c-'0' < 10:
		return digit
	case c-'A' < 26:
		return upper
	}
	return lower
}
