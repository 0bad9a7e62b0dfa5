/* libcuda.so.1, as far as the runtime calls it. See stand_in.h. */
#include "stand_in.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define DEEPEST 64

static int retained;
static int context;
static _Thread_local int depth;
static bool is_started;

static int devices(void) { return (int)setting("OAAX_STAND_IN_DEVICES", 1); }

static unsigned capability(void) { return (unsigned)setting("OAAX_STAND_IN_ARCH", 90); }

static void check_device(const char *call, int device) {
  if (!is_started) violation("%s: cuInit was not called", call);
  if (device < 0 || device >= devices()) violation("%s: device %d of %d", call, device, devices());
}

/* Notes a call that needs a current context. */
static void inside(const char *call) {
  note("%s", call);
  if (depth == 0) violation("%s: no context is current", call);
  if (__atomic_load_n(&retained, __ATOMIC_RELAXED) <= 0) violation("%s: the context was released", call);
}

EXPORT int cuInit(unsigned flags) {
  if (flags) violation("cuInit: flags %u", flags);
  is_started = true;
  return devices() ? OK : NO_DEVICE;
}

EXPORT int cuDeviceGetCount(int *count) {
  *count = devices();
  return OK;
}

EXPORT int cuDeviceGet(int *device, int index) {
  check_device("cuDeviceGet", index);
  *device = index;
  return OK;
}

EXPORT int cuDeviceGetName(char *name, int length, int device) {
  check_device("cuDeviceGetName", device);
  if (!name || length < 32) violation("cuDeviceGetName: %d bytes at %p", length, (void *)name);
  strcpy(name, "Stand-in accelerator");
  return OK;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  check_device("cuDeviceTotalMem", device);
  *bytes = setting("OAAX_STAND_IN_MEMORY", (uint64_t)16 << 30);
  return OK;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  check_device("cuDeviceGetAttribute", device);
  if (attribute != 75 && attribute != 76) violation("cuDeviceGetAttribute: attribute %d", attribute);
  *value = (int)(attribute == 75 ? capability() / 10 : capability() % 10);
  return OK;
}

EXPORT int cuDevicePrimaryCtxRetain(int **made, int device) {
  check_device("cuDevicePrimaryCtxRetain", device);
  note("cuDevicePrimaryCtxRetain");
  __atomic_add_fetch(&retained, 1, __ATOMIC_RELAXED);
  *made = &context;
  return OK;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  check_device("cuDevicePrimaryCtxRelease", device);
  note("cuDevicePrimaryCtxRelease");
  if (__atomic_sub_fetch(&retained, 1, __ATOMIC_RELAXED) < 0) violation("the context is released too often");
  return OK;
}

EXPORT int cuCtxPushCurrent_v2(int *wanted) {
  if (wanted != &context || retained <= 0) violation("cuCtxPushCurrent: no context");
  if (++depth > DEEPEST) violation("contexts are pushed and never popped");
  return OK;
}

EXPORT int cuCtxPopCurrent_v2(int **popped) {
  if (depth-- <= 0) violation("cuCtxPopCurrent: nothing was pushed");
  *popped = &context;
  return OK;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  inside("cuMemAlloc");
  return fails("cuMemAlloc") ? OUT_OF_MEMORY : device_allocate(address, bytes);
}

EXPORT int cuMemFree_v2(uint64_t address) {
  inside("cuMemFree");
  return device_free(address);
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, stream *s) {
  inside("cuMemcpyHtoDAsync");
  stream_upload(s, to, from, bytes);
  return OK;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, stream *s) {
  inside("cuMemcpyDtoHAsync");
  stream_download(s, to, from, bytes);
  return OK;
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, stream *s) {
  inside("cuMemcpyDtoDAsync");
  stream_copy(s, to, from, bytes);
  return OK;
}

EXPORT int cuStreamCreate(stream **s, unsigned flags) {
  inside("cuStreamCreate");
  if (flags > 1) violation("cuStreamCreate: flags %u", flags);
  *s = stream_open();
  return OK;
}

EXPORT int cuStreamDestroy_v2(stream *s) {
  inside("cuStreamDestroy");
  stream_close(s);
  return OK;
}

EXPORT int cuStreamSynchronize(stream *s) {
  inside("cuStreamSynchronize");
  stream_wait(s);
  return OK;
}

EXPORT int cuModuleLoadDataEx(module **m, const void *image, unsigned count, int *options, void **values) {
  int code = OK;
  inside("cuModuleLoadDataEx");
  if (!m || !image) violation("cuModuleLoadDataEx: no image");
  for (unsigned i = 0; i < count; i++)
    if (options[i] != 5 && options[i] != 6) violation("cuModuleLoadDataEx: option %d", options[i]);
  *m = read_ptx(image, capability(), &code);
  if (code && count == 2) {
    if ((uintptr_t)values[1] < 64) violation("cuModuleLoadDataEx: a log of %zu bytes", (size_t)(uintptr_t)values[1]);
    strcpy(values[0], "the stand-in cannot take this PTX");
  }
  return code;
}

EXPORT int cuModuleUnload(module *m) {
  inside("cuModuleUnload");
  module_unload(m);
  return OK;
}

EXPORT int cuModuleGetFunction(kernel **k, module *m, const char *name) {
  inside("cuModuleGetFunction");
  *k = module_find(m, name);
  return *k ? OK : NOT_FOUND;
}

EXPORT int cuLaunchKernel(kernel *k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, stream *s, void **parameters, void **extra) {
  inside("cuLaunchKernel");
  if (!k || extra) violation("cuLaunchKernel: no function, or extra parameters");
  if (fails("cuLaunchKernel")) return LAUNCH_FAILURE;
  stream_launch(s, k, (uint32_t[]){gx, gy, gz}, (uint32_t[]){bx, by, bz}, shared, parameters);
  return OK;
}

EXPORT int cuGetErrorName(int code, const char **name) {
  *name = code == OUT_OF_MEMORY    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == LAUNCH_FAILURE ? "CUDA_ERROR_LAUNCH_FAILED"
          : code == NO_DEVICE      ? "CUDA_ERROR_NO_DEVICE"
          : code == NOT_FOUND      ? "CUDA_ERROR_NOT_FOUND"
          : code == NO_BINARY      ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                                   : "CUDA_ERROR_INVALID_IMAGE";
  return OK;
}

EXPORT int cuGetErrorString(int code, const char **text) {
  (void)code;
  *text = "the stand-in says so";
  return OK;
}

__attribute__((destructor)) static void at_unload(void) {
  if (retained) violation("the primary context was retained %d times too often", retained);
}
