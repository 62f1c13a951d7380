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
	"fmt"
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
//
// Upstream's log monitor goes on changing a condition after it has sent it. Faults are therefore read from the events
// about changes of the condition, which stay as they were sent.
type asOnEks struct {
	next     types.Exporter
	reported map[string]types.Condition
}

func (e *asOnEks) ExportProblems(status *types.Status) {
	if len(status.Conditions) != 1 {
		klog.Fatalf("%s: a config file describes one condition, not %d", status.Source, len(status.Conditions))
	}
	found := status.Conditions[0]
	condition, known := e.reported[found.Type]
	if !known {
		if found.Status == types.True && len(status.Events) == 0 {
			return // changed after it was sent; the event about the change follows
		}
		condition = healthy(found)
	}
	events := []types.Event{}
	for _, event := range status.Events {
		if message, changes := newFault(event); changes {
			condition = withFault(condition, event, message) // the agent writes no event about a condition that it changes
			continue
		}
		event.Message = event.Reason + ": " + event.Message
		event.Reason = found.Type
		events = append(events, event)
	}
	e.reported[condition.Type] = condition
	e.next.ExportProblems(&types.Status{Source: status.Source, Events: events, Conditions: []types.Condition{condition}})
}

func healthy(found types.Condition) types.Condition {
	found.Status = types.True
	return found
}

// newFault returns the message of the fault that changed a condition, and whether the event is about such a change.
// https://github.com/kubernetes/node-problem-detector/blob/v1.36.0/pkg/util/helpers.go (GenerateConditionChangeEvent)
func newFault(event types.Event) (string, bool) {
	var condition, status, reason, message string
	_, err := fmt.Sscanf(event.Message, "Node condition %s is now: %s reason: %s message: %q", &condition, &status, &reason, &message)
	return message, err == nil
}

func withFault(condition types.Condition, event types.Event, message string) types.Condition {
	condition.Reason = event.Reason
	if condition.Status == types.True {
		condition.Status = types.False
		condition.Transition = event.Timestamp
		condition.Message = message
	} else if !strings.Contains(condition.Message, message) {
		condition.Message += "; " + message
	}
	return condition
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
