/* Entry of a kernel in an oaaxc artefact: what a target emits and the runtime calls.
 * Stands alone; C99 and C++11. Version 1 for LP64 hosts (64-bit pointers).
 *
 * Promises to a kernel: `buffers` holds as many pointers as the kernel table says; none is NULL;
 * inputs and outputs of the model are aligned to their element, everything else to 64 bytes;
 * `dims` holds the kernel's free symbols in order; 0 <= group_begin < group_end <= group count.
 * Groups of one launch may run at the same time on several workers, in any order and split.
 * A kernel must not call anything, keep state, or touch memory outside its buffers and scratch. */
#ifndef OAAXC_KERNEL_H
#define OAAXC_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OAAX_KERNEL_VERSION 1u

/* Codes of a fault. */
#define OAAX_FAULT_NONE 0
#define OAAX_FAULT_INDEX 1    /* value lies outside [-limit, limit) */
#define OAAX_FAULT_DIVISION 2 /* integer division by zero */
#define OAAX_FAULT_VALUE 3    /* value breaks a rule of its operator */

/* Filled by a kernel before it returns a status other than 0. */
typedef struct oaax_kernel_fault {
  int32_t code;
  uint32_t place; /* 0: the node of the launch; else an index in the kernel's list of ONNX nodes */
  int64_t value;
  int64_t limit;
} oaax_kernel_fault;

typedef struct oaax_kernel_env {
  uint32_t struct_size; /* sizeof(oaax_kernel_env) of the runtime; fields may be added at the end */
  uint32_t version;     /* OAAX_KERNEL_VERSION of the runtime */
  uint32_t worker;      /* index of the calling worker */
  uint32_t workers;     /* number of workers that may run this launch */
  void *scratch;        /* this worker's own, 64-byte aligned, contents undefined */
  uint64_t scratch_size;
  oaax_kernel_fault *fault; /* this worker's own */
} oaax_kernel_env;

/* Runs the groups [group_begin, group_end). Returns 0, or another status after filling env->fault. */
typedef int32_t (*oaax_kernel_fn)(const oaax_kernel_env *env, void *const *buffers, const int64_t *dims,
                                  uint64_t group_begin, uint64_t group_end);

#define OAAX_KERNEL_ASSERT(name, condition) typedef char oaax_kernel_assert_##name[(condition) ? 1 : -1]
OAAX_KERNEL_ASSERT(fault_is_24_bytes, sizeof(oaax_kernel_fault) == 24);
OAAX_KERNEL_ASSERT(env_is_40_bytes, sizeof(oaax_kernel_env) == 40);

#ifdef __cplusplus
}
#endif
#endif
