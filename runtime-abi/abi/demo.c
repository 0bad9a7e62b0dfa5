/* Kernels written by hand: the smallest example of the kernel entry, and what the runtime's tests run.
 * Build: cc -O2 -shared -fPIC -nostdlib -ffreestanding -fno-builtin
 *        -fno-tree-loop-distribute-patterns -Wl,--no-undefined -Iinclude demo.c -o demo.so */
#include "oaaxc_kernel.h"

#define EXPORT __attribute__((visibility("default")))

/* Elements of one group of the kernels below; the group count is ceil(n / GRAIN). */
#define GRAIN 1024u

static uint64_t end_of(uint64_t group_end, int64_t n) {
  uint64_t end = group_end * GRAIN;
  return end < (uint64_t)n ? end : (uint64_t)n;
}

/* z[n] = x[n] + y[n] on float; buffers x, y, z; dims n. */
EXPORT int32_t demo_add_f32(const oaax_kernel_env *env, void *const *buffers, const int64_t *dims,
                            uint64_t group_begin, uint64_t group_end) {
  const float *x = (const float *)buffers[0];
  const float *y = (const float *)buffers[1];
  float *z = (float *)buffers[2];
  (void)env;
  for (uint64_t i = group_begin * GRAIN; i < end_of(group_end, dims[0]); i++) z[i] = x[i] + y[i];
  return 0;
}

/* y[n] = x[n] * scale[0]; buffers x, scale, y; dims n. */
EXPORT int32_t demo_scale_f32(const oaax_kernel_env *env, void *const *buffers, const int64_t *dims,
                              uint64_t group_begin, uint64_t group_end) {
  const float *x = (const float *)buffers[0];
  const float scale = *(const float *)buffers[1];
  float *y = (float *)buffers[2];
  (void)env;
  for (uint64_t i = group_begin * GRAIN; i < end_of(group_end, dims[0]); i++) y[i] = x[i] * scale;
  return 0;
}

/* z[m] = x[index[m]]; a negative index counts from the end; buffers x, index (int64), z; dims n, m. */
EXPORT int32_t demo_gather_f32(const oaax_kernel_env *env, void *const *buffers, const int64_t *dims,
                               uint64_t group_begin, uint64_t group_end) {
  const float *x = (const float *)buffers[0];
  const int64_t *index = (const int64_t *)buffers[1];
  float *z = (float *)buffers[2];
  for (uint64_t i = group_begin * GRAIN; i < end_of(group_end, dims[1]); i++) {
    int64_t at = index[i] < 0 ? index[i] + dims[0] : index[i];
    if (at < 0 || at >= dims[0]) {
      env->fault->code = OAAX_FAULT_INDEX;
      env->fault->place = 0;
      env->fault->value = index[i];
      env->fault->limit = dims[0];
      return OAAX_FAULT_INDEX;
    }
    z[i] = x[at];
  }
  return 0;
}

/* Positions of the elements of x that are not 0, and their count: data-dependent size, one group.
 * Uses scratch for nothing but to show it: buffers x, positions (int64, room for n), count (int64[1]); dims n. */
EXPORT int32_t demo_nonzero_f32(const oaax_kernel_env *env, void *const *buffers, const int64_t *dims,
                                uint64_t group_begin, uint64_t group_end) {
  const float *x = (const float *)buffers[0];
  int64_t *positions = (int64_t *)buffers[1];
  int64_t *found = (int64_t *)env->scratch;
  (void)group_begin;
  (void)group_end;
  if (env->scratch_size < sizeof(int64_t)) {
    env->fault->code = OAAX_FAULT_VALUE;
    return OAAX_FAULT_VALUE;
  }
  *found = 0;
  for (int64_t i = 0; i < dims[0]; i++) {
    if (x[i] != 0.0f) positions[(*found)++] = i;
  }
  *(int64_t *)buffers[2] = *found;
  return 0;
}

/* Copies n int64 elements; buffers from, to; dims n. */
EXPORT int32_t demo_copy_i64(const oaax_kernel_env *env, void *const *buffers, const int64_t *dims,
                             uint64_t group_begin, uint64_t group_end) {
  const int64_t *from = (const int64_t *)buffers[0];
  int64_t *to = (int64_t *)buffers[1];
  (void)env;
  for (uint64_t i = group_begin * GRAIN; i < end_of(group_end, dims[0]); i++) to[i] = from[i];
  return 0;
}
