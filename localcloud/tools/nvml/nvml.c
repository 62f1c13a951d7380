/*
 * libnvidia-ml.so.1 of local nodes: the part of NVML that device plugins, exporters and nvidia-ml-py call.
 *
 * There is no GPU. The library reads the node's description from the folder GPUMPI_NVML, by default the one that every
 * DaemonSet of a device plugin mounts:
 *
 *   gpus   one line per GPU: UUID, PCI bus id, memory in MiB, compute capability, name
 *          GPU-5f1e... 00000000:10:00.0 81920 9.0 NVIDIA H100 80GB HBM3
 *   xids   one line per fault, appended: index of the GPU, Xid
 *
 * Names, values and layouts are those of the NVML API reference:
 * https://docs.nvidia.com/deploy/nvml-api/
 * What the library does not know ends with NVML_ERROR_NOT_SUPPORTED, as on GPUs without that feature.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define FOLDER "/var/lib/kubelet/device-plugins/gpumpi"
#define DRIVER "580.105.08"
#define CUDA 13000
#define MAXIMUM_GPUS 64
#define LINKS 18
#define POLL_MILLISECONDS 100

enum {
  SUCCESS = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  TIMEOUT = 10,
  UNKNOWN = 999,
};

enum { EVENT_SINGLE_BIT_ECC = 1, EVENT_DOUBLE_BIT_ECC = 2, EVENT_XID = 8 };

typedef struct {
  char uuid[64], bus_id[32], name[96];
  unsigned long long memory;
  int major, minor;
} Gpu;

typedef Gpu *Device;

typedef struct {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
} PciInfo;

typedef struct {
  unsigned long long total, free, used;
} Memory;

typedef struct {
  unsigned int gpu, memory;
} Utilization;

typedef struct {
  Device device;
  unsigned long long type, data;
  unsigned int gpu_instance, compute_instance;
} Event;

typedef struct {
  unsigned long long registered[MAXIMUM_GPUS];
  long position; /* in the file of Xids */
} EventSet;

static Gpu gpus[MAXIMUM_GPUS];
static unsigned int count;
static int users;
static long first_fault; /* position in the file of Xids when the library was initialized: earlier faults are not reported */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static FILE *open_file(const char *name) {
  const char *folder = getenv("GPUMPI_NVML");
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder && *folder ? folder : FOLDER, name);
  return fopen(path, "re");
}

static int read_gpus(void) {
  FILE *file = open_file("gpus");
  if (!file) return UNKNOWN;
  char line[256];
  for (count = 0; count < MAXIMUM_GPUS && fgets(line, sizeof line, file);) {
    Gpu *gpu = &gpus[count];
    unsigned long long mebibytes;
    if (sscanf(line, "%63s %31s %llu %d.%d %95[^\n]", gpu->uuid, gpu->bus_id, &mebibytes, &gpu->major, &gpu->minor, gpu->name) != 6)
      continue;
    gpu->memory = mebibytes << 20;
    count++;
  }
  fclose(file);
  file = open_file("xids");
  first_fault = 0;
  if (file) {
    fseek(file, 0, SEEK_END);
    first_fault = ftell(file);
    fclose(file);
  }
  return SUCCESS;
}

static int copy(const char *text, char *target, unsigned int size) {
  if (!target) return INVALID_ARGUMENT;
  if (strlen(text) >= size) return INSUFFICIENT_SIZE;
  strcpy(target, text);
  return SUCCESS;
}

static bool is_gpu(Device device) {
  return device >= gpus && device < gpus + count;
}

/* --- the library ----------------------------------------------------------------------------------------------- */

int nvmlInit_v2(void) {
  pthread_mutex_lock(&lock);
  int result = users ? SUCCESS : read_gpus();
  if (result == SUCCESS) users++;
  pthread_mutex_unlock(&lock);
  return result;
}

int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(unsigned int flags) { return (void)flags, nvmlInit_v2(); }

int nvmlShutdown(void) {
  pthread_mutex_lock(&lock);
  int result = users ? SUCCESS : UNINITIALIZED;
  if (users) users--;
  pthread_mutex_unlock(&lock);
  return result;
}

const char *nvmlErrorString(int result) {
  switch (result) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case TIMEOUT: return "Timeout";
    default: return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char *version, unsigned int size) { return copy(DRIVER, version, size); }
int nvmlSystemGetNVMLVersion(char *version, unsigned int size) { return copy("13." DRIVER, version, size); }

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  *version = CUDA;
  return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

/* --- devices --------------------------------------------------------------------------------------------------- */

int nvmlDeviceGetCount_v2(unsigned int *number) {
  if (!users) return UNINITIALIZED;
  *number = count;
  return SUCCESS;
}

int nvmlDeviceGetCount(unsigned int *number) { return nvmlDeviceGetCount_v2(number); }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device *device) {
  if (!users) return UNINITIALIZED;
  if (index >= count) return INVALID_ARGUMENT;
  *device = &gpus[index];
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex(unsigned int index, Device *device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
  if (!users) return UNINITIALIZED;
  for (unsigned int index = 0; index < count; index++)
    if (strcmp(gpus[index].uuid, uuid) == 0) return nvmlDeviceGetHandleByIndex_v2(index, device);
  return NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Device *device) {
  if (!users) return UNINITIALIZED;
  for (unsigned int index = 0; index < count; index++)
    if (strcasecmp(gpus[index].bus_id, bus_id) == 0) return nvmlDeviceGetHandleByIndex_v2(index, device);
  return NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId(const char *bus_id, Device *device) { return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device); }

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned int size) {
  return is_gpu(device) ? copy(device->uuid, uuid, size) : INVALID_ARGUMENT;
}

int nvmlDeviceGetName(Device device, char *name, unsigned int size) {
  return is_gpu(device) ? copy(device->name, name, size) : INVALID_ARGUMENT;
}

int nvmlDeviceGetIndex(Device device, unsigned int *index) {
  if (!is_gpu(device)) return INVALID_ARGUMENT;
  *index = (unsigned int)(device - gpus);
  return SUCCESS;
}

int nvmlDeviceGetMinorNumber(Device device, unsigned int *number) { return nvmlDeviceGetIndex(device, number); }

int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
  if (!is_gpu(device)) return INVALID_ARGUMENT;
  *major = device->major;
  *minor = device->minor;
  return SUCCESS;
}

int nvmlDeviceGetArchitecture(Device device, unsigned int *architecture) {
  if (!is_gpu(device)) return INVALID_ARGUMENT;
  switch (device->major * 10 + device->minor) {
    case 70: *architecture = 5; break; /* Volta */
    case 75: *architecture = 6; break; /* Turing */
    case 80: case 86: *architecture = 7; break; /* Ampere */
    case 89: *architecture = 8; break; /* Ada */
    case 90: *architecture = 9; break; /* Hopper */
    case 100: case 103: *architecture = 10; break; /* Blackwell */
    default: *architecture = 0xffffffff;
  }
  return SUCCESS;
}

int nvmlDeviceGetBrand(Device device, unsigned int *brand) {
  if (!is_gpu(device)) return INVALID_ARGUMENT;
  *brand = 14; /* NVIDIA */
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
  if (!is_gpu(device)) return INVALID_ARGUMENT;
  *memory = (Memory){.total = device->memory, .free = device->memory, .used = 0};
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization *utilization) {
  if (!is_gpu(device)) return INVALID_ARGUMENT;
  *utilization = (Utilization){0, 0};
  return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device device, PciInfo *info) {
  if (!is_gpu(device)) return INVALID_ARGUMENT;
  memset(info, 0, sizeof *info);
  if (sscanf(device->bus_id, "%x:%x:%x", &info->domain, &info->bus, &info->device) != 3) return UNKNOWN;
  info->device_id = 0x10de; /* vendor NVIDIA */
  snprintf(info->bus_id, sizeof info->bus_id, "%s", device->bus_id);
  snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%s", device->bus_id + 4); /* four digits of the domain */
  return SUCCESS;
}

int nvmlDeviceGetPciInfo_v2(Device device, PciInfo *info) { return nvmlDeviceGetPciInfo_v3(device, info); }
int nvmlDeviceGetPciInfo(Device device, PciInfo *info) { return nvmlDeviceGetPciInfo_v3(device, info); }

/* Instances with several of these GPUs have NVSwitch, which connects all pairs alike. */
int nvmlDeviceGetTopologyCommonAncestor(Device one, Device other, unsigned int *level) {
  if (!is_gpu(one) || !is_gpu(other)) return INVALID_ARGUMENT;
  *level = one == other ? 0 : 40; /* the same board; the same NUMA node */
  return SUCCESS;
}

int nvmlDeviceGetNvLinkState(Device device, unsigned int link, unsigned int *is_active) {
  if (!is_gpu(device) || link >= LINKS) return INVALID_ARGUMENT;
  *is_active = 0;
  return SUCCESS;
}

/* --- what these GPUs do not have ------------------------------------------------------------------------------- */

int nvmlDeviceGetMigMode(Device device, unsigned int *now, unsigned int *pending) {
  return (void)device, (void)now, (void)pending, NOT_SUPPORTED;
}
int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned int *number) { return (void)device, *number = 0, SUCCESS; }
int nvmlDeviceIsMigDeviceHandle(Device device, unsigned int *is_mig) { return (void)device, *is_mig = 0, SUCCESS; }
int nvmlDeviceGetAddressingMode(Device device, void *mode) { return (void)device, (void)mode, NOT_SUPPORTED; }
int nvmlDeviceGetGpuFabricInfo(Device device, void *info) { return (void)device, (void)info, NOT_SUPPORTED; }
int nvmlDeviceGetGpuFabricInfoV(Device device, void *info) { return (void)device, (void)info, NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned int link, PciInfo *info) {
  return (void)device, (void)link, (void)info, NOT_SUPPORTED;
}
int nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned int link, PciInfo *info) {
  return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, info);
}

/* --- events ---------------------------------------------------------------------------------------------------- */

int nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long *types) {
  if (!is_gpu(device)) return INVALID_ARGUMENT;
  *types = EVENT_SINGLE_BIT_ECC | EVENT_DOUBLE_BIT_ECC | EVENT_XID;
  return SUCCESS;
}

int nvmlEventSetCreate(EventSet **set) {
  if (!users) return UNINITIALIZED;
  *set = calloc(1, sizeof **set);
  if (!*set) return UNKNOWN;
  (*set)->position = first_fault;
  return SUCCESS;
}

int nvmlEventSetFree(EventSet *set) { return free(set), SUCCESS; }

int nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet *set) {
  if (!is_gpu(device) || !set) return INVALID_ARGUMENT;
  set->registered[device - gpus] |= types;
  return SUCCESS;
}

/* Take the next fault of a registered GPU from the file. */
static bool next_event(EventSet *set, Event *event) {
  FILE *file = open_file("xids");
  if (!file) return false;
  bool found = false;
  char line[64];
  unsigned int index;
  unsigned long long xid;
  fseek(file, set->position, SEEK_SET);
  while (!found && fgets(line, sizeof line, file) && strchr(line, '\n')) {
    set->position = ftell(file);
    if (sscanf(line, "%u %llu", &index, &xid) != 2 || index >= count || !(set->registered[index] & EVENT_XID)) continue;
    *event = (Event){&gpus[index], EVENT_XID, xid, 0xffffffff, 0xffffffff};
    found = true;
  }
  fclose(file);
  return found;
}

int nvmlEventSetWait_v2(EventSet *set, Event *event, unsigned int milliseconds) {
  if (!users) return UNINITIALIZED;
  struct timespec pause = {0, POLL_MILLISECONDS * 1000000L};
  for (unsigned int waited = 0;; waited += POLL_MILLISECONDS) {
    if (next_event(set, event)) return SUCCESS;
    if (waited >= milliseconds) return TIMEOUT;
    nanosleep(&pause, NULL);
  }
}

int nvmlEventSetWait(EventSet *set, Event *event, unsigned int milliseconds) { return nvmlEventSetWait_v2(set, event, milliseconds); }
