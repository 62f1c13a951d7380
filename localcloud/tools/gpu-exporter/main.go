// The GPU exporter of local nodes: NVIDIA's DCGM exporter, without DCGM.
//
// DCGM's library is not free software that a build can fetch, and needs a driver. This program reads NVML instead, and serves
// what NVML knows under the names and labels of the DCGM exporter:
// https://github.com/NVIDIA/dcgm-exporter/blob/4.6.0-4.8.3/etc/default-counters.csv
// The pod that uses a GPU comes from the kubelet, as there: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#monitoring-device-plugin-resources
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	kubelet     = "unix:///var/lib/kubelet/pod-resources/kubelet.sock"
	answerLimit = 5 * time.Second
	mebibyte    = 1 << 20
)

var (
	labels = []string{"gpu", "UUID", "device", "modelName", "Hostname", "container", "namespace", "pod"}

	utilization = described("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).")
	memoryUsed  = described("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).")
	memoryFree  = described("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).")
	lastXid     = described("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.")
)

func described(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// gpus reads all GPUs of the node at each scrape.
type gpus struct {
	node    string
	pods    podresources.PodResourcesListerClient
	devices []nvml.Device

	lock sync.Mutex
	xids map[string]uint64 // UUID -> last Xid since the start
}

// user is the container that holds a GPU.
type user struct{ container, namespace, pod string }

func (g *gpus) Describe(all chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{utilization, memoryUsed, memoryFree, lastXid} {
		all <- one
	}
}

func (g *gpus) Collect(found chan<- prometheus.Metric) {
	users, err := g.users()
	if err != nil {
		log.Printf("the kubelet does not tell which pods use GPUs: %v", err)
	}
	for index, device := range g.devices {
		uuid, name := uuidOf(device), nameOf(device)
		of := users[uuid]
		values := []string{strconv.Itoa(index), uuid, "nvidia" + strconv.Itoa(index), name, g.node, of.container, of.namespace, of.pod}
		report := func(described *prometheus.Desc, value float64) {
			found <- prometheus.MustNewConstMetric(described, prometheus.GaugeValue, value, values...)
		}
		if rates, code := device.GetUtilizationRates(); code == nvml.SUCCESS {
			report(utilization, float64(rates.Gpu))
		}
		if memory, code := device.GetMemoryInfo(); code == nvml.SUCCESS {
			report(memoryUsed, float64(memory.Used/mebibyte))
			report(memoryFree, float64(memory.Free/mebibyte))
		}
		g.lock.Lock()
		report(lastXid, float64(g.xids[uuid]))
		g.lock.Unlock()
	}
}

// users returns the container that holds each GPU, by the GPU's UUID.
func (g *gpus) users() (map[string]user, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	answer, err := g.pods.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	users := map[string]user{}
	for _, pod := range answer.GetPodResources() {
		for _, container := range pod.GetContainers() {
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					uuid, _, _ := strings.Cut(id, "::") // a shared GPU has a number after its UUID
					users[uuid] = user{container.GetName(), pod.GetNamespace(), pod.GetName()}
				}
			}
		}
	}
	return users, nil
}

// watch keeps the last Xid of each GPU.
func (g *gpus) watch() {
	events, code := nvml.EventSetCreate()
	must("nvmlEventSetCreate", code)
	for _, device := range g.devices {
		must("nvmlDeviceRegisterEvents", device.RegisterEvents(nvml.EventTypeXidCriticalError, events))
	}
	for {
		event, code := events.Wait(1000)
		if code == nvml.ERROR_TIMEOUT {
			continue
		}
		must("nvmlEventSetWait", code)
		g.lock.Lock()
		g.xids[uuidOf(event.Device)] = event.EventData
		g.lock.Unlock()
	}
}

func uuidOf(device nvml.Device) string {
	uuid, code := device.GetUUID()
	must("nvmlDeviceGetUUID", code)
	return uuid
}

func nameOf(device nvml.Device) string {
	name, code := device.GetName()
	must("nvmlDeviceGetName", code)
	return name
}

func must(call string, code nvml.Return) {
	if code != nvml.SUCCESS {
		log.Fatalf("%s: %s", call, nvml.ErrorString(code))
	}
}

func main() {
	must("nvmlInit", nvml.Init())
	count, code := nvml.DeviceGetCount()
	must("nvmlDeviceGetCount", code)
	connection, err := grpc.NewClient(kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	all := &gpus{node: os.Getenv("HOSTNAME"), pods: podresources.NewPodResourcesListerClient(connection), xids: map[string]uint64{}}
	for index := range count {
		device, code := nvml.DeviceGetHandleByIndex(index)
		must("nvmlDeviceGetHandleByIndex", code)
		all.devices = append(all.devices, device)
	}
	go all.watch()
	registry := prometheus.NewRegistry()
	registry.MustRegister(all)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	http.HandleFunc("/health", func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(http.StatusOK) })
	log.Fatal(http.ListenAndServe(os.Getenv("DCGM_EXPORTER_LISTEN"), nil))
}
