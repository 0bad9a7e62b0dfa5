/* Stand-ins for the drivers of accelerators: they compute nothing and check everything.
 *
 * Device memory has addresses that fault when the host follows them, and that are never used twice. What
 * is put on a stream happens when it is waited for, and no earlier. A call that a real driver might let
 * pass and that is wrong all the same ends the process with `stand-in: VIOLATION` on stderr and abort().
 *
 * Environment: OAAX_STAND_IN_LOG (a file, one line a call), OAAX_STAND_IN_DEVICES (default 1),
 * OAAX_STAND_IN_MEMORY (bytes, default 16 GiB), OAAX_STAND_IN_ARCH (default gfx942, or 90 for CUDA),
 * OAAX_STAND_IN_FAIL (CALL:N, the N-th call of that name fails). */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_ARGUMENTS 256

/* Codes that HIP and CUDA share. */
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200, NO_BINARY = 209, NOT_FOUND = 500, LAUNCH_FAILURE = 719 };

typedef struct {
  bool is_address;
  uint32_t size;
  uint32_t offset;
} argument;

/* A kernel as the metadata of its code object has it. */
typedef struct kernel {
  char name[512];
  uint32_t count;
  argument arguments[MOST_ARGUMENTS];
  uint32_t most_threads; /* 0: not said */
  uint32_t segment;      /* bytes of all arguments; 0: not said */
  struct module *module;
  struct kernel *next;
} kernel;

typedef struct module {
  kernel *kernels;
  bool is_loaded;
} module;

typedef struct stream stream;

_Noreturn void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether this call of `name` is to fail. */
bool fails(const char *name);
uint64_t setting(const char *name, uint64_t otherwise);

int device_allocate(uint64_t *address, size_t bytes);
int device_free(uint64_t address);
stream *stream_open(void);
void stream_close(stream *s);
void stream_wait(stream *s);
void stream_upload(stream *s, uint64_t to, const void *from, size_t bytes);
void stream_download(stream *s, void *to, uint64_t from, size_t bytes);
void stream_copy(stream *s, uint64_t to, uint64_t from, size_t bytes);
void stream_launch(stream *s, kernel *k, const uint32_t grid[3], const uint32_t block[3], uint32_t shared, void **parameters);

module *module_new(void);
kernel *module_add(module *m, const char *name, size_t length);
void module_check(module *m, const char *call);
void module_unload(module *m);
kernel *module_find(module *m, const char *name);

/* Readers of code objects; NULL if the bytes are none. */
module *read_hsaco(const uint8_t *bytes, const char *architecture, int *code);
module *read_ptx(const char *text, unsigned capability, int *code);

#endif
