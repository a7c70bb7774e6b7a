package oci

import (
	"context"
	"fmt"
	"os/exec"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// probe runs our program, which does nothing, in an empty container.
func probe(ctx context.Context, p plan, self string) error {
	p.Spec = &specs.Spec{
		Version: ociVersion, Root: &specs.Root{Path: "rootfs"},
		Process: &specs.Process{Args: []string{self, EnterCommand}, Cwd: "/"},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"}, // crun wants one
			{Destination: self, Type: "bind", Source: self, Options: []string{"bind", "ro"}},
		},
		Linux: &specs.Linux{
			CgroupsPath: groupPath(groupName(p.ID)),
			Namespaces:  []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.NetworkNamespace}},
		},
	}
	if err := p.write(); err != nil {
		return err
	}
	if err := p.run(ctx, func(*exec.Cmd) {}, "run", "--bundle", p.Bundle, string(p.ID)); err != nil {
		return fmt.Errorf("running an empty container: %w", err)
	}
	return nil
}
