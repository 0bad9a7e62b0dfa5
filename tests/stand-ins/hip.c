/* libamdhip64.so, as far as the runtime calls it. See stand_in.h. */
#include "stand_in.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static _Thread_local int current;

static int devices(void) { return (int)setting("OAAX_STAND_IN_DEVICES", 1); }

static const char *architecture(void) {
  const char *name = getenv("OAAX_STAND_IN_ARCH");
  return name && *name ? name : "gfx942";
}

static void check_device(const char *call, int device) {
  if (device < 0 || device >= devices()) violation("%s: device %d of %d", call, device, devices());
}

EXPORT int hipGetDeviceCount(int *count) {
  if (!count) violation("hipGetDeviceCount: NULL");
  *count = devices();
  return *count ? OK : NO_DEVICE;
}

EXPORT int hipDeviceGetName(char *name, int length, int device) {
  check_device("hipDeviceGetName", device);
  if (!name || length < 32) violation("hipDeviceGetName: %d bytes at %p", length, (void *)name);
  strcpy(name, "Stand-in accelerator");
  return OK;
}

EXPORT int hipDeviceTotalMem(size_t *bytes, int device) {
  check_device("hipDeviceTotalMem", device);
  *bytes = setting("OAAX_STAND_IN_MEMORY", (uint64_t)16 << 30);
  return OK;
}

/* As large as ROCm 6's record, with the name where that has it. */
EXPORT int hipGetDevicePropertiesR0600(void *record, int device) {
  check_device("hipGetDevicePropertiesR0600", device);
  memset(record, 0, 1472);
  strcpy((char *)record, "Stand-in accelerator");
  strcpy((char *)record + 1160, architecture());
  strcat((char *)record + 1160, ":sramecc+:xnack-");
  return OK;
}

EXPORT int hipGetDevice(int *device) {
  *device = current;
  return OK;
}

EXPORT int hipSetDevice(int device) {
  check_device("hipSetDevice", device);
  note("hipSetDevice %d", device);
  current = device;
  return OK;
}

EXPORT int hipMalloc(uint64_t *address, size_t bytes) {
  int code = fails("hipMalloc") ? OUT_OF_MEMORY : device_allocate(address, bytes);
  note("hipMalloc %zu -> %d", bytes, code);
  return code;
}

EXPORT int hipFree(uint64_t address) {
  note("hipFree");
  return device_free(address);
}

EXPORT int hipMemcpyHtoDAsync(uint64_t to, const void *from, size_t bytes, stream *s) {
  note("hipMemcpyHtoDAsync %zu", bytes);
  if (fails("hipMemcpyHtoDAsync")) return INVALID_VALUE;
  stream_upload(s, to, from, bytes);
  return OK;
}

EXPORT int hipMemcpyDtoHAsync(void *to, uint64_t from, size_t bytes, stream *s) {
  note("hipMemcpyDtoHAsync %zu", bytes);
  if (fails("hipMemcpyDtoHAsync")) return INVALID_VALUE;
  stream_download(s, to, from, bytes);
  return OK;
}

EXPORT int hipMemcpyDtoDAsync(uint64_t to, uint64_t from, size_t bytes, stream *s) {
  note("hipMemcpyDtoDAsync %zu", bytes);
  stream_copy(s, to, from, bytes);
  return OK;
}

EXPORT int hipStreamCreateWithFlags(stream **s, unsigned flags) {
  if (flags > 1) violation("hipStreamCreateWithFlags: flags %u", flags);
  note("hipStreamCreateWithFlags");
  *s = stream_open();
  return OK;
}

EXPORT int hipStreamDestroy(stream *s) {
  note("hipStreamDestroy");
  stream_close(s);
  return OK;
}

EXPORT int hipStreamSynchronize(stream *s) {
  note("hipStreamSynchronize");
  stream_wait(s);
  return fails("hipStreamSynchronize") ? LAUNCH_FAILURE : OK;
}

EXPORT int hipModuleLoadDataEx(module **m, const void *image, unsigned count, int *options, void **values) {
  int code = OK;
  if (!m || !image || count || options || values) violation("hipModuleLoadDataEx: an image at %p with %u options", image, count);
  *m = read_hsaco(image, architecture(), &code);
  note("hipModuleLoadDataEx -> %d", code);
  return code;
}

EXPORT int hipModuleUnload(module *m) {
  note("hipModuleUnload");
  module_unload(m);
  return OK;
}

EXPORT int hipModuleGetFunction(kernel **k, module *m, const char *name) {
  note("hipModuleGetFunction %s", name);
  *k = module_find(m, name);
  return *k ? OK : NOT_FOUND;
}

EXPORT int hipModuleLaunchKernel(kernel *k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 unsigned shared, stream *s, void **parameters, void **extra) {
  if (!k || extra) violation("hipModuleLaunchKernel: no function, or extra parameters");
  note("hipModuleLaunchKernel %s %u %u", k->name, gx, bx);
  if (fails("hipModuleLaunchKernel")) return LAUNCH_FAILURE;
  stream_launch(s, k, (uint32_t[]){gx, gy, gz}, (uint32_t[]){bx, by, bz}, shared, parameters);
  return OK;
}

EXPORT const char *hipGetErrorName(int code) {
  switch (code) {
    case OK: return "hipSuccess";
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
    case NO_DEVICE: return "hipErrorNoDevice";
    case INVALID_IMAGE: return "hipErrorInvalidImage";
    case NO_BINARY: return "hipErrorNoBinaryForGpu";
    case NOT_FOUND: return "hipErrorNotFound";
    case LAUNCH_FAILURE: return "hipErrorLaunchFailure";
    default: violation("hipGetErrorName: %d", code);
  }
}

EXPORT const char *hipGetErrorString(int code) {
  (void)code;
  return "the stand-in says so";
}
