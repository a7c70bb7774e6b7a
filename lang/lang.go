// Package lang turns HCL bytes into a typed Campaign with source ranges, or
// into diagnostics that say what to write instead. hcl and cty do not leave
// this room.
//
// It stands alone: it knows no engine, starts nothing, and reads only the
// campaign's own folder, the definitions it is given, and config.json in the
// model's path. Load is a function of bytes and variables; all problems of a
// load come at once, in order of file and position. A Campaign is returned only
// when there is no error.
//
// One table (Schema) drives decoding, the checks of form and the reference;
// what attributes mean together is in the rules files. Nothing is written after
// a load, so campaigns and predicates may be used from any goroutine and loads
// may run side by side. Time and memory are bounded for every input.
package lang

import "io/fs"

// Input is what Load reads. Nothing else of the outside reaches a campaign.
type Input struct {
	// Dir is the campaign's folder, absolute. campaign.hcl, *.campaign.hcl,
	// *.auto.hclvars and *.framework.hcl are read from it, each also in the JSON
	// syntax with .json behind its name.
	Dir string
	// Overlay are files of Dir as they will be, by name: an editor's open files.
	Overlay map[string][]byte
	// Definitions are the built-in framework definitions (*.hcl).
	Definitions fs.FS
	// Vars are --var values and Env the SOTABUILD_VAR_ values, by name, as
	// written.
	Vars, Env map[string]string
}

// Sources lists the files that Load would read in a campaign's folder, by name,
// in the order in which it reads them. campaign.hcl is among them whether it is
// there or not.
func Sources(dir string) ([]string, error) {
	main, others, err := sourceNames(dir, nil)
	return append(main, others...), err
}

// Load reads the campaign in in.Dir. Diagnostics may hold warnings beside a
// campaign; with an error among them the campaign is nil. A Dir that is not
// absolute is misuse and panics.
func Load(in Input) (*Campaign, Diagnostics) { return load(in) }
