// node-problem-detector with the node conditions of EKS's node monitoring agent.
//
// Its log monitors and its Kubernetes exporter are upstream's. Upstream sets a condition to True when there is a problem.
// EKS's agent sets it to False, never sets it back while it runs, joins the messages of several faults, and reports a
// warning as an event with the condition's name as its reason:
// https://github.com/aws/eks-node-monitoring-agent/blob/51af5494/pkg/manager/node_exporter.go
//
// Each --config file describes one condition, with the reason and the message of a healthy node.
package main

import (
	"context"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/node-problem-detector/cmd/options"
	"k8s.io/node-problem-detector/pkg/exporters/k8sexporter"
	"k8s.io/node-problem-detector/pkg/problemdaemon"
	"k8s.io/node-problem-detector/pkg/problemdetector"
	_ "k8s.io/node-problem-detector/pkg/systemlogmonitor"
	"k8s.io/node-problem-detector/pkg/types"
)

// asOnEks turns what upstream reports into what EKS's agent reports.
type asOnEks struct {
	next     types.Exporter
	reported map[string]types.Condition
}

func (e *asOnEks) ExportProblems(status *types.Status) {
	if len(status.Conditions) != 1 {
		klog.Fatalf("%s: a config file describes one condition, not %d", status.Source, len(status.Conditions))
	}
	found := status.Conditions[0]
	events := []types.Event{}
	for _, event := range status.Events {
		if found.Status == types.True && event.Reason == found.Reason {
			continue // the agent writes no event about a condition that it changes
		}
		event.Message = event.Reason + ": " + event.Message
		event.Reason = found.Type
		events = append(events, event)
	}
	condition := e.translated(found)
	e.reported[condition.Type] = condition
	e.next.ExportProblems(&types.Status{Source: status.Source, Events: events, Conditions: []types.Condition{condition}})
}

func (e *asOnEks) translated(found types.Condition) types.Condition {
	before, known := e.reported[found.Type]
	if found.Status != types.True {
		found.Status = types.True
		return found
	}
	found.Status = types.False
	if known && before.Status == types.False {
		found.Transition = before.Transition
		if strings.Contains(before.Message, found.Message) {
			found.Message = before.Message
		} else {
			found.Message = before.Message + "; " + found.Message
		}
	}
	return found
}

func main() {
	wanted := options.NewNodeProblemDetectorOptions()
	if err := wanted.AddFlags(pflag.CommandLine); err != nil {
		klog.Fatal(err)
	}
	pflag.Parse()
	wanted.SetNodeNameOrDie()
	wanted.ValidOrDie()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	monitors := problemdaemon.NewProblemDaemons(wanted.MonitorConfigPaths)
	exporter := &asOnEks{k8sexporter.NewExporterOrDie(ctx, wanted), map[string]types.Condition{}}
	if err := problemdetector.NewProblemDetector(monitors, []types.Exporter{exporter}).Run(ctx); err != nil {
		klog.Fatal(err)
	}
}
