/* The OAAX 1.x runtime interface, written from its published facts: nine functions, and nothing else
 * is exported. C99 and C++11.
 *
 * Order of calls: one of the two initialisations, runtime_model_loading (one model), then send_input
 * and receive_output from any threads, runtime_destruction, perhaps an initialisation again. The last
 * three functions may be called at any time.
 *
 * Memory: every block that crosses the border is its own malloc: the struct, its five arrays, and of
 * each tensor its name, shape and data. A successful send takes the input over; a successful receive
 * gives the output away. Outputs come in the order of the inputs. */
#ifndef OAAX1_RUNTIME_H
#define OAAX1_RUNTIME_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers of ONNX's TensorProto.DataType; 10 is not one of them. */
typedef enum tensor_data_type {
  DATA_TYPE_FLOAT = 1,
  DATA_TYPE_UINT8 = 2,
  DATA_TYPE_INT8 = 3,
  DATA_TYPE_UINT16 = 4,
  DATA_TYPE_INT16 = 5,
  DATA_TYPE_INT32 = 6,
  DATA_TYPE_INT64 = 7,
  DATA_TYPE_STRING = 8,
  DATA_TYPE_BOOL = 9,
  DATA_TYPE_DOUBLE = 11,
  DATA_TYPE_UINT32 = 12,
  DATA_TYPE_UINT64 = 13
} tensor_data_type;

/* Arrays of num_tensors entries; shapes[i] has ranks[i] entries, and data[i] as many bytes as type and
 * shape say. */
typedef struct tensors_struct {
  size_t num_tensors;
  char **names;
  tensor_data_type *data_types;
  size_t *ranks;
  size_t **shapes;
  void **data;
} tensors_struct;

/* All give 0 for success. */
int runtime_initialization(void);
int runtime_initialization_with_args(int length, const char **keys, const void **values);
int runtime_model_loading(const char *file_path);
int send_input(tensors_struct *input_tensors);
/* Waits up to 80 ms. A request that failed gives non-zero once, in its turn, and a message that names it. */
int receive_output(tensors_struct **output_tensors);
int runtime_destruction(void);
/* Never NULL. */
const char *runtime_error_message(void);
const char *runtime_version(void);
const char *runtime_name(void);

#ifdef __cplusplus
}
#endif
#endif
