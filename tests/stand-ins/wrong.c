/* Does one wrong thing to the stand-in of HIP or CUDA: `wrong hip|cuda LIBRARY CODE_OBJECT CASE`. Case `right` does
 * everything as it should be and ends with 0. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*call_address)(uint64_t *, size_t);
typedef int (*call_number)(uint64_t);
typedef int (*call_upload)(uint64_t, const void *, size_t, void *);
typedef int (*call_download)(void *, uint64_t, size_t, void *);
typedef int (*call_copy)(uint64_t, uint64_t, size_t, void *);
typedef int (*call_open)(void **, unsigned);
typedef int (*call_handle)(void *);
typedef int (*call_load)(void **, const void *, unsigned, int *, void **);
typedef int (*call_find)(void **, void *, const char *);
typedef int (*call_launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static void *library;
static int is_cuda;

static void *look(const char *hip, const char *cuda) {
  void *found = dlsym(library, is_cuda ? cuda : hip);
  if (!found) exit(3);
  return found;
}

static int is(const char *wanted, const char *name) { return strcmp(wanted, name) == 0; }

int main(int count, char **words) {
  static uint8_t object[1 << 20], host[8192];
  if (count != 5) return 3;
  const char *wanted = words[4];
  is_cuda = is(words[1], "cuda");
  library = dlopen(words[2], RTLD_NOW);
  FILE *file = fopen(words[3], "rb");
  if (!library || !file || !fread(object, 1, sizeof object - 1, file)) return 3;
  fclose(file);
  void *context = NULL;
  if (is_cuda) {
    ((int (*)(unsigned))dlsym(library, "cuInit"))(0);
    ((int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain"))(&context, 0);
    if (!is(wanted, "no-context")) ((call_handle)dlsym(library, "cuCtxPushCurrent_v2"))(context);
  }
  call_address allocate = (call_address)look("hipMalloc", "cuMemAlloc_v2");
  call_number release = (call_number)look("hipFree", "cuMemFree_v2");
  call_upload upload = (call_upload)look("hipMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2");
  call_download download = (call_download)look("hipMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2");
  call_copy copy = (call_copy)look("hipMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2");
  call_handle wait = (call_handle)look("hipStreamSynchronize", "cuStreamSynchronize");
  call_handle close_stream = (call_handle)look("hipStreamDestroy", "cuStreamDestroy_v2");
  call_handle unload = (call_handle)look("hipModuleUnload", "cuModuleUnload");
  call_launch launch = (call_launch)look("hipModuleLaunchKernel", "cuLaunchKernel");

  uint64_t block = 0, other = 0;
  void *stream = NULL, *module = NULL, *kernel = NULL;
  if (allocate(&block, 8192) || allocate(&other, 4096)) return 3;
  ((call_open)look("hipStreamCreateWithFlags", "cuStreamCreate"))(&stream, 1);
  if (((call_load)look("hipModuleLoadDataEx", "cuModuleLoadDataEx"))(&module, object, 0, NULL, NULL)) return 3;
  if (((call_find)look("hipModuleGetFunction", "cuModuleGetFunction"))(&kernel, module, "demo_add_f32")) return 3;

  /* demo_add_f32(b0, b1, b2, d0, scratch, fault, launched, launch) */
  uint64_t values[8] = {block, block + 1024, block + 2048, 256, block + 4096, block + 6144, 4, 0};
  void *parameters[8];
  unsigned grid = 4, threads = 64, rows = 1, shared = 0;
  for (int i = 0; i < 8; i++) parameters[i] = &values[i];
  if (is(wanted, "wild-buffer")) values[1] = 4096;
  if (is(wanted, "host-buffer")) values[1] = (uint64_t)(uintptr_t)host;
  if (is(wanted, "freed-buffer")) values[1] = other, release(other);
  if (is(wanted, "shifted-arguments")) values[6] = 256;
  if (is(wanted, "small-fault-record")) values[5] = block + 8192 - 16;
  if (is(wanted, "crooked-scratch")) values[4] += 8;
  if (is(wanted, "negative-launch")) values[7] = (uint64_t)-1;
  if (is(wanted, "null-argument")) parameters[2] = NULL;
  if (is(wanted, "too-many-threads")) threads = 65;
  if (is(wanted, "empty-grid")) grid = 0;
  if (is(wanted, "two-dimensions")) rows = 2;
  if (is(wanted, "dynamic-shared")) shared = 64;
  if (is(wanted, "unloaded-module")) unload(module);
  if (is(wanted, "closed-stream")) close_stream(stream);
  if (is(wanted, "extra")) launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, parameters);
  launch(kernel, grid, rows, 1, threads, 1, 1, shared, stream, parameters, NULL);
  if (is(wanted, "free-under-launch")) release(block);
  if (is(wanted, "unload-under-launch")) unload(module);

  if (is(wanted, "long-upload")) upload(block + 8000, host, 200, stream);
  if (is(wanted, "long-download")) download(host, block, 8193, stream);
  if (is(wanted, "swapped-sides")) upload((uint64_t)(uintptr_t)host, (void *)(uintptr_t)block, 16, stream);
  if (is(wanted, "device-as-host")) upload(block, (void *)(uintptr_t)other, 16, stream);
  if (is(wanted, "overlapping-copy")) copy(block, block + 8, 16, stream);
  if (is(wanted, "no-stream")) upload(block, host, 16, host);
  upload(block, host, 8192, stream);
  copy(other, block, 4096, stream);
  if (is(wanted, "free-under-copy")) release(other);
  if (is(wanted, "close-under-work")) close_stream(stream);
  download(host, other, 4096, stream);
  wait(stream);
  if (is(wanted, "touched-by-host")) host[0] = *(volatile uint8_t *)(uintptr_t)block;
  if (is(wanted, "double-free")) release(block);
  if (is(wanted, "wild-free")) release(block + 64);
  if (!is(wanted, "leaked-memory")) release(block);
  release(other);
  if (is(wanted, "use-after-free")) upload(block, host, 16, stream);
  if (!is(wanted, "leaked-stream")) close_stream(stream);
  if (!is(wanted, "leaked-module")) unload(module);
  if (is_cuda) {
    void *popped;
    ((int (*)(void **))dlsym(library, "cuCtxPopCurrent_v2"))(&popped);
    if (is(wanted, "double-pop")) ((int (*)(void **))dlsym(library, "cuCtxPopCurrent_v2"))(&popped);
    if (!is(wanted, "leaked-context")) ((int (*)(int))dlsym(library, "cuDevicePrimaryCtxRelease_v2"))(0);
  }
  return 0;
}
