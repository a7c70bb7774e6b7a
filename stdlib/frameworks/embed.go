// Package frameworks holds the built-in framework definitions: one HCL file a
// serving system, whose name is the definition's name. A new framework is a new
// file here and needs no Go.
//
// The package holds files and nothing else; package lang reads and checks
// them. A definition says what a system's own help and documentation say, for
// the versions named in its first comment; what a given program really accepts
// is checked against its own help text before it is started (R058).
package frameworks

import "embed"

// FS holds NAME.hcl for each built-in definition.
//
//go:embed *.hcl
var FS embed.FS
