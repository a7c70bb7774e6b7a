package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/campaign/show"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/report/export"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func showCommand(a *app) *cobra.Command {
	var times bool
	cmd := &cobra.Command{
		Use:   "show [NODE]",
		Short: "Show the results so far, or one node's outputs",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.named(); err != nil {
				return err
			}
			s, err := a.view(cmd.Context())
			if err != nil {
				return err
			}
			if times && len(args) > 0 {
				return fail(codeUsage, errors.New("--timeline is of an apply, not of a node; leave one of them out"))
			}
			if times {
				l, err := timelineOf(s, "")
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(l.Document())
				}
				_, err = fmt.Fprint(a.out, l.Text())
				return err
			}
			if len(args) == 1 {
				return a.showNode(s, args[0])
			}
			now := time.Now()
			var v report.View
			err = reread(s.store, a.defects, func() (err error) {
				v, err = show.View(s.Prepared, s.store, version(), now, now)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				b, err := export.JSON(v)
				if err != nil {
					return err
				}
				_, err = a.out.Write(b)
				return err
			}
			fmt.Fprint(a.out, v.Table(width(a.out)))
			a.listFailed(v)
			a.remember(s.ground)
			return nil
		},
		ValidArgsFunction: a.completeNodes,
	}
	cmd.Flags().BoolVar(&times, "timeline", false, "the critical path of the newest apply, and why GPUs idled")
	return cmd
}

// listFailed says why candidates have no number, each reason once: first a
// candidate's scenarios are put together, then the candidates that have the same.
func (a *app) listFailed(v report.View) {
	var in, all sharing
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			if c.Row.Status != result.OK {
				in.add(failing{c.Framework, c.Candidate, fmt.Sprintf("%s, %s: %s", c.Row.Status, c.Row.Class, oneLine(c.Row.Reason))}, s.Name)
			}
		}
	}
	for _, f := range in.order {
		all.add(failing{f.framework, strings.Join(in.names[f], ", "), f.reason}, f.name)
	}
	for _, f := range all.order {
		fmt.Fprintf(a.out, "%s %s in %s: %s\n", f.framework, strings.Join(all.names[f], ", "), f.name, f.reason)
	}
}

// showNode prints the newest outputs of a node.
func (a *app) showNode(s *session, addr string) error {
	f, err := s.find(addr)
	if err != nil {
		return err
	}
	addr = f.addr()
	rec := f.plan.Nodes[f.id].Record
	if rec == nil {
		if h := s.store.History(addr); len(h) > 0 {
			rec = h[len(h)-1]
			fmt.Fprintf(a.err, "warning: %s is stale; this is its result of %s\n", addr, rec.Time.Started.Local().Format(time.DateTime))
		}
	}
	if rec == nil {
		return fail(codeError, fmt.Errorf("%s has no result yet", addr), "`sotabuild apply` makes it")
	}
	return a.printRecord(s.store, rec)
}

func (a *app) printRecord(r cache.Reader, rec *cache.Record) error {
	if a.json {
		b, err := json.MarshalIndent(rec, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s\n", b)
		return nil
	}
	text, err := show.Node(r, rec)
	if err != nil {
		return err
	}
	_, err = a.out.Write(text)
	return err
}
