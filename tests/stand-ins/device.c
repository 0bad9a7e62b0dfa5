/* Memory, streams, launches and modules of a device that computes nothing. See stand_in.h. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GAP 4096u
#define REGION ((uint64_t)1 << 40)

typedef struct allocation {
  uint64_t address;
  size_t bytes;
  uint8_t *store;
  bool is_live;
  struct allocation *next;
} allocation;

typedef struct work {
  enum { UPLOAD, DOWNLOAD, COPY, LAUNCH } what;
  uint64_t to, from;
  void *host;
  size_t bytes;
  uint64_t addresses[MOST_ARGUMENTS];
  uint32_t count;
  kernel *k;
  struct work *next;
} work;

struct stream {
  bool is_open;
  work *first, *last;
  stream *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *allocations;
static stream *streams;
static uint64_t region, used, in_use;
static int live_modules;
static uint64_t launches, calls;
static FILE *log_file;

_Noreturn void violation(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fputs("stand-in: VIOLATION: ", stderr);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  if (log_file) fflush(log_file);
  abort();
}

void note(const char *format, ...) {
  const char *path = getenv("OAAX_STAND_IN_LOG");
  __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  if (!path) return;
  pthread_mutex_lock(&lock);
  if (!log_file) log_file = fopen(path, "a");
  if (log_file) {
    va_list list;
    va_start(list, format);
    vfprintf(log_file, format, list);
    fputc('\n', log_file);
    va_end(list);
  }
  pthread_mutex_unlock(&lock);
}

uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

bool fails(const char *name) {
  static uint64_t seen;
  const char *wanted = getenv("OAAX_STAND_IN_FAIL");
  size_t length = strlen(name);
  if (!wanted || strncmp(wanted, name, length) != 0 || wanted[length] != ':') return false;
  return __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED) == strtoull(wanted + length + 1, NULL, 10);
}

int device_allocate(uint64_t *address, size_t bytes) {
  if (!address || bytes == 0) violation("an allocation of %zu bytes at %p", bytes, (void *)address);
  pthread_mutex_lock(&lock);
  if (!region) {
    void *start = mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) violation("no address space");
    region = (uint64_t)(uintptr_t)start;
  }
  int code = OUT_OF_MEMORY;
  if (in_use + bytes <= setting("OAAX_STAND_IN_MEMORY", (uint64_t)16 << 30)) {
    allocation *a = calloc(1, sizeof *a);
    a->address = region + used;
    a->bytes = bytes;
    a->store = calloc(1, bytes);
    a->is_live = true;
    a->next = allocations;
    allocations = a;
    used += (bytes + 2 * GAP - 1) / GAP * GAP;
    in_use += bytes;
    if (used > REGION) violation("the region of addresses is used up");
    *address = a->address;
    code = OK;
  }
  pthread_mutex_unlock(&lock);
  return code;
}

/* The live allocation that holds `bytes` bytes at `address`; anything else ends the process. */
static allocation *inside(const char *what, uint64_t address, size_t bytes) {
  for (allocation *a = allocations; a; a = a->next) {
    if (address < a->address || address >= a->address + a->bytes) continue;
    if (!a->is_live) violation("%s: address %#lx was freed", what, (unsigned long)address);
    if (bytes > a->address + a->bytes - address)
      violation("%s: %zu bytes at %#lx leave an allocation of %zu", what, bytes, (unsigned long)address, a->bytes);
    return a;
  }
  violation("%s: address %#lx is in no allocation", what, (unsigned long)address);
}

static void on_host(const char *what, const void *host) {
  uint64_t address = (uint64_t)(uintptr_t)host;
  if (!host) violation("%s: the host's address is NULL", what);
  if (region && address >= region && address < region + REGION) violation("%s: an address of the device is taken for the host's", what);
}

int device_free(uint64_t address) {
  pthread_mutex_lock(&lock);
  for (allocation *a = allocations; a; a = a->next) {
    if (a->address != address) continue;
    if (!a->is_live) violation("%#lx is freed twice", (unsigned long)address);
    for (stream *s = streams; s; s = s->next)
      for (work *w = s->first; w; w = w->next) {
        bool uses = (w->what != DOWNLOAD && w->what != LAUNCH && w->to - address < a->bytes) ||
                    ((w->what == DOWNLOAD || w->what == COPY) && w->from - address < a->bytes);
        for (uint32_t i = 0; w->what == LAUNCH && i < w->count; i++) uses = uses || w->addresses[i] - address < a->bytes;
        if (uses) violation("%#lx is freed while a stream still uses it", (unsigned long)address);
      }
    a->is_live = false;
    in_use -= a->bytes;
    free(a->store);
    a->store = NULL;
    pthread_mutex_unlock(&lock);
    return OK;
  }
  violation("%#lx is freed and was never allocated", (unsigned long)address);
}

stream *stream_open(void) {
  stream *s = calloc(1, sizeof *s);
  s->is_open = true;
  pthread_mutex_lock(&lock);
  s->next = streams;
  streams = s;
  pthread_mutex_unlock(&lock);
  return s;
}

/* With the lock held. */
static void check_stream(const char *what, stream *wanted) {
  for (stream *s = streams; s; s = s->next)
    if (s == wanted) {
      if (!s->is_open) violation("%s: the stream was closed", what);
      return;
    }
  violation("%s: %p is no stream", what, (void *)wanted);
}

void stream_close(stream *s) {
  pthread_mutex_lock(&lock);
  check_stream("closing a stream", s);
  if (s->first) violation("a stream is closed with work on it");
  s->is_open = false;
  pthread_mutex_unlock(&lock);
}

static void put(stream *s, work w) {
  work *copy = malloc(sizeof *copy);
  *copy = w;
  if (s->last) s->last->next = copy;
  else s->first = copy;
  s->last = copy;
}

void stream_upload(stream *s, uint64_t to, const void *from, size_t bytes) {
  pthread_mutex_lock(&lock);
  check_stream("upload", s);
  on_host("upload", from);
  inside("upload", to, bytes);
  put(s, (work){.what = UPLOAD, .to = to, .host = (void *)(uintptr_t)from, .bytes = bytes});
  pthread_mutex_unlock(&lock);
}

void stream_download(stream *s, void *to, uint64_t from, size_t bytes) {
  pthread_mutex_lock(&lock);
  check_stream("download", s);
  on_host("download", to);
  inside("download", from, bytes);
  put(s, (work){.what = DOWNLOAD, .from = from, .host = to, .bytes = bytes});
  pthread_mutex_unlock(&lock);
}

void stream_copy(stream *s, uint64_t to, uint64_t from, size_t bytes) {
  pthread_mutex_lock(&lock);
  check_stream("copy", s);
  inside("copy", to, bytes);
  inside("copy", from, bytes);
  if (to < from + bytes && from < to + bytes) violation("a copy overlaps itself");
  put(s, (work){.what = COPY, .to = to, .from = from, .bytes = bytes});
  pthread_mutex_unlock(&lock);
}

void stream_launch(stream *s, kernel *k, const uint32_t grid[3], const uint32_t block[3], uint32_t shared, void **parameters) {
  pthread_mutex_lock(&lock);
  check_stream("launch", s);
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (!k->module->is_loaded) violation("launch of %s: its module was unloaded", k->name);
  if (!grid[0] || !grid[1] || !grid[2] || !threads) violation("launch of %s: an empty grid or block", k->name);
  if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1) violation("launch of %s: more than one dimension", k->name);
  if (k->most_threads && threads > k->most_threads) violation("launch of %s: %lu threads, at most %u are allowed", k->name, (unsigned long)threads, k->most_threads);
  if (threads > 1024 || grid[0] * threads >= (uint64_t)1 << 32) violation("launch of %s: %u groups of %lu threads", k->name, grid[0], (unsigned long)threads);
  if (shared) violation("launch of %s: %u bytes of dynamic shared memory", k->name, shared);
  if (!parameters) violation("launch of %s: no parameters", k->name);
  /* buffers, dims, scratch, fault record, launched groups, number of the launch */
  if (k->count < 4) violation("kernel %s has %u arguments", k->name, k->count);
  const argument *last = k->arguments + k->count - 4;
  if (!last[0].is_address || !last[1].is_address || last[2].is_address || last[2].size != 8 || last[3].is_address || last[3].size != 4)
    violation("kernel %s does not end with scratch, fault, launched, launch", k->name);
  work w = {.what = LAUNCH, .k = k};
  for (uint32_t i = 0, values = 0; i < k->count; i++) {
    const argument *a = k->arguments + i;
    uint64_t value = 0;
    if (!parameters[i]) violation("launch of %s: argument %u is NULL", k->name, i);
    memcpy(&value, parameters[i], a->size <= 8 ? a->size : 8);
    if (a->is_address && values && i < k->count - 4) violation("kernel %s: buffer %u comes behind a value", k->name, i);
    values |= !a->is_address;
    if (a->is_address) {
      inside("launch", value, i == k->count - 3 ? 32 : 1);
      if (i == k->count - 4 && value % 64) violation("launch of %s: scratch at %#lx", k->name, (unsigned long)value);
      w.addresses[w.count++] = value;
    } else if (i == k->count - 2 && value != grid[0]) {
      violation("launch of %s: %u groups, and the kernel is told %ld", k->name, grid[0], (long)value);
    } else if (i == k->count - 1 && (int32_t)value < 0) {
      violation("launch of %s: its number is %d", k->name, (int32_t)value);
    }
  }
  launches++;
  put(s, w);
  pthread_mutex_unlock(&lock);
}

static uint8_t *store(const char *what, uint64_t address, size_t bytes) {
  allocation *a = inside(what, address, bytes);
  return a->store + (address - a->address);
}

void stream_wait(stream *s) {
  pthread_mutex_lock(&lock);
  check_stream("wait", s);
  while (s->first) {
    work *w = s->first;
    if (w->what == UPLOAD) memcpy(store("upload", w->to, w->bytes), w->host, w->bytes);
    if (w->what == DOWNLOAD) memcpy(w->host, store("download", w->from, w->bytes), w->bytes);
    if (w->what == COPY) memcpy(store("copy", w->to, w->bytes), store("copy", w->from, w->bytes), w->bytes);
    for (uint32_t i = 0; w->what == LAUNCH && i < w->count; i++) inside("launch", w->addresses[i], 1);
    if (w->what == LAUNCH && !w->k->module->is_loaded) violation("%s was unloaded before it ran", w->k->name);
    s->first = w->next;
    free(w);
  }
  s->last = NULL;
  pthread_mutex_unlock(&lock);
}

module *module_new(void) {
  module *m = calloc(1, sizeof *m);
  m->is_loaded = true;
  __atomic_add_fetch(&live_modules, 1, __ATOMIC_RELAXED);
  return m;
}

kernel *module_add(module *m, const char *name, size_t length) {
  kernel *k = calloc(1, sizeof *k);
  if (length >= sizeof k->name) violation("a kernel's name is too long");
  memcpy(k->name, name, length);
  k->module = m;
  k->next = m->kernels;
  m->kernels = k;
  return k;
}

void module_check(module *m, const char *call) {
  if (!m || !m->is_loaded) violation("%s: the module is not loaded", call);
}

void module_unload(module *m) {
  module_check(m, "unload");
  m->is_loaded = false;
  __atomic_sub_fetch(&live_modules, 1, __ATOMIC_RELAXED);
}

kernel *module_find(module *m, const char *name) {
  module_check(m, "looking a kernel up");
  kernel *k = m->kernels;
  while (k && strcmp(k->name, name) != 0) k = k->next;
  return k;
}

/* What is left when the process ends is a leak. */
__attribute__((destructor)) static void at_unload(void) {
  size_t blocks = 0, bytes = 0, open = 0;
  for (allocation *a = allocations; a; a = a->next)
    if (a->is_live) blocks++, bytes += a->bytes;
  for (stream *s = streams; s; s = s->next) open += s->is_open;
  note("unload: %lu launches, %lu calls", (unsigned long)launches, (unsigned long)calls);
  if (blocks) violation("%zu allocations of %zu bytes were never freed", blocks, bytes);
  if (open) violation("%zu streams were never closed", open);
  if (live_modules) violation("%d modules were never unloaded", live_modules);
  if (log_file) fclose(log_file);
}
