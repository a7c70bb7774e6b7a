package main

import (
	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/executors/oci"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
	"github.com/sotabuild/sotabuild/executors/supervisor"
	"github.com/sotabuild/sotabuild/stdlib/bench/observe"
	"github.com/sotabuild/sotabuild/stdlib/probe"
	"github.com/sotabuild/sotabuild/stdlib/profile"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// The hidden commands are what sotabuild starts itself as inside a task.
func runnerCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use: "runner SPEC", Short: "Supervise one task", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return done(code(supervisor.Main(args[0]))) },
	}
}

func slurmJobCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use: "slurm-job FOLDER", Short: "Run one task in a Slurm job", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return done(code(job.Main(args[0]))) },
	}
}

func ociWatchCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use: oci.WatchCommand + " DIR", Short: "Watch the container of one task", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return done(code(oci.Watch(args[0]))) },
	}
}

func ociEnterCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use: oci.EnterCommand, Short: "Execute a program in a container", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return done(code(oci.Enter(args))) },
	}
}

func clientCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use: "client SPEC URL", Short: "Benchmark one cell", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return done(code(observe.Main(args[0], args[1]))) },
	}
}

func profileClientCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use: "profile-client SPEC URL", Short: "Profile one stage", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return done(code(profile.Main(args[0], args[1]))) },
	}
}

func ncuClientCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use: "ncu-client SPEC", Short: "Collect a kernel's counters", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return done(code(profile.NCUMain(args[0]))) },
	}
}

func probeClientCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use: "probe-client SPEC", Short: "Look at the host before it is measured on", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return done(code(probe.Main(args[0]))) },
	}
}

func simserveCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use:                "simserve",
		Short:              "A serving endpoint with an exact schedule and faults, for tests",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return done(code(simserve.Main(args))) },
	}
}
