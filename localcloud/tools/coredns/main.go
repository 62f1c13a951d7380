// CoreDNS with only the plugins that a local cluster needs: without the clients of all clouds it builds in a third of the time.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	// Order matters: a query passes the plugins in this order.
	dnsserver.Directives = []string{"bind", "health", "ready", "errors", "log", "cache", "hosts", "kubernetes", "template"}
}

func main() { coremain.Run() }
