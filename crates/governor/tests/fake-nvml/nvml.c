/* A libnvidia-ml.so.1 without a GPU: the functions of NVML that the governor calls, for its tests.
 *
 * Its state are small files in $FAKE_NVML_DIRECTORY, so that tests read and write it from outside:
 *   gpuN.min, gpuN.max  the locked clocks, MHz; 0: unlocked
 *   gpuN.power          the power limit, mW
 *   gpuN.busy           utilisation, percent
 *   gpuN.lost, gpuN.unsupported, denied   switches: 1 for on
 *   gpus                the number of devices
 *   calls               every call that changes something, a line each
 * Device 0 has regular clocks as an H200 lists them, device 1 clocks 7 and 8 MHz apart by turns as a V100. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, DENIED = 4, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };
enum { DEVICES = 2, DEFAULT_POWER = 700000 };

typedef struct { int index; } device_t;
static device_t devices[DEVICES] = {{0}, {1}};

static void path_of(char *path, size_t size, const char *name) {
  const char *directory = getenv("FAKE_NVML_DIRECTORY");
  snprintf(path, size, "%s/%s", directory ? directory : ".", name);
}

static long get(const char *name, long fallback) {
  char path[4096];
  path_of(path, sizeof path, name);
  FILE *file = fopen(path, "r");
  if (!file) return fallback;
  long value = fallback;
  if (fscanf(file, "%ld", &value) != 1) value = fallback;
  fclose(file);
  return value;
}

static long get_of(const device_t *device, const char *what, long fallback) {
  char name[64];
  snprintf(name, sizeof name, "gpu%d.%s", device->index, what);
  return get(name, fallback);
}

/* In one step, so that a reader sees the old value or the new one. */
static void set_of(const device_t *device, const char *what, long value) {
  char name[64], path[4096], draft[4110];
  snprintf(name, sizeof name, "gpu%d.%s", device->index, what);
  path_of(path, sizeof path, name);
  snprintf(draft, sizeof draft, "%s.%d", path, (int)getpid());
  FILE *file = fopen(draft, "w");
  if (!file) abort();
  fprintf(file, "%ld\n", value);
  fclose(file);
  if (rename(draft, path)) abort();
}

static void record(const char *call, const device_t *device, unsigned a, unsigned b) {
  char path[4096];
  path_of(path, sizeof path, "calls");
  FILE *file = fopen(path, "a");
  if (!file) abort();
  fprintf(file, "%s %d %u %u\n", call, device->index, a, b);
  fclose(file);
}

static int answers(const device_t *device) { return get_of(device, "lost", 0) ? LOST : OK; }

static int may_change(const device_t *device) {
  if (get_of(device, "lost", 0)) return LOST;
  if (get_of(device, "unsupported", 0)) return UNSUPPORTED;
  return get("denied", 0) ? DENIED : OK;
}

static unsigned clock_count(const device_t *device) { return device->index == 0 ? 110 : 188; }

static unsigned clock_at(const device_t *device, unsigned place) {
  return device->index == 0 ? 1980 - 15 * place : 1530 - (15 * place + 1) / 2;
}

static unsigned clock_now(const device_t *device) {
  unsigned highest = clock_at(device, 0), lowest = clock_at(device, clock_count(device) - 1);
  long limit = get_of(device, "max", 0);
  if (!get_of(device, "busy", 100)) return lowest;
  return limit ? (unsigned)limit : highest;
}

/* Idle power, and arithmetic that grows with the cube of the clock. */
static unsigned power_now(const device_t *device) {
  double part = (double)clock_now(device) / clock_at(device, 0);
  return 100000 + (unsigned)(4000.0 * get_of(device, "busy", 100) * part * part * part);
}

int nvmlInit_v2(void) { return get("not-loaded", 0) ? 9 : OK; }
int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
  snprintf(text, length, "999.00");
  return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = (unsigned)get("gpus", DEVICES);
  return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t **device) {
  if (index >= (unsigned)get("gpus", DEVICES)) return INVALID;
  *device = &devices[index];
  return answers(*device);
}

int nvmlDeviceGetUUID(device_t *device, char *text, unsigned length) {
  snprintf(text, length, "GPU-00000000-0000-0000-0000-00000000000%d", device->index);
  return OK;
}

int nvmlDeviceGetName(device_t *device, char *text, unsigned length) {
  snprintf(text, length, "Fake GPU %d", device->index);
  return OK;
}

int nvmlDeviceGetPersistenceMode(device_t *device, unsigned *mode) {
  *mode = 0;
  return answers(device);
}

int nvmlDeviceGetSupportedMemoryClocks(device_t *device, unsigned *count, unsigned *clocks) {
  unsigned room = *count;
  *count = 2;
  if (room < 2) return TOO_SMALL;
  clocks[0] = 3201;
  clocks[1] = 1593;
  return answers(device);
}

int nvmlDeviceGetSupportedGraphicsClocks(device_t *device, unsigned memory, unsigned *count, unsigned *clocks) {
  unsigned room = *count;
  if (memory != 3201) return NOT_FOUND;
  *count = clock_count(device);
  if (room < *count) return TOO_SMALL;
  for (unsigned place = 0; place < *count; place++) clocks[place] = clock_at(device, place);
  return answers(device);
}

int nvmlDeviceGetMinMaxClockOfPState(device_t *device, int kind, int state, unsigned *low, unsigned *high) {
  if (kind != 0 || state != 0) return UNSUPPORTED;
  *low = clock_at(device, clock_count(device) - 1);
  *high = clock_at(device, 0);
  return answers(device);
}

int nvmlDeviceGetClockInfo(device_t *device, int kind, unsigned *clock) {
  if (kind != 1) return UNSUPPORTED;
  *clock = clock_now(device);
  return answers(device);
}

int nvmlDeviceGetPowerUsage(device_t *device, unsigned *milliwatts) {
  *milliwatts = power_now(device);
  return answers(device);
}

int nvmlDeviceGetTotalEnergyConsumption(device_t *device, unsigned long long *millijoules) {
  static double energy[DEVICES], last[DEVICES];
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  double now = time.tv_sec + time.tv_nsec / 1e9;
  if (last[device->index] > 0) energy[device->index] += power_now(device) * (now - last[device->index]);
  last[device->index] = now;
  *millijoules = 5000000ULL + (unsigned long long)energy[device->index];
  return answers(device);
}

struct utilization { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(device_t *device, struct utilization *rates) {
  rates->gpu = (unsigned)get_of(device, "busy", 100);
  rates->memory = 10;
  return answers(device);
}

int nvmlDeviceGetPowerManagementLimit(device_t *device, unsigned *milliwatts) {
  *milliwatts = (unsigned)get_of(device, "power", DEFAULT_POWER);
  return answers(device);
}

int nvmlDeviceGetPowerManagementDefaultLimit(device_t *device, unsigned *milliwatts) {
  *milliwatts = DEFAULT_POWER;
  return answers(device);
}

int nvmlDeviceGetPowerManagementLimitConstraints(device_t *device, unsigned *low, unsigned *high) {
  *low = 200000;
  *high = DEFAULT_POWER;
  return answers(device);
}

int nvmlDeviceSetPowerManagementLimit(device_t *device, unsigned milliwatts) {
  record("power", device, milliwatts, 0);
  int refusal = may_change(device);
  if (refusal) return refusal;
  if (milliwatts < 200000 || milliwatts > DEFAULT_POWER) return INVALID;
  set_of(device, "power", milliwatts);
  return OK;
}

int nvmlDeviceSetGpuLockedClocks(device_t *device, unsigned low, unsigned high) {
  record("lock", device, low, high);
  int refusal = may_change(device);
  if (refusal) return refusal;
  if (low > high || high > clock_at(device, 0)) return INVALID;
  set_of(device, "min", low);
  set_of(device, "max", high);
  return OK;
}

int nvmlDeviceResetGpuLockedClocks(device_t *device) {
  record("unlock", device, 0, 0);
  int refusal = may_change(device);
  if (refusal) return refusal;
  set_of(device, "min", 0);
  set_of(device, "max", 0);
  return OK;
}
