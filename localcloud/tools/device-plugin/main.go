// device-plugin offers a resource of a local node to its kubelet, in place of a plugin that looks for real devices.
//
// It runs in the image with the name of AWS's EFA plugin, in its unmodified DaemonSet. DEVICE_RESOURCE (set in the image)
// names the resource; arguments are ignored. The number of the node's devices is in gpumpi/devices.json below the folder of
// the kubelet's sockets, which the DaemonSet mounts: {"vpc.amazonaws.com/efa": 4}. Without any, it waits, as upstream.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	devicesFile    = "gpumpi/devices.json"
	lookEvery      = time.Second
	requestTimeout = 5 * time.Second
)

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	resource := os.Getenv("DEVICE_RESOURCE")
	if resource == "" {
		log.Fatal("DEVICE_RESOURCE is not set: it names the resource to offer, e.g. vpc.amazonaws.com/efa")
	}
	folder := os.Getenv("DEVICE_PLUGIN_FOLDER")
	if folder == "" {
		folder = strings.TrimSuffix(api.DevicePluginPath, "/")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, resource, folder); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// run serves the node's devices; a kubelet that starts anew forgets its plugins, so that they register again.
func run(ctx context.Context, resource, folder string) error {
	count, err := deviceCount(filepath.Join(folder, devicesFile), resource)
	if err != nil {
		return err
	}
	if count == 0 {
		log.Printf("this node has no %s; waiting", resource)
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		if err := serve(ctx, resource, folder, count); err != nil {
			log.Printf("%s: %v; trying again", resource, err)
			pause(ctx)
		}
	}
	return ctx.Err()
}

func deviceCount(file, resource string) (int, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	counts := map[string]int{}
	if err := json.Unmarshal(text, &counts); err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return counts[resource], nil
}

// serve registers and answers the kubelet until it restarts or the program ends.
func serve(ctx context.Context, resource, folder string, count int) error {
	kubelet := filepath.Join(folder, filepath.Base(api.KubeletSocket))
	before, err := os.Stat(kubelet)
	if err != nil {
		return err
	}
	name := "gpumpi-" + strings.NewReplacer("/", "-", ".", "-").Replace(resource) + ".sock"
	socket := filepath.Join(folder, name)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, newPlugin(ctx, count))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx, kubelet, resource, name); err != nil {
		return err
	}
	log.Printf("registered %d %s", count, resource)
	for ctx.Err() == nil {
		pause(ctx)
		now, err := os.Stat(kubelet)
		if err != nil || !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()) {
			log.Print("the kubelet started anew")
			return nil
		}
	}
	return nil
}

func register(ctx context.Context, kubelet, resource, endpoint string) error {
	connection, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: resource, Options: &api.DevicePluginOptions{},
	})
	return err
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(lookEvery):
	}
}

// plugin is what the kubelet talks to.
type plugin struct {
	api.UnimplementedDevicePluginServer
	ctx     context.Context
	devices []*api.Device
}

func newPlugin(ctx context.Context, count int) *plugin {
	made := &plugin{ctx: ctx}
	for number := range count {
		made.devices = append(made.devices, &api.Device{ID: fmt.Sprintf("rdmap%d", number), Health: api.Healthy})
	}
	return made
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-p.ctx.Done():
	}
	return nil
}

// Allocate hands over nothing: there are no device files.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return response, nil
}

func (p *plugin) GetPreferredAllocation(context.Context, *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	return &api.PreferredAllocationResponse{}, nil
}

func (p *plugin) PreStartContainer(context.Context, *api.PreStartContainerRequest) (*api.PreStartContainerResponse, error) {
	return &api.PreStartContainerResponse{}, nil
}
