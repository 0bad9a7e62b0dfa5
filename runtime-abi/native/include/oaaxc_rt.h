/* liboaaxc_rt: opens and runs artefacts of oaaxc. Stands alone; C99 and C++11; LP64 hosts.
 *
 * One symbol is exported, oaaxc_rt_get_api; everything else is in the table that it gives.
 * Versions only add: new fields go to the ends of structs, and every struct that crosses the border
 * begins with its own size, so that old and new sides understand one another.
 *
 * Threads: a model and a session may be used by many threads at once; an error, and an output between
 * its run and its release, by one. Nothing here writes to files or standard streams. */
#ifndef OAAXC_RT_H
#define OAAXC_RT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OAAXC_RT_VERSION 1u

/* Status of a call; the error object says more. */
typedef int32_t oaaxc_status;
#define OAAXC_OK 0
#define OAAXC_INVALID_ARGUMENT 1 /* the caller broke the interface */
#define OAAXC_NOT_FOUND 2        /* a file does not exist or cannot be read */
#define OAAXC_INVALID_MODEL 3    /* damaged, of a later version, or no artefact */
#define OAAXC_TAMPERED 4         /* a digest does not fit */
#define OAAXC_UNSUPPORTED 5      /* nothing in the artefact runs on this machine */
#define OAAXC_SHAPE_MISMATCH 6
#define OAAXC_TYPE_MISMATCH 7
#define OAAXC_OUT_OF_MEMORY 8
#define OAAXC_RUN_FAILED 9       /* an index out of range, a failed check: see the node */
#define OAAXC_OUTPUT_TOO_SMALL 10
#define OAAXC_INTERNAL 11        /* a bug of the runtime */
#define OAAXC_NOT_IMPLEMENTED 12
#define OAAXC_DEVICE_ERROR 13    /* no device that the artefact needs, or a device's driver failed */

typedef struct oaaxc_error oaaxc_error;
typedef struct oaaxc_model oaaxc_model;
typedef struct oaaxc_session oaaxc_session;

/* Kinds of values. */
#define OAAXC_TENSOR 0u
#define OAAXC_SEQUENCE 1u
#define OAAXC_OPTIONAL 2u /* of ports; a value is OAAXC_ABSENT or one of the above */
#define OAAXC_ABSENT 3u

/* All zero but struct_size: the defaults. */
typedef struct oaaxc_open_options {
  uint32_t struct_size;
  uint32_t threads;            /* workers, the calling thread included; 0: one for each CPU */
  const char *cpu_level;       /* this level or a lower one, for example "x86-64-v3"; NULL: the best */
  const char *variant;         /* id, target or target family ("rocm") of a variant; NULL: what OAAX_TARGET in the
                                * environment names, else the first that runs here */
  const char *manifest_sha256; /* 64 hexadecimal digits: binds an unpacked folder; NULL: unbound */
  uint32_t verify_late;        /* 1: weights are verified before the first run, not at open */
  uint32_t reserved;
  const char *device;          /* "cpu", "gpu", "hip", "cuda", "opencl", with a number "hip:0"; NULL, "auto": any */
} oaaxc_open_options;

/* One dim of an input or output. */
typedef struct oaaxc_dim {
  int64_t size;       /* -1: known at run time */
  const char *symbol; /* "N", "2*H", or "" */
  int64_t min;        /* sizes that a run accepts */
  int64_t max;
  int64_t multiple;
} oaaxc_dim;

/* An input or output of a model; lives as long as the model. */
typedef struct oaaxc_port {
  uint32_t struct_size;
  uint32_t kind;  /* OAAXC_TENSOR, _SEQUENCE, _OPTIONAL */
  const char *name;
  uint32_t dtype; /* number of ONNX's TensorProto.DataType */
  int32_t rank;   /* -1: not known before a run */
  const oaaxc_dim *dims;
} oaaxc_port;

/* A tensor: row major, little endian, types below a byte packed with the first element lowest. */
typedef struct oaaxc_tensor {
  uint32_t struct_size;
  uint32_t dtype;
  uint32_t rank;
  uint32_t reserved;
  const int64_t *dims;
  const void *data; /* aligned to its element, or it is copied */
  uint64_t bytes;   /* exactly what dtype and dims say */
} oaaxc_tensor;

/* An input of a run. */
typedef struct oaaxc_value {
  uint32_t struct_size;
  uint32_t kind;  /* OAAXC_TENSOR, _SEQUENCE or _ABSENT */
  uint64_t count; /* 1 for a tensor */
  const oaaxc_tensor *tensors;
} oaaxc_value;

/* An output of a run. Zero it but struct_size, and data and capacity for memory of your own.
 * Give the same one to later runs (its memory is used again), release it when done. */
typedef struct oaaxc_output {
  uint32_t struct_size;
  uint32_t kind;     /* out: OAAXC_TENSOR, _SEQUENCE or _ABSENT */
  void *own_data;    /* in: your memory, aligned to the element; NULL: the runtime's */
  uint64_t capacity; /* in: bytes of your memory */
  const void *data;  /* out: the tensor's bytes (own_data where that was given) */
  uint64_t bytes;    /* out: of the tensor; after OAAXC_OUTPUT_TOO_SMALL: what is needed */
  uint32_t dtype;    /* out */
  uint32_t rank;     /* out */
  const int64_t *dims;       /* out, until the next run or release */
  uint64_t count;            /* out: number of items of a sequence or present optional */
  const oaaxc_tensor *items; /* out, until the next run or release */
  void *keep;                /* the runtime's; zero before the first run */
} oaaxc_output;

typedef struct oaaxc_rt_api {
  uint32_t struct_size;
  uint32_t version;
  /* Version of the library, for people: "0.1.0". */
  const char *(*library_version)(void);

  /* Errors. A function that fails gives its status and, where `error` is not NULL, an object to be released. */
  oaaxc_status (*error_status)(const oaaxc_error *error);
  const char *(*error_message)(const oaaxc_error *error);
  const char *(*error_node)(const oaaxc_error *error); /* the ONNX node to blame; NULL if there is none */
  void (*error_release)(oaaxc_error *error);

  /* Models: model.oaax, an unpacked /models folder, or an OCI layout folder. The files are mapped: do
   * not change them while the model is open. Options may be NULL. */
  oaaxc_status (*open)(const char *path, const oaaxc_open_options *options, oaaxc_model **model, oaaxc_error **error);
  /* An archive in memory; copied, so the bytes may be freed afterwards. */
  oaaxc_status (*open_memory)(const void *data, uint64_t bytes, const oaaxc_open_options *options, oaaxc_model **model,
                              oaaxc_error **error);
  void (*model_release)(oaaxc_model *model); /* sessions keep what they need */
  const char *(*model_info)(const oaaxc_model *model); /* a JSON object; lives as long as the model */
  uint32_t (*input_count)(const oaaxc_model *model);
  uint32_t (*output_count)(const oaaxc_model *model);
  const oaaxc_port *(*input)(const oaaxc_model *model, uint32_t index); /* NULL beyond the end */
  const oaaxc_port *(*output)(const oaaxc_model *model, uint32_t index);

  /* Sessions. */
  oaaxc_status (*session_create)(const oaaxc_model *model, oaaxc_session **session, oaaxc_error **error);
  void (*session_release)(oaaxc_session *session);
  /* Inputs and outputs in the model's order. Outputs must overlap nothing. Returns when all is done. */
  oaaxc_status (*run)(oaaxc_session *session, uint32_t input_count, const oaaxc_value *inputs, uint32_t output_count,
                      oaaxc_output *outputs, oaaxc_error **error);
  void (*output_release)(oaaxc_output *output);
} oaaxc_rt_api;

/* The table of the highest version in min..max that this library has; NULL if there is none.
 * The table lives as long as the library is loaded. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const oaaxc_rt_api *oaaxc_rt_get_api(uint32_t min_version, uint32_t max_version);
typedef const oaaxc_rt_api *(*oaaxc_rt_get_api_fn)(uint32_t min_version, uint32_t max_version);

#define OAAXC_RT_ASSERT(name, condition) typedef char oaaxc_rt_assert_##name[(condition) ? 1 : -1]
OAAXC_RT_ASSERT(options_are_48_bytes, sizeof(oaaxc_open_options) == 48);
OAAXC_RT_ASSERT(dim_is_40_bytes, sizeof(oaaxc_dim) == 40);
OAAXC_RT_ASSERT(port_is_32_bytes, sizeof(oaaxc_port) == 32);
OAAXC_RT_ASSERT(tensor_is_40_bytes, sizeof(oaaxc_tensor) == 40);
OAAXC_RT_ASSERT(value_is_24_bytes, sizeof(oaaxc_value) == 24);
OAAXC_RT_ASSERT(output_is_80_bytes, sizeof(oaaxc_output) == 80);
OAAXC_RT_ASSERT(api_is_144_bytes, sizeof(oaaxc_rt_api) == 144);

#ifdef __cplusplus
}
#endif
#endif
